//! Runs benchmark definitions in the format of the reference's scheduler_perf.
//!
//! A definition file holds test cases: sequences of operations, and workloads that fill in their parameters. Each workload
//! gets an API server of its own (in memory, kube-apiserver with etcd, or one that is there and is left as it was found)
//! and our scheduler in this process. Results have the form that the reference's dashboards read.
//!
//! Reading order: `definition` and `op` are the file format, `go_template` and `params` what is filled in; `cluster` is
//! where it happens, `pods` what is seen of it; `execute` carries operations out while `collect` measures.

mod cluster;
mod collect;
mod data_items;
mod definition;
mod execute;
mod go_template;
mod histograms;
mod label_filter;
mod objects;
mod op;
mod params;
mod pods;
mod run;
mod versions;

pub use data_items::{DataItem, DataItems};
pub use definition::Definitions;
pub use label_filter::{LabelFilter, is_meant};
pub use run::{Outcome, RunOptions, run_workload};
