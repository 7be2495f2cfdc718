//! CEL as Kubernetes device selectors use it.

mod ast;
mod check;
mod cost;
mod declarations;
mod device;
mod error;
mod estimate;
mod eval;
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
mod validate;
mod value;

pub use device::{AttributeValue, Device, Strings};
pub use error::{CompileError, EvalError, Reason};
pub use limits::{MAX_EXPRESSION_BYTES, SELECTOR_COST_LIMIT};
pub use program::{Environment, Options, Outcome, Program};
pub use semver::{Version, VersionError};
pub use types::Type;
