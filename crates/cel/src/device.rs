//! Devices, as callers hand them in.

use kube_scheduler_api_types::Quantity;

use crate::semver::Version;

/// What a selector is asked about. Everything is borrowed; an evaluation copies nothing of it.
///
/// A name without domain (`model`) belongs to the domain that the driver is called. If two names mean the same domain
/// and identifier, the first counts.
#[derive(Clone, Copy, Debug)]
pub struct DeviceInput<'a> {
    /// Name of the driver.
    pub driver: &'a str,
    /// Whether several claims may share the device.
    pub allow_multiple_allocations: bool,
    /// Attributes by qualified name.
    pub attributes: &'a [(&'a str, AttributeValue<'a>)],
    /// Capacities by qualified name.
    pub capacity: &'a [(&'a str, &'a Quantity)],
}

/// The value of an attribute.
#[derive(Clone, Copy, Debug)]
pub enum AttributeValue<'a> {
    /// A whole number.
    Int(i64),
    /// True or false.
    Bool(bool),
    /// Text.
    String(&'a str),
    /// A semantic version.
    Version(&'a Version),
    /// Whole numbers.
    Ints(&'a [i64]),
    /// Truth values.
    Bools(&'a [bool]),
    /// Texts.
    Strings(&'a dyn Strings),
    /// Semantic versions.
    Versions(&'a [Version]),
    /// No value that can be used, and why not, for instance what [`Version::parse`] said. Every evaluation for the
    /// device fails.
    Unusable(&'a str),
}

/// A list of texts, however they are kept.
pub trait Strings: std::fmt::Debug + Sync {
    /// How many there are.
    fn count(&self) -> usize;
    /// The one at that place.
    fn at(&self, index: usize) -> Option<&str>;
}

impl<S: AsRef<str> + std::fmt::Debug + Sync> Strings for Vec<S> {
    fn count(&self) -> usize {
        self.len()
    }

    fn at(&self, index: usize) -> Option<&str> {
        self.get(index).map(AsRef::as_ref)
    }
}

impl<S: AsRef<str> + std::fmt::Debug + Sync> Strings for Box<[S]> {
    fn count(&self) -> usize {
        self.len()
    }

    fn at(&self, index: usize) -> Option<&str> {
        self.get(index).map(AsRef::as_ref)
    }
}

impl<S: AsRef<str> + std::fmt::Debug + Sync, const N: usize> Strings for [S; N] {
    fn count(&self) -> usize {
        N
    }

    fn at(&self, index: usize) -> Option<&str> {
        self.get(index).map(AsRef::as_ref)
    }
}

/// Domain and identifier of a qualified name.
fn split<'a>(name: &'a str, driver: &'a str) -> (&'a str, &'a str) {
    name.split_once('/').unwrap_or((driver, name))
}

/// One of the two tables of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Attributes,
    Capacity,
}

/// A value of one of the tables.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry<'a> {
    Attribute(AttributeValue<'a>),
    Capacity(&'a Quantity),
}

impl<'a> DeviceInput<'a> {
    /// The table's rows: domain, identifier, value.
    fn rows(&self, table: Table) -> impl Iterator<Item = (&'a str, &'a str, Entry<'a>)> + use<'a> {
        let (attributes, capacity): (&'a [_], &'a [_]) = match table {
            Table::Attributes => (self.attributes, &[]),
            Table::Capacity => (&[], self.capacity),
        };
        let driver = self.driver;
        let attributes = attributes.iter().map(move |(name, value)| {
            let (domain, id) = split(name, driver);
            (domain, id, Entry::Attribute(*value))
        });
        attributes.chain(capacity.iter().map(move |(name, value)| {
            let (domain, id) = split(name, driver);
            (domain, id, Entry::Capacity(value))
        }))
    }

    pub(crate) fn find(&self, table: Table, domain: &str, id: &str) -> Option<Entry<'a>> {
        self.rows(table)
            .find(|(row_domain, row_id, _)| *row_domain == domain && *row_id == id)
            .map(|(_, _, value)| value)
    }

    pub(crate) fn has_domain(&self, table: Table, domain: &str) -> bool {
        self.rows(table).any(|(row_domain, _, _)| row_domain == domain)
    }

    /// The table's domains, sorted.
    pub(crate) fn domains(&self, table: Table) -> Vec<&'a str> {
        let mut domains: Vec<_> = self.rows(table).map(|(domain, _, _)| domain).collect();
        domains.sort_unstable();
        domains.dedup();
        domains
    }

    /// The identifiers of a domain, sorted.
    pub(crate) fn ids(&self, table: Table, domain: &str) -> Vec<&'a str> {
        let rows = self.rows(table).filter(|(row_domain, _, _)| *row_domain == domain);
        let mut ids: Vec<_> = rows.map(|(_, id, _)| id).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// The first attribute without usable value, and what is wrong with it.
    pub(crate) fn unusable(&self, lists_are_attributes: bool) -> Option<(&'a str, &'a str)> {
        self.attributes.iter().find_map(|(name, value)| match value {
            AttributeValue::Unusable(why) => Some((*name, *why)),
            AttributeValue::Ints(_)
            | AttributeValue::Bools(_)
            | AttributeValue::Strings(_)
            | AttributeValue::Versions(_)
                if !lists_are_attributes =>
            {
                Some((*name, "unsupported attribute value"))
            }
            _ => None,
        })
    }
}
