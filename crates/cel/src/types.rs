//! Static types, and how they are written.

mod unify;

use std::fmt;
use std::sync::Arc;

pub(crate) use unify::{Substitution, most_general};

/// The static type of an expression.
///
/// ```
/// use kube_scheduler_cel::Environment;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let program = Environment::default().compile(r#"device.attributes["gpu.example.com"].ready"#)?;
/// assert_eq!(program.output_type().to_string(), "google.protobuf.Any");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Type {
    /// `bool`.
    Bool,
    /// `int`: 64 bits, signed.
    Int,
    /// `uint`: 64 bits.
    Uint,
    /// `double`.
    Double,
    /// `string`.
    String,
    /// `bytes`.
    Bytes,
    /// The type of `null`.
    Null,
    /// Anything, decided at run time.
    Dyn,
    /// Anything, decided at run time; macros do not walk over it. The type of an attribute.
    Any,
    /// A length of time.
    Duration,
    /// A moment.
    Timestamp,
    /// A list of values of one type.
    List(Arc<Type>),
    /// A map: types of keys and values.
    Map(Arc<(Type, Type)>),
    /// The type of a type, if known which.
    Type(Option<Arc<Type>>),
    /// An object with fields, by name.
    Object(&'static str),
    /// A type of a library, by name, with parameters.
    Opaque(&'static str, Arc<[Type]>),
    /// A variable of the type checker; not the type of a program.
    #[doc(hidden)]
    Variable(u32),
    /// The type of an expression with a mistake; not the type of a program.
    #[doc(hidden)]
    Error,
}

pub(crate) const QUANTITY: &str = "kubernetes.Quantity";
pub(crate) const SEMVER: &str = "kubernetes.Semver";
pub(crate) const URL: &str = "kubernetes.URL";
pub(crate) const FORMAT: &str = "kubernetes.NamedFormat";
pub(crate) const DEVICE: &str = "kubernetes.DRADevice";
pub(crate) const IP: &str = "net.IP";
pub(crate) const CIDR: &str = "net.CIDR";
pub(crate) const OPTIONAL: &str = "optional_type";

impl Type {
    pub(crate) fn list(element: Self) -> Self {
        Self::List(Arc::new(element))
    }

    pub(crate) fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    pub(crate) fn optional(value: Self) -> Self {
        Self::Opaque(OPTIONAL, Arc::from([value]))
    }

    pub(crate) fn type_of(inner: Self) -> Self {
        Self::Type(Some(Arc::new(inner)))
    }

    /// The type within an optional.
    pub(crate) fn in_optional(&self) -> Option<&Self> {
        match self {
            Self::Opaque(OPTIONAL, parameters) => parameters.first(),
            _ => None,
        }
    }

    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn | Self::Any)
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        self.is_dyn() || *self == Self::Error
    }

    /// Whether values of the type have size 1 whatever they are.
    pub(crate) fn is_scalar(&self) -> bool {
        match self {
            Self::Bool
            | Self::Double
            | Self::Duration
            | Self::Int
            | Self::Timestamp
            | Self::Uint => true,
            other => other.in_optional().is_some_and(Self::is_scalar),
        }
    }

    /// The types this one is made of.
    pub(crate) fn parameters(&self) -> Vec<&Self> {
        match self {
            Self::List(element) => vec![element],
            Self::Map(entry) => vec![&entry.0, &entry.1],
            Self::Type(inner) => inner.iter().map(|inner| &**inner).collect(),
            Self::Opaque(_, parameters) => parameters.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The name without parameters.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Null => "null_type",
            Self::Dyn => "dyn",
            Self::Any => "google.protobuf.Any",
            Self::Duration => "google.protobuf.Duration",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Type(_) => "type",
            Self::Object(name) | Self::Opaque(name, _) => name,
            Self::Variable(_) => "variable",
            Self::Error => "!error!",
        }
    }

    /// The name as error messages write it.
    pub(crate) fn in_message(&self) -> String {
        let name = match self {
            Self::Any => "any",
            Self::Duration => "duration",
            Self::Timestamp => "timestamp",
            Self::Null => "null",
            other => other.name(),
        };
        let parameters: Vec<_> = self.parameters().into_iter().map(Self::in_message).collect();
        if parameters.is_empty() {
            name.to_owned()
        } else {
            format!("{name}({})", parameters.join(", "))
        }
    }
}

/// As the API server writes types.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        for (index, parameter) in self.parameters().into_iter().enumerate() {
            write!(f, "{}{parameter}", if index == 0 { "(" } else { ", " })?;
        }
        if self.parameters().is_empty() { Ok(()) } else { f.write_str(")") }
    }
}
