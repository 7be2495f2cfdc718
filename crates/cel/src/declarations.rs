//! The functions of the environment and their overloads (`docs/spec/cel.md` §2).

mod tables;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::formats;
use crate::types::{self, Substitution, Type};

/// A function, whatever its overload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Conditional,
    And,
    Or,
    Not,
    NotStrictlyFalse,
    Equal,
    NotEqual,
    Add,
    Divide,
    Modulo,
    Multiply,
    Negate,
    Subtract,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Index,
    OptionalIndex,
    OptionalSelect,
    In,
    Size,
    Matches,
    TypeOf,
    Dyn,
    Bool,
    Bytes,
    Double,
    Duration,
    Int,
    String,
    Timestamp,
    Uint,
    FullYear,
    Month,
    DayOfYear,
    DayOfMonth,
    Date,
    DayOfWeek,
    Hours,
    Minutes,
    Seconds,
    Milliseconds,
    Contains,
    EndsWith,
    StartsWith,
    CharAt,
    IndexOf,
    LastIndexOf,
    LowerAscii,
    Replace,
    Split,
    Substring,
    Trim,
    UpperAscii,
    Format,
    Quote,
    Join,
    Find,
    FindAll,
    Slice,
    Flatten,
    Range,
    Reverse,
    Distinct,
    SetsContains,
    SetsEquivalent,
    SetsIntersects,
    MapInsert,
    First,
    Last,
    OptionalOf,
    OptionalOfNonZero,
    OptionalNone,
    Value,
    HasValue,
    OptionalOr,
    OptionalOrValue,
    OptionalUnwrap,
    UnwrapOptional,
    Sort,
    SortByKeys,
    IsSorted,
    Sum,
    Max,
    Min,
    Url,
    IsUrl,
    UrlScheme,
    UrlHost,
    UrlHostname,
    UrlPort,
    UrlPath,
    UrlQuery,
    Ip,
    IsIp,
    IsCanonicalIp,
    Family,
    IsUnspecified,
    IsLoopback,
    IsLinkLocalMulticast,
    IsLinkLocalUnicast,
    IsGlobalUnicast,
    Cidr,
    IsCidr,
    ContainsIp,
    ContainsCidr,
    PrefixLength,
    Masked,
    FormatNamed,
    Validate,
    Quantity,
    IsQuantity,
    Sign,
    IsGreaterThan,
    IsLessThan,
    CompareTo,
    AsApproximateFloat,
    AsInteger,
    IsInteger,
    QuantityAdd,
    QuantitySub,
    Semver,
    IsSemver,
    Major,
    Minor,
    Patch,
    Includes,
    /// A named format, by its place in the table of formats.
    NamedFormat(u8),
}

/// Function, name, overloads with their signatures.
type Declaration = (Function, &'static str, &'static [(&'static str, &'static str)]);

pub(crate) struct Overload {
    pub(crate) name: &'static str,
    pub(crate) is_member: bool,
    /// Arguments, a receiver first. Type variables are numbered from 0.
    arguments: Vec<Type>,
    result: Type,
    variables: usize,
}

impl Overload {
    /// Arguments and result with type variables of their own.
    pub(crate) fn instantiate(&self, substitution: &mut Substitution) -> (Vec<Type>, Type) {
        if self.variables == 0 {
            return (self.arguments.clone(), self.result.clone());
        }
        let fresh: Vec<_> = (0..self.variables).map(|_| substitution.fresh()).collect();
        (
            self.arguments.iter().map(|argument| renamed(argument, &fresh)).collect(),
            renamed(&self.result, &fresh),
        )
    }
}

pub(crate) struct FunctionDeclaration {
    pub(crate) function: Function,
    pub(crate) name: &'static str,
    pub(crate) overloads: Vec<Overload>,
}

impl FunctionDeclaration {
    /// Whether the reference calls one implementation whatever the overload, with all arguments evaluated first.
    pub(crate) fn is_singleton(&self) -> bool {
        use Function as F;
        self.overloads.len() == 1
            || matches!(
                self.function,
                F::Add
                    | F::Divide
                    | F::Modulo
                    | F::Multiply
                    | F::Negate
                    | F::Subtract
                    | F::Less
                    | F::LessEqual
                    | F::Greater
                    | F::GreaterEqual
                    | F::In
                    | F::Size
                    | F::Matches
                    | F::Sort
                    | F::SortByKeys
            )
    }
}

/// The function of that name.
pub(crate) fn find(name: &str) -> Option<&'static FunctionDeclaration> {
    static REGISTRY: OnceLock<BTreeMap<&'static str, FunctionDeclaration>> = OnceLock::new();
    REGISTRY.get_or_init(registry).get(name)
}

fn registry() -> BTreeMap<&'static str, FunctionDeclaration> {
    let tables = [
        tables::OPERATORS,
        tables::CONVERSIONS,
        tables::STRINGS,
        tables::LISTS,
        tables::KUBERNETES,
    ];
    let mut registry = BTreeMap::new();
    for (function, name, overloads) in tables.into_iter().flatten() {
        let overloads =
            overloads.iter().map(|(name, signature)| overload(name, signature)).collect();
        let declaration = FunctionDeclaration { function: *function, name, overloads };
        registry.insert(*name, declaration);
    }
    for (index, format) in (0_u8..).zip(&formats::FORMATS) {
        let overloads = vec![overload(format.function, " -> Format")];
        let function = Function::NamedFormat(index);
        let name = format.function;
        registry.insert(name, FunctionDeclaration { function, name, overloads });
    }
    registry
}

fn overload(name: &'static str, signature: &str) -> Overload {
    let mut reader = SignatureReader { rest: signature, variables: 0 };
    let mut arguments = Vec::new();
    let mut is_member = false;
    loop {
        reader.skip(" ");
        if reader.skip("-> ") {
            break;
        }
        if reader.skip(".(") {
            is_member = true;
        } else if !reader.skip(",") && !reader.skip(")") {
            arguments.push(reader.read());
        }
    }
    let result = reader.read();
    Overload { name, is_member, arguments, result, variables: reader.variables as usize }
}

struct SignatureReader<'a> {
    rest: &'a str,
    variables: u32,
}

impl SignatureReader<'_> {
    fn skip(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn read(&mut self) -> Type {
        self.skip(" ");
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        match name {
            "bool" => Type::Bool,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "double" => Type::Double,
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "dyn" => Type::Dyn,
            "duration" => Type::Duration,
            "timestamp" => Type::Timestamp,
            "Quantity" => Type::Object(types::QUANTITY),
            "Semver" => Type::Object(types::SEMVER),
            "URL" => Type::Object(types::URL),
            "Format" => Type::Object(types::FORMAT),
            "IP" => Type::Opaque(types::IP, Arc::from([])),
            "CIDR" => Type::Opaque(types::CIDR, Arc::from([])),
            "A" | "B" => {
                let variable = u32::from(name == "B");
                self.variables = self.variables.max(variable + 1);
                Type::Variable(variable)
            }
            "list" | "opt" | "type" | "map" => {
                self.skip("(");
                let first = self.read();
                let read = match name {
                    "list" => Type::list(first),
                    "opt" => Type::optional(first),
                    "type" => Type::type_of(first),
                    _ => {
                        self.skip(",");
                        let second = self.read();
                        Type::map(first, second)
                    }
                };
                self.skip(")");
                read
            }
            _ => Type::Error,
        }
    }
}

fn renamed(from: &Type, fresh: &[Type]) -> Type {
    match from {
        Type::Variable(variable) => fresh.get(*variable as usize).cloned().unwrap_or(Type::Error),
        Type::List(element) => Type::list(renamed(element, fresh)),
        Type::Map(entry) => Type::map(renamed(&entry.0, fresh), renamed(&entry.1, fresh)),
        Type::Type(Some(inner)) => Type::type_of(renamed(inner, fresh)),
        Type::Opaque(name, parameters) => Type::Opaque(
            name,
            parameters.iter().map(|parameter| renamed(parameter, fresh)).collect(),
        ),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signature_is_understood() {
        for declaration in registry().values() {
            for overload in &declaration.overloads {
                let all = overload.arguments.iter().chain([&overload.result]);
                assert!(all.clone().all(|part| *part != Type::Error), "{}", overload.name);
                assert!(!overload.is_member || !overload.arguments.is_empty(), "{}", overload.name);
            }
        }
        let insert = &find("cel.@mapInsert").unwrap().overloads[0];
        assert_eq!((insert.arguments.len(), insert.variables), (3, 2));
        assert!(find("first").unwrap().overloads[0].is_member);
    }
}
