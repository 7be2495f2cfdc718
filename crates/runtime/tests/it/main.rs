//! Tests of profiles and of the runner through the public API, with plugins whose answers are data.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]

mod after_filter;
mod filtering;
mod nominations;
mod pre_filtering;
mod profiles;
mod rejections;
mod toy;
mod weights;
