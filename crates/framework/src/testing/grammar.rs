//! A text grammar for fixtures: one small cluster in one string.
//!
//! ```
//! use kube_scheduler_framework::testing::fixture;
//!
//! let fixture = fixture(
//!     "node a cpu=4 zone=x taint:dedicated=db:NoSchedule
//!      node b cpu=2 zone=y                              # 8 GiB and 110 pods, the defaults
//!      pod web-0 cpu=500m label:app=web node=a
//!      pod other/web-1 anti-affinity='host:app in (web, api)'; pvc data storage=1Gi class=fast",
//! );
//! assert_eq!(fixture.cluster().n_nodes(), 2);
//! assert_eq!(fixture.view("a").requested_milli_cpu(), 500);
//! ```
//!
//! # Grammar
//!
//! ```text
//! fixture   = { statement ( newline | ";" ) }         # starts a comment where a word could start
//! statement = KIND [NAMESPACE "/"] NAME { word } | "object" JSON
//! word      = FLAG | WORD "=" VALUE | WORD ":" KEY "=" VALUE | JSON
//! ```
//!
//! Words are separated by spaces. Parts that contain spaces or semicolons stand in `'single'` or `"double"` quotes. A JSON
//! object may span lines; as a word it is merged into the API object, map by map, so that everything can be said that has no
//! word. `WORD={...}` gives an item of a list (a toleration, a constraint, a volume) as the API has it. `WORD=-` removes what
//! the kind starts with: `pod p node=n1`, `node n cpu=-`. A word that makes an item can be repeated.
//!
//! `zone`, `region` and `host` stand for `topology.kubernetes.io/zone`, `topology.kubernetes.io/region` and
//! `kubernetes.io/hostname`, as words of a node and as topology keys. All other keys are literal. SELECTOR is what
//! `kubectl -l` takes: `app=web,tier in (a,b),!old`; QUANTITY and TIME are as in the API.
//!
//! # Kinds and their words
//!
//! ```text
//! any kind        label:KEY=VALUE annotation:KEY=VALUE uid=TEXT version=TEXT created=TIME deleted=TIME owner=UID
//! node            RESOURCE=QUANTITY (allocatable) zone=ZONE region=REGION host=HOST taint:KEY[=VALUE]:EFFECT unschedulable
//!                 image=NAME[=SIZE] feature=NAME
//! pod             RESOURCE=QUANTITY (request) node=NODE nominated=NODE priority=NUMBER preemption=POLICY scheduler=NAME
//!                 selector:KEY=VALUE node-affinity=SELECTOR prefer-node-affinity=WEIGHT:SELECTOR
//!                 tolerate:KEY[=VALUE][:EFFECT] (the key * tolerates every taint)
//!                 affinity=TOPOLOGY:SELECTOR prefer-affinity=WEIGHT:TOPOLOGY:SELECTOR
//!                 anti-affinity=TOPOLOGY:SELECTOR prefer-anti-affinity=WEIGHT:TOPOLOGY:SELECTOR
//!                 spread=TOPOLOGY:SKEW[:SELECTOR] prefer-spread=TOPOLOGY:SKEW[:SELECTOR]
//!                 claim=NAME ephemeral=NAME volume=JSON port=[IP:]PORT[/PROTOCOL] image=NAME gate=NAME
//!                 group=NAME started=TIME phase=PHASE
//! namespace
//! pvc             storage=QUANTITY class=NAME access=MODE[,MODE] volume=PV bound=PV selector=SELECTOR mode=MODE phase=PHASE
//! pv              storage=QUANTITY class=NAME access=MODE[,MODE] claim=[NAMESPACE/]NAME[:UID] csi=DRIVER[:HANDLE]
//!                 node-affinity=SELECTOR mode=MODE phase=PHASE
//! storageclass    provisioner=NAME binding=MODE
//! csinode         driver=NAME[:COUNT]
//! csidriver
//! attachment      driver=NAME node=NODE volume=PV
//! capacity        class=NAME free=QUANTITY topology=SELECTOR
//! service         selector:KEY=VALUE
//! pdb             selector=SELECTOR allowed=NUMBER
//! deviceclass     resource=NAME
//! podgroup        min=NUMBER (without, its pods do not wait for each other) topology=TOPOLOGY priority=NUMBER
//! priorityclass   value=NUMBER
//! ```
//!
//! A node starts with 4 CPUs, 8 GiB, room for 110 pods and its name as host name; a pod with the namespace and the profile
//! `default` and `default-scheduler` and one container that asks for nothing; claims and volumes with 1 GiB, `ReadWriteOnce`, no
//! class, and as pending or available; a storage class with no provisioner and with binding at the first consumer. The UID is
//! the name, with `-uid` behind it for kinds that have a namespace.
//!
//! [`node`], [`pod`](super::pod) and [`object`](super::object) take one statement each; their builders are the form for what a
//! program computes. Both make the same values by the same code.
//!
//! Invariants: any text gives statements or an error, never a panic; the order of statements is kept.
//!
//! [`node`]: super::node

mod kinds;
mod lexer;
#[cfg(test)]
mod tests;
mod words;

use std::fmt;

use kube_scheduler_api_types::{Node, Object, Pod};
use serde_json::Value;

pub(super) use kinds::{NODE, POD};

use self::kinds::Kind;
use self::lexer::{Lexer, Token};
use super::objects::{NodeBuilder, ObjectBuilder, PodBuilder};

/// What one statement of a fixture describes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Statement {
    /// `node …`
    Node(NodeBuilder),
    /// `pod …`
    Pod(PodBuilder),
    /// Any other kind.
    Object(ObjectBuilder),
}

/// Why a text is no fixture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GrammarError {
    /// The line where the statement starts, from 1.
    pub(super) line: usize,
    /// The word that is wrong, as it was read; empty at the end of the statement.
    pub(super) word: String,
    /// What is wrong with it, and what is allowed.
    pub(super) problem: String,
}

impl fmt::Display for GrammarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        if !self.word.is_empty() {
            write!(f, "{:?}: ", self.word)?;
        }
        f.write_str(&self.problem)
    }
}

/// Reads a fixture, statement by statement.
///
/// # Errors
/// The first word that is wrong, with what is allowed in its place.
pub(super) fn statements(text: &str) -> Result<Vec<Statement>, GrammarError> {
    let mut lexer = Lexer::new(text);
    let mut all = Vec::new();
    while let Some(tokens) = lexer.next_statement()? {
        let mut reader = Reader { tokens: tokens.into_iter(), line: lexer.line() };
        all.push(reader.statement()?);
    }
    Ok(all)
}

/// Reads one statement without the word for its kind.
pub(super) fn one_of(kind: &Kind, text: &str) -> Result<Value, GrammarError> {
    only(text, |reader| reader.rest_of(kind))
}

/// Reads one statement of any kind.
pub(super) fn one(text: &str) -> Result<Value, GrammarError> {
    only(text, |reader| Ok(reader.object()?.1))
}

fn only(
    text: &str,
    read: impl FnOnce(&mut Reader) -> Result<Value, GrammarError>,
) -> Result<Value, GrammarError> {
    let mut lexer = Lexer::new(text);
    let tokens = lexer.next_statement()?.unwrap_or_default();
    let value = read(&mut Reader { tokens: tokens.into_iter(), line: lexer.line() })?;
    match lexer.next_statement()? {
        None => Ok(value),
        Some(_) => Err(lexer.error("", "one statement is allowed, there is another")),
    }
}

/// The words of one statement that are still to be read.
struct Reader {
    tokens: std::vec::IntoIter<Token>,
    line: usize,
}

impl Reader {
    fn error(&self, word: &str, problem: impl Into<String>) -> GrammarError {
        GrammarError { line: self.line, word: word.to_owned(), problem: problem.into() }
    }

    fn statement(&mut self) -> Result<Statement, GrammarError> {
        let (kind, value) = self.object()?;
        // The object is decoded here, and a second time when it is built, so that the error can name the line.
        let (statement, decoded) = match kind {
            Some(kind) if kind.word == NODE.word => {
                let decoded = Node::from_value(&value).err();
                (Statement::Node(NodeBuilder(value)), decoded)
            }
            Some(kind) if kind.word == POD.word => {
                let decoded = Pod::from_value(&value).err();
                (Statement::Pod(PodBuilder(value)), decoded)
            }
            _ => {
                let decoded = Object::from_value(value.clone()).err();
                (Statement::Object(ObjectBuilder(value)), decoded)
            }
        };
        match decoded {
            None => Ok(statement),
            Some(error) => Err(self.error("", error.to_string())),
        }
    }

    /// The API object; of no kind if it is given as JSON alone.
    fn object(&mut self) -> Result<(Option<&'static Kind>, Value), GrammarError> {
        let Some(token) = self.tokens.next() else {
            return Err(self.error("", format!("a statement starts with {}", kinds::names())));
        };
        if let (Some(kind), None) = (kinds::find(&token.text), &token.json) {
            return Ok((Some(kind), self.rest_of(kind)?));
        }
        if token.text != "object" || token.json.is_some() {
            let problem = format!("no kind; a statement starts with {}", kinds::names());
            return Err(self.error(&token.text, problem));
        }
        let json = self.tokens.next().filter(|token| token.text.is_empty());
        let (Some(json), None) = (json.and_then(|token| token.json), self.tokens.next()) else {
            return Err(self.error("object", "one JSON object follows, and nothing else"));
        };
        Ok((None, json))
    }

    fn rest_of(&mut self, kind: &Kind) -> Result<Value, GrammarError> {
        let name = match self.tokens.next() {
            Some(Token { text, json: None }) => text,
            _ => return Err(self.error("", format!("{} is followed by a name", kind.word))),
        };
        let (namespace, name) = match name.split_once('/') {
            Some((namespace, name)) if kind.is_namespaced => (namespace, name),
            Some(_) => {
                let problem = format!("{} has no namespace", kind.word);
                return Err(self.error(&name, problem));
            }
            None => ("default", &*name),
        };
        let mut value = kind.start(namespace, name);
        for token in self.tokens.by_ref() {
            let Token { text, json } = token;
            words::apply(kind, &mut value, &text, json).map_err(|problem| GrammarError {
                line: self.line,
                word: text,
                problem,
            })?;
        }
        Ok(value)
    }
}
