//! Environments and programs: what callers see.

use crate::check;
use crate::device::DeviceInput;
use crate::error::{CompileError, EvalError, EvalFailure, Fault};
use crate::estimate;
use crate::eval;
use crate::functions::pattern::Patterns;
use crate::limits;
use crate::parser::{self, SyntaxError};
use crate::plan::{self, Plan};
use crate::types::Type;
use crate::validate;
use crate::value::Value;

/// What reading and checking one byte of an expression takes.
const STEPS_PER_BYTE: u64 = 30;
/// What one node of an expression's tree becomes, patterns aside.
const BYTES_PER_NODE: usize = 160;

/// What expressions may refer to: the variable `device` and the functions of the API server's environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    options: Options,
}

/// Which optional parts an environment has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Attributes may be lists, and `includes` exists (feature gate DRAListTypeAttributes).
    pub list_type_attributes: bool,
}

impl Environment {
    /// The environment for selectors of devices.
    pub fn devices(options: Options) -> Self {
        Self { options }
    }

    /// Compiles an expression, once for any number of evaluations.
    ///
    /// # Errors
    /// If the API server would refuse the expression, or if it is nested too deeply. The message says where and why.
    pub fn compile(&self, expression: &str) -> Result<Program, CompileError> {
        self.compile_metered(expression, &mut 0)
    }

    /// As [`compile`](Self::compile). Adds to `steps` what it takes, in steps of some 5 ns, also where the expression is refused.
    ///
    /// # Errors
    /// As of [`compile`](Self::compile).
    pub fn compile_metered(
        &self,
        expression: &str,
        steps: &mut u64,
    ) -> Result<Program, CompileError> {
        let mut patterns = Patterns::default();
        let result = self.compile_with(expression, &mut patterns);
        let reading = STEPS_PER_BYTE * expression.len().min(limits::MAX_EXPRESSION_BYTES) as u64;
        *steps = steps.saturating_add(reading + patterns.steps());
        result
    }

    fn compile_with(
        &self,
        expression: &str,
        patterns: &mut Patterns,
    ) -> Result<Program, CompileError> {
        let at = |error: SyntaxError| located(expression, &error);
        let has_lists = self.options.list_type_attributes;
        let (ast, root) = parser::parse(expression).map_err(at)?;
        let checked = check::check(ast, root, has_lists).map_err(at)?;
        validate::validate(&checked, patterns).map_err(at)?;
        let output_type = checked.type_of(checked.root).clone();
        let is_fine = match output_type {
            Type::Bool | Type::Any => true,
            Type::Dyn => has_lists,
            _ => false,
        };
        if !is_fine {
            return Err(CompileError::ResultType(output_type.to_string()));
        }
        let (plan, slots) = plan::plan(&checked, patterns)?;
        let estimated_cost = estimate::worst_cost(&checked);
        let n_bytes = BYTES_PER_NODE * checked.ast.len() + patterns.n_bytes();
        Ok(Program { plan, slots, output_type, estimated_cost, has_lists, n_bytes })
    }
}

fn located(expression: &str, error: &SyntaxError) -> CompileError {
    let mut offset = error.offset.min(expression.len());
    while !expression.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = &expression[..offset];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    CompileError::Invalid {
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
        message: error.message.clone(),
    }
}

/// A compiled expression. It can be shared between threads; evaluating does not change it.
#[derive(Debug)]
pub struct Program {
    plan: Plan,
    slots: usize,
    output_type: Type,
    estimated_cost: u64,
    has_lists: bool,
    n_bytes: usize,
}

/// What an expression says about a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// Whether the device is selected.
    pub value: bool,
    /// The cost of the evaluation, in the units of the reference.
    pub cost: u64,
    /// Work that this cost does not see, such as patterns that are compiled while evaluating, in steps of some 5 ns.
    pub steps: u64,
}

impl Program {
    /// The static type of the result: bool, or one that is decided at run time.
    pub fn output_type(&self) -> &Type {
        &self.output_type
    }

    /// The most cost units an evaluation can use, as the API server estimates them; the largest number if there is no bound.
    pub fn estimated_cost(&self) -> u64 {
        self.estimated_cost
    }

    /// About how many bytes it takes.
    pub fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Evaluates for a device, with at most `budget` cost units ([`SELECTOR_COST_LIMIT`](crate::SELECTOR_COST_LIMIT) in
    /// the scheduler). The same device always gives the same outcome.
    ///
    /// # Errors
    /// If the expression fails, has another value than a boolean, or exceeds a limit; the error has the cost up to there. An
    /// attribute without usable value fails every evaluation for the device, whether it is read or not.
    pub fn evaluate<'a>(
        &'a self,
        device: &'a DeviceInput<'a>,
        budget: u64,
    ) -> Result<Outcome, EvalError> {
        if let Some((name, why)) = device.unusable(self.has_lists) {
            let reason = EvalFailure::Failed(format!("attribute {name}: {why}"));
            return Err(EvalError { reason, cost: 0, steps: 0 });
        }
        let (result, used) = eval::evaluate(&self.plan, self.slots, device, budget);
        let (cost, steps) = (used.cost(), used.work());
        let reason = match result {
            Ok(value) => match as_bool(&value) {
                Some(value) => return Ok(Outcome { value, cost, steps }),
                None => EvalFailure::Failed(value.not_a_bool()),
            },
            Err(Fault::Error(message)) => EvalFailure::Failed(message.to_string()),
            Err(Fault::Stop(stop)) => stop.reason(),
        };
        Err(EvalError { reason, cost, steps })
    }
}

/// An optional counts as what is in it.
fn as_bool(value: &Value<'_>) -> Option<bool> {
    match value {
        Value::Bool(value) => Some(*value),
        Value::Optional(Some(value)) => as_bool(value),
        _ => None,
    }
}
