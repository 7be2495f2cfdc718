//! Selectors, evaluated once per expression and kind of device.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use kube_scheduler_api_types::{KeyedMap, lock};

use crate::api::ResourceSlice;
use crate::facts::DeviceFacts;
use crate::inventory::Inventory;

/// Why an expression is no selector, or does not say whether it selects a device; in the words of what compiles or evaluates it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ExpressionError(String);

impl From<String> for ExpressionError {
    fn from(reason: String) -> Self {
        Self(reason)
    }
}

/// Turns the texts of expressions into selectors.
pub trait SelectorCompiler: Send + Sync {
    /// Compiles one expression. Adds to `cost` what that takes, as [`Selector::matches`] does, also if there is an error.
    ///
    /// # Errors
    /// If it is no selector; the text is what follows `CEL compile error: `.
    fn compile(
        &self,
        expression: &str,
        cost: &mut u64,
    ) -> Result<Box<dyn Selector>, ExpressionError>;
}

/// A compiled expression. The answer depends on the device alone.
pub trait Selector: Send + Sync {
    /// About how many bytes it takes.
    fn n_bytes(&self) -> usize;

    /// Whether the device is selected. Adds to `cost` what it takes to say so, in units of the reference's cost model, and what that model
    /// does not see, in steps that take about as long as a unit.
    ///
    /// # Errors
    /// If that cannot be said; the text is what follows `CEL runtime error: `.
    fn matches(&self, device: DeviceFacts<'_>, cost: &mut u64) -> Result<bool, ExpressionError>;
}

/// How many expressions are remembered for one inventory, and how many bytes they may take.
const MAX_EXPRESSIONS: usize = 1024;
const MAX_BYTES: usize = 8 << 20;

/// The answers of selectors for the devices of one inventory. Devices that look alike to selectors share an answer.
pub struct SelectorTable {
    inventory: Arc<Inventory>,
    columns: Mutex<Columns>,
}

#[derive(Default)]
struct Columns {
    by_expression: KeyedMap<Arc<str>, Arc<Column>>,
    n_bytes: usize,
}

impl Columns {
    fn insert(&mut self, expression: Arc<str>, column: Arc<Column>) {
        self.n_bytes += column.n_bytes(&expression);
        self.by_expression.insert(expression, column);
    }
}

/// One expression and its answers by shape.
pub(crate) struct Column {
    selector: Arc<Result<Box<dyn Selector>, ExpressionError>>,
    answers: Box<[AtomicU8]>,
}

const UNKNOWN: u8 = 0;
const NO: u8 = 1;
const YES: u8 = 2;

/// What went wrong with a selector.
pub(crate) enum SelectorError {
    Compile(ExpressionError),
    Runtime(ExpressionError),
}

impl SelectorTable {
    /// A table without answers yet.
    pub fn new(inventory: Arc<Inventory>) -> Arc<Self> {
        Arc::new(Self { inventory, columns: Mutex::default() })
    }

    /// A table about these slices, which takes over the answers about devices that look like those of this one.
    pub fn updated(&self, slices: impl IntoIterator<Item = Arc<ResourceSlice>>) -> Arc<Self> {
        let inventory = Arc::new(self.inventory.updated(slices.into_iter().collect()));
        if inventory.is_unlike(&self.inventory) {
            return Self::new(inventory);
        }
        let n_shapes = inventory.n_shapes();
        let columns = lock(&self.columns);
        let mut grown = Columns::default();
        for (expression, column) in &columns.by_expression {
            grown.insert(expression.clone(), Arc::new(column.grown(n_shapes)));
        }
        Arc::new(Self { columns: Mutex::new(grown), inventory })
    }

    /// Makes a pool for the tables to come, given its driver and name and all of its slices, so that [`updated`](Self::updated) finds
    /// it; drops what was made for it if there are none. Makes no difference to what that returns. O(devices of the pool).
    pub fn prepare(&self, pool: (Arc<str>, Arc<str>), slices: Vec<Arc<ResourceSlice>>) {
        self.inventory.prepare(pool, slices);
    }

    /// About how many bytes the expressions and answers take.
    pub fn n_bytes(&self) -> usize {
        lock(&self.columns).n_bytes
    }

    /// The inventory whose devices it is about.
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// The answers of one expression, compiled now if this is the first time. Adds what that takes to `cost`.
    pub(crate) fn column(
        &self,
        expression: &Arc<str>,
        compiler: &dyn SelectorCompiler,
        cost: &mut u64,
    ) -> Arc<Column> {
        let mut columns = lock(&self.columns);
        if let Some(column) = columns.by_expression.get(expression) {
            return column.clone();
        }
        let answers = (0..self.inventory.n_shapes()).map(|_| AtomicU8::new(UNKNOWN)).collect();
        let selector = Arc::new(compiler.compile(expression, cost));
        let column = Arc::new(Column { selector, answers });
        if columns.by_expression.len() >= MAX_EXPRESSIONS || columns.n_bytes >= MAX_BYTES {
            *columns = Columns::default();
        }
        columns.insert(expression.clone(), column.clone());
        column
    }
}

impl Column {
    fn n_bytes(&self, expression: &str) -> usize {
        let selector = match &*self.selector {
            Ok(selector) => selector.n_bytes(),
            Err(error) => error.0.len(),
        };
        expression.len() + self.answers.len() + selector
    }

    /// This selector, with room for the answers about so many shapes.
    fn grown(&self, n_shapes: usize) -> Self {
        let known = self.answers.iter().map(|answer| answer.load(Ordering::Relaxed));
        let answers = known.chain(std::iter::repeat(UNKNOWN)).take(n_shapes).map(AtomicU8::new);
        Self { selector: self.selector.clone(), answers: answers.collect() }
    }

    /// Whether devices of `shape` are selected; `facts` are those of such a device. An answer that is known costs nothing.
    pub(crate) fn matches(
        &self,
        shape: u32,
        facts: DeviceFacts<'_>,
        cost: &mut u64,
    ) -> Result<bool, SelectorError> {
        let answer = self.answers.get(shape as usize);
        // Two threads may evaluate the same at the same time, with the same result.
        match answer.map_or(UNKNOWN, |answer| answer.load(Ordering::Relaxed)) {
            NO => return Ok(false),
            YES => return Ok(true),
            // The text of an error is not kept: it ends the attempt.
            _ => {}
        }
        let result = self.evaluate(facts, cost);
        if let (Some(answer), Ok(is_match)) = (answer, &result) {
            answer.store(if *is_match { YES } else { NO }, Ordering::Relaxed);
        }
        result
    }

    /// The answer about a device, which is not kept: for facts that are not quite those of a shape.
    pub(crate) fn evaluate(
        &self,
        facts: DeviceFacts<'_>,
        cost: &mut u64,
    ) -> Result<bool, SelectorError> {
        let selector =
            (*self.selector).as_ref().map_err(|error| SelectorError::Compile(error.clone()))?;
        selector.matches(facts, cost).map_err(SelectorError::Runtime)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cel::CelSelectors;
    use crate::features::Features;

    fn table() -> Arc<SelectorTable> {
        SelectorTable::new(Arc::new(Inventory::new(Vec::new(), Features::default())))
    }

    #[test]
    fn compiling_costs_once() {
        let (table, compiler) = (table(), CelSelectors::default());
        let cost = |expression: &str| {
            let mut cost = 0;
            table.column(&expression.into(), &compiler, &mut cost);
            cost
        };
        let dear = r"device.driver.matches(r'\p{L}{4}')";
        assert!(cost(dear) > 500_000);
        assert_eq!(cost(dear), 0);
        assert!((1..1_000).contains(&cost("device.driver == 'a'")));
        assert!(cost(r"device.driver.matches(r'\p{L}{1000}')") > 500_000, "it is refused");
    }

    #[test]
    fn what_is_remembered_is_bounded_in_bytes() {
        let (table, compiler) = (table(), CelSelectors::default());
        for at in 0..200 {
            let expression = format!(r"device.driver.matches(r'{at}\p{{L}}{{4}}')");
            table.column(&expression.into(), &compiler, &mut 0);
            let columns = table.columns.lock().unwrap();
            let all = columns.by_expression.iter().map(|(text, column)| column.n_bytes(text));
            assert_eq!(columns.n_bytes, all.sum::<usize>());
            assert!(columns.n_bytes < MAX_BYTES + (1 << 20), "{}", columns.n_bytes);
        }
    }
}
