//! What can go wrong.

use std::fmt;

/// An expression was refused. The text begins as the reference's does (`docs/spec/cel.md` §7).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// It is no CEL expression of the environment.
    #[error("compilation failed: ERROR: <input>:{line}:{column}: {message}")]
    Invalid {
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// Its result can be no bool.
    #[error("must evaluate to bool or the unknown type, not {0}")]
    ResultType(
        /// The type as the API server writes it.
        String,
    ),
    /// A constant part of it has no value.
    #[error("program instantiation failed: {0}")]
    Constant(
        /// What is wrong.
        String,
    ),
}

/// An evaluation ended without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EvalError {
    /// Why there is no answer.
    pub reason: EvalFailure,
    /// Cost units used until then.
    pub cost: u64,
    /// As of [`Outcome::steps`](crate::Outcome::steps).
    pub steps: u64,
}

/// Why an evaluation ended without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EvalFailure {
    /// The expression has no value for the device, in the reference's words.
    Failed(String),
    /// The cost budget was used up.
    CostLimit,
    /// More memory would have been needed than one evaluation may have.
    MemoryLimit,
    /// More time would have been needed than the budget is worth.
    StepLimit,
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.reason {
            EvalFailure::Failed(message) => message,
            EvalFailure::CostLimit => "operation cancelled: actual cost limit exceeded",
            EvalFailure::MemoryLimit => {
                "operation cancelled: intermediate values are larger than allowed"
            }
            EvalFailure::StepLimit => "operation cancelled: more comparisons than allowed",
        })
    }
}

impl std::error::Error for EvalError {}

/// Why a part of an expression has no value, while evaluating.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// An error of the language, which `||` and `&&` may absorb.
    Error(Message),
    /// The evaluation must end.
    Stop(EvalStop),
}

/// A message that is formatted only when it is read: `||` and `&&` drop many errors.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    Static(&'static str),
    Text(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EvalStop {
    Cost,
    Memory,
    Steps,
    /// The reference panics, because Go cannot hash values of that type, and makes an error of it.
    Unhashable(&'static str),
}

impl EvalStop {
    pub(crate) fn reason(self) -> EvalFailure {
        match self {
            Self::Cost => EvalFailure::CostLimit,
            Self::Memory => EvalFailure::MemoryLimit,
            Self::Steps => EvalFailure::StepLimit,
            Self::Unhashable(go_type) => {
                let why =
                    format!("internal error: runtime error: hash of unhashable type {go_type}");
                EvalFailure::Failed(why)
            }
        }
    }
}

impl Fault {
    pub(crate) fn text(message: impl Into<String>) -> Self {
        Self::Error(Message::Text(message.into()))
    }

    pub(crate) const NO_OVERLOAD: Self = Self::Error(Message::Static("no such overload"));

    pub(crate) fn conversion(from: &str, to: &str) -> Self {
        Self::text(format!("type conversion error from '{from}' to '{to}'"))
    }
}

impl From<&'static str> for Fault {
    fn from(message: &'static str) -> Self {
        Self::Error(Message::Static(message))
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Static(text) => text,
            Self::Text(text) => text,
        })
    }
}
