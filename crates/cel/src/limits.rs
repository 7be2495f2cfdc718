//! What an expression and its evaluation may use at most.

/// Bytes of an expression; the API server accepts no longer selector.
pub const MAX_EXPRESSION_BYTES: usize = 10 * 1024;
/// Levels of an expression's tree, macros expanded.
pub(crate) const MAX_DEPTH: u32 = 250;
/// Nodes of an expression's tree, macros expanded.
pub(crate) const MAX_NODES: usize = 50_000;
/// Cost units of one evaluation of a device selector.
pub const SELECTOR_COST_LIMIT: u64 = 1_000_000;
/// Bytes that one evaluation may build, all intermediate values together.
pub(crate) const MAX_VALUE_BYTES: u64 = 64 << 20;
/// Steps that cost nothing in CEL's model but take time, some 5 ns each: elements compared, patterns compiled.
pub(crate) const MAX_STEPS: u64 = 10_000_000;
/// Those that compiling the constant patterns of an expression may take.
pub(crate) const MAX_PATTERN_STEPS: u64 = 2_500_000;
/// Bytes that the automaton of a regular expression may have.
pub(crate) const MAX_REGEX_BYTES: usize = 256 << 10;
/// Values an attribute list may have for `includes`.
pub(crate) const MAX_INCLUDES_VALUES: usize = 48;
/// Largest budget of one evaluation.
pub(crate) const MAX_BUDGET: u64 = 1 << 40;
/// Bytes that an element of a list counts as.
pub(crate) const ELEMENT_BYTES: u64 = 56;
