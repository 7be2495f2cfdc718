//! Building blocks of the wire types: strings, lists, dates and resource lists that take `null` for absent.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::Timestamp;
use crate::labels::Labels;
use crate::quantity::Quantity;
use crate::resources::ResourceName;

/// A shared string; absent and `null` are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(
    /// The string.
    pub Arc<str>,
);

impl Text {
    /// Takes over a string, sharing it if it is one that most objects repeat.
    pub(crate) fn shared(text: &str) -> Self {
        Self(shared(text))
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_option(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_none<E: Error>(self) -> Result<Text, E> {
        Ok(Text::default())
    }

    fn visit_unit<E: Error>(self) -> Result<Text, E> {
        Ok(Text::default())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Text, D::Error> {
        deserializer.deserialize_str(self)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
        Ok(Text(shared(text)))
    }
}

/// A list; absent and `null` are empty, `null` elements are default values.
#[derive(Clone, Debug, PartialEq)]
pub struct List<T>(
    /// The elements.
    pub Vec<T>,
);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_option(ListVisitor(PhantomData))
    }
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Default> Visitor<'de> for ListVisitor<T> {
    type Value = List<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_none<E: Error>(self) -> Result<List<T>, E> {
        Ok(List::default())
    }

    fn visit_unit<E: Error>(self) -> Result<List<T>, E> {
        Ok(List::default())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<List<T>, D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<List<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element::<Option<T>>()? {
            list.push(element.unwrap_or_default());
        }
        Ok(List(list))
    }
}

/// A field of any type whose `null` counts as absent: `#[serde(deserialize_with = "or_default")]`.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A point in time; absent, `null` and the year 1 (the reference's zero time) are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Date(
    /// The point in time.
    pub Option<Timestamp>,
);

impl<'de> Deserialize<'de> for Date {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Text::deserialize(deserializer)?;
        if text.is_empty() || text.starts_with("0001-01-01T00:00:00") {
            return Ok(Self(None));
        }
        let invalid =
            || D::Error::custom(format_args!("{:?} is not a time in RFC 3339 form", &*text));
        Timestamp::parse_clamped(&text).map(|at| Self(Some(at))).ok_or_else(invalid)
    }
}

/// Amounts by resource name, sorted by name, each name once; of repeated names the last counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceList(Vec<(ResourceName, Quantity)>);

impl ResourceList {
    /// The amount of `name`.
    pub fn get(&self, name: &str) -> Option<&Quantity> {
        let at = self.0.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        self.0.get(at).map(|(_, amount)| amount)
    }
}

impl Deref for ResourceList {
    type Target = [(ResourceName, Quantity)];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl FromIterator<(ResourceName, Quantity)> for ResourceList {
    fn from_iter<I: IntoIterator<Item = (ResourceName, Quantity)>>(amounts: I) -> Self {
        let mut list: Vec<_> = amounts.into_iter().collect();
        // Stable, so that the last of equal names is the last of its run.
        list.sort_by(|a, b| a.0.cmp(&b.0));
        list.dedup_by(|later, earlier| {
            let is_same = later.0 == earlier.0;
            if is_same {
                std::mem::swap(later, earlier);
            }
            is_same
        });
        Self(list)
    }
}

impl<'de> Deserialize<'de> for ResourceList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let visitor = MapVisitor { value: PhantomData::<Quantity> };
        let pairs = deserializer.deserialize_option(visitor)?;
        Ok(pairs.into_iter().map(|(name, amount)| (name.0, amount)).collect())
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pairs = deserializer.deserialize_option(MapVisitor { value: PhantomData::<Text> })?;
        Ok(pairs.into_iter().map(|(key, value)| (key.0, value.0)).collect())
    }
}

/// A map as pairs in the order written.
struct MapVisitor<V> {
    value: PhantomData<V>,
}

impl<'de, V: Deserialize<'de> + Default> Visitor<'de> for MapVisitor<V> {
    type Value = Vec<(Text, V)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(key) = entries.next_key_seed(KeySeed)? {
            let value = entries.next_value::<Option<V>>()?;
            pairs.push((key, value.unwrap_or_default()));
        }
        Ok(pairs)
    }
}

/// Keys are strings, never `null`; asking for a plain string keeps every deserializer happy.
struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Text;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Text, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

/// A quantity as a JSON string or number; `null` is zero.
impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity (a string or a number)")
    }

    fn visit_unit<E: Error>(self) -> Result<Quantity, E> {
        Ok(Quantity::ZERO)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
        Quantity::parse_json_text(text).map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Quantity, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Quantity, E> {
        self.visit_str(&value.to_string())
    }

    /// Numbers with a point or an exponent arrive here; the shortest text of the double is what was written for up to
    /// 15 digits.
    fn visit_f64<E: Error>(self, value: f64) -> Result<Quantity, E> {
        self.visit_str(&value.to_string())
    }
}

/// The strings most objects repeat; sharing them saves an allocation each. Without them a pod of `bench-memory --real` takes ten bytes
/// more, and `bench core --workload EveryPodDifferent` a fifth of a percent more instructions.
static COMMON: LazyLock<[Arc<str>; 16]> = LazyLock::new(|| {
    [
        "cpu",
        "memory",
        "ephemeral-storage",
        "pods",
        "TCP",
        "True",
        "False",
        "Pending",
        "Running",
        "default",
        "default-scheduler",
        "kubernetes.io/hostname",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
    ]
    .map(Arc::from)
});

fn shared(text: &str) -> Arc<str> {
    if text.is_empty() {
        return Arc::default();
    }
    let common = COMMON.iter().find(|common| ***common == *text);
    common.map_or_else(|| Arc::from(text), Arc::clone)
}
