//! An expression as a tree in one vector, macros expanded.

use std::sync::Arc;

use crate::limits;

/// A node's place in [`Ast::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeId(u32);

impl NodeId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
}

#[derive(Clone, Debug)]
pub(crate) struct Element {
    pub(crate) value: NodeId,
    pub(crate) is_optional: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: NodeId,
    pub(crate) value: NodeId,
    pub(crate) is_optional: bool,
}

/// A loop over `range`; every macro but `has` becomes one.
#[derive(Clone, Debug)]
pub(crate) struct Comprehension {
    pub(crate) variable: Arc<str>,
    pub(crate) second_variable: Option<Arc<str>>,
    pub(crate) range: NodeId,
    pub(crate) accumulator: Arc<str>,
    pub(crate) start: NodeId,
    pub(crate) condition: NodeId,
    pub(crate) step: NodeId,
    pub(crate) result: NodeId,
}

#[derive(Clone, Debug)]
pub(crate) enum Expr {
    Literal(Literal),
    Identifier(Arc<str>),
    Select {
        operand: NodeId,
        field: Arc<str>,
        is_test: bool,
    },
    Call {
        function: Arc<str>,
        receiver: Option<NodeId>,
        arguments: Vec<NodeId>,
    },
    /// `&&` of two or more terms.
    And(Vec<NodeId>),
    /// `||` of two or more terms.
    Or(Vec<NodeId>),
    List(Vec<Element>),
    Map(Vec<Entry>),
    Comprehension(Box<Comprehension>),
}

impl Expr {
    pub(crate) fn children(&self) -> Vec<NodeId> {
        match self {
            Self::Literal(_) | Self::Identifier(_) => Vec::new(),
            Self::Select { operand, .. } => vec![*operand],
            Self::Call { receiver, arguments, .. } => {
                receiver.iter().chain(arguments).copied().collect()
            }
            Self::And(terms) | Self::Or(terms) => terms.clone(),
            Self::List(elements) => elements.iter().map(|element| element.value).collect(),
            Self::Map(entries) => {
                entries.iter().flat_map(|entry| [entry.key, entry.value]).collect()
            }
            Self::Comprehension(c) => vec![c.range, c.start, c.condition, c.step, c.result],
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) expr: Expr,
    /// Byte offset in the text.
    pub(crate) offset: u32,
    depth: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Ast {
    nodes: Vec<Node>,
}

/// The tree grew over a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

impl Ast {
    pub(crate) fn add(&mut self, expr: Expr, offset: u32) -> Result<NodeId, TooLarge> {
        let depth =
            1 + expr.children().into_iter().map(|child| self.node(child).depth).max().unwrap_or(0);
        let id = u32::try_from(self.nodes.len()).map_err(|_| TooLarge)?;
        if self.nodes.len() >= limits::MAX_NODES || depth > limits::MAX_DEPTH {
            return Err(TooLarge);
        }
        self.nodes.push(Node { expr, offset, depth });
        Ok(NodeId(id))
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)).map(NodeId)
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    pub(crate) fn expr(&self, id: NodeId) -> &Expr {
        &self.node(id).expr
    }

    /// Another tree like that under `id`.
    pub(crate) fn copy(&mut self, id: NodeId) -> Result<NodeId, TooLarge> {
        let Node { mut expr, offset, .. } = self.node(id).clone();
        match &mut expr {
            Expr::Literal(_) | Expr::Identifier(_) => {}
            Expr::Select { operand, .. } => *operand = self.copy(*operand)?,
            Expr::Call { receiver, arguments, .. } => {
                for child in receiver.iter_mut().chain(arguments) {
                    *child = self.copy(*child)?;
                }
            }
            Expr::And(terms) | Expr::Or(terms) => {
                for term in terms {
                    *term = self.copy(*term)?;
                }
            }
            Expr::List(elements) => {
                for element in elements {
                    element.value = self.copy(element.value)?;
                }
            }
            Expr::Map(entries) => {
                for entry in entries {
                    entry.key = self.copy(entry.key)?;
                    entry.value = self.copy(entry.value)?;
                }
            }
            Expr::Comprehension(c) => {
                for child in
                    [&mut c.range, &mut c.start, &mut c.condition, &mut c.step, &mut c.result]
                {
                    *child = self.copy(*child)?;
                }
            }
        }
        self.add(expr, offset)
    }

    /// `a.b.c` as a name, if the expression is nothing else.
    pub(crate) fn qualified_name(&self, id: NodeId) -> Option<String> {
        match self.expr(id) {
            Expr::Identifier(name) => Some(name.strip_prefix('.').unwrap_or(name).to_owned()),
            Expr::Select { operand, field, is_test: false } => {
                let mut name = self.qualified_name(*operand)?;
                name.push('.');
                name.push_str(field);
                Some(name)
            }
            _ => None,
        }
    }

    /// Whether the comprehension only binds a variable (`cel.bind`): it loops over nothing.
    pub(crate) fn is_bind(&self, comprehension: &Comprehension) -> bool {
        matches!(self.expr(comprehension.range), Expr::List(elements) if elements.is_empty())
            && matches!(self.expr(comprehension.condition), Expr::Literal(Literal::Bool(false)))
            && &*comprehension.accumulator != crate::parser::ACCUMULATOR
    }
}
