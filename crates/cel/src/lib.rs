//! CEL as Kubernetes uses it to select devices (dynamic resource allocation, v1.36).
//!
//! An [`Environment`] compiles an expression into a [`Program`], which is evaluated for a [`DeviceInput`] within a cost budget.
//! Results, error texts and costs are the reference's (`docs/spec/cel.md`).
//!
//! ```
//! use kube_scheduler_api_types::Quantity;
//! use kube_scheduler_cel::{AttributeValue, DeviceInput, Environment, SELECTOR_COST_LIMIT, Version};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let program = Environment::default().compile(
//!     r#"device.attributes["gpu.example.com"].version.isGreaterThan(semver("1.0.0"))
//!        && device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0"#,
//! )?;
//! assert_eq!(program.output_type().to_string(), "bool");
//! assert_eq!(program.estimated_cost(), 13);
//!
//! let version = Version::parse("1.2.3")?;
//! let device = DeviceInput {
//!     driver: "gpu.example.com",
//!     allow_multiple_allocations: false,
//!     attributes: &[("version", AttributeValue::Version(&version))],
//!     capacity: &[("memory", &Quantity::parse("80Gi")?)],
//! };
//! let outcome = program.evaluate(&device, SELECTOR_COST_LIMIT)?;
//! assert!(outcome.value);
//! assert_eq!(outcome.cost, 13);
//!
//! let refused = Environment::default().compile("device.model == 'a100'").unwrap_err();
//! assert_eq!(refused.to_string(), "compilation failed: ERROR: <input>:1:7: undefined field 'model'");
//! # Ok(())
//! # }
//! ```
//!
//! The stages, each in its module: `lexer` and `parser` (with macros), `check` (types and overloads), `validate` (literals),
//! `plan` (names become slots, constants are computed), `eval` (with `meter` and `cost`), and `estimate` for the worst case.
//! [`Environment::compile`] and [`Program::evaluate`] take any text and any device, so they are what a fuzzer calls.

mod address;
mod ast;
mod check;
mod cost;
mod declarations;
mod device;
mod error;
mod estimate;
mod eval;
mod float;
mod formats;
mod functions;
mod lexer;
mod limits;
mod meter;
mod parser;
mod plan;
mod program;
mod quote;
mod semver;
mod time;
mod types;
mod url;
mod validate;
mod value;

pub use device::{AttributeValue, DeviceInput, Strings};
pub use error::{CompileError, EvalError, EvalFailure};
pub use limits::{MAX_EXPRESSION_BYTES, SELECTOR_COST_LIMIT};
pub use program::{Environment, Options, Outcome, Program};
pub use semver::{Version, VersionError};
pub use types::Type;

/// The code of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
