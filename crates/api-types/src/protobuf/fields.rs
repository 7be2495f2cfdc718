//! From fields to texts, numbers, lists and maps.

use std::sync::Arc;

use super::fault::{Fault, FieldContext};
use super::{Reader, Value};
use crate::Timestamp;
use crate::labels::Labels;
use crate::quantity::Quantity;
use crate::resources::ResourceName;
use crate::wire::{Date, List, ResourceList, Text};

pub(super) type FieldResult<T = ()> = Result<T, Fault>;

/// A message that is read into what is there already, as the format wants it: of a field that comes twice, texts and
/// numbers are replaced, lists and messages are added to.
pub(super) trait Message: Default {
    fn read(&mut self, bytes: &[u8]) -> FieldResult;
}

/// Hands over the fields of a message one by one.
#[inline]
pub(super) fn fields(
    bytes: &[u8],
    mut take: impl FnMut(u32, Value<'_>) -> FieldResult,
) -> FieldResult {
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.next()? {
        take(field.number, field.value)?;
    }
    Ok(())
}

impl<'a> Value<'a> {
    pub(super) fn bytes(self) -> FieldResult<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(Fault::new("expected a text or a message, found a number")),
        }
    }

    pub(super) fn str(self) -> FieldResult<&'a str> {
        str::from_utf8(self.bytes()?).map_err(|_| Fault::new("the text is not UTF-8"))
    }

    pub(super) fn text(self) -> FieldResult<Text> {
        self.str().map(Text::shared)
    }

    pub(super) fn int64(self) -> FieldResult<i64> {
        match self {
            Self::Varint(number) => Ok(number.cast_signed()),
            _ => Err(Fault::new("expected an integer")),
        }
    }

    /// Too many bits are dropped, as the reference does.
    pub(super) fn int32(self) -> FieldResult<i32> {
        self.int64().map(|number| number as i32)
    }

    pub(super) fn bool(self) -> FieldResult<bool> {
        self.int64().map(|number| number != 0)
    }

    pub(super) fn merge<M: Message>(self, message: &mut M) -> FieldResult {
        message.read(self.bytes()?)
    }

    pub(super) fn merge_some<M: Message>(self, message: &mut Option<M>) -> FieldResult {
        self.merge(message.get_or_insert_default())
    }

    /// One more element of the list that is called `field`.
    pub(super) fn push<M: Message>(self, field: &str, list: &mut List<M>) -> FieldResult {
        let mut element = M::default();
        self.merge(&mut element).within(field, list.0.len())?;
        list.0.push(element);
        Ok(())
    }

    pub(super) fn push_text(self, field: &str, list: &mut List<Text>) -> FieldResult {
        let text = self.text().within(field, list.0.len())?;
        list.0.push(text);
        Ok(())
    }

    /// Seconds since 1970; empty for no time at all. Parts of a second are dropped, as the reference does.
    pub(super) fn date(self) -> FieldResult<Date> {
        /// The beginning of the year 1, which stands for no time.
        const ZERO: i64 = -62_135_596_800;
        let bytes = self.bytes()?;
        if bytes.is_empty() {
            return Ok(Date(None));
        }
        let mut seconds = 0;
        fields(bytes, |number, value| {
            if number == 1 {
                seconds = value.int64().at("seconds")?;
            }
            Ok(())
        })?;
        let at = || Timestamp::from_nanos(seconds.saturating_mul(1_000_000_000));
        Ok(Date((seconds != ZERO).then(at)))
    }

    /// Key and value of an entry of a map.
    fn entry(self) -> FieldResult<(&'a str, Option<&'a [u8]>)> {
        let (mut key, mut value) = ("", None);
        let mut reader = Reader::new(self.bytes()?);
        while let Some(field) = reader.next()? {
            match field.number {
                1 => key = field.value.str()?,
                2 => value = Some(field.value.bytes()?),
                _ => {}
            }
        }
        Ok((key, value))
    }

    fn quantity(self) -> FieldResult<Quantity> {
        let mut text = "";
        let mut reader = Reader::new(self.bytes()?);
        while let Some(field) = reader.next()? {
            if field.number == 1 {
                text = field.value.str()?;
            }
        }
        Quantity::parse_json_text(text).map_err(|error| Fault::new(error.to_string()))
    }
}

/// A map of texts that is being read.
#[derive(Default)]
pub(super) struct Pairs(Vec<(Arc<str>, Arc<str>)>);

impl Pairs {
    pub(super) fn take(&mut self, field: &str, value: Value<'_>) -> FieldResult {
        let (key, value) = value.entry().at(field)?;
        let value = Value::Bytes(value.unwrap_or_default()).text().within(field, key)?;
        self.0.push((Text::shared(key).0, value.0));
        Ok(())
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds them to what was read before.
    pub(super) fn add_to(self, labels: &mut Labels) {
        if self.is_empty() {
            return;
        }
        let before =
            labels.iter_shared().map(|(key, value)| (key.into_owned(), value.into_owned()));
        *labels = before.chain(self.0).collect();
    }
}

/// A map of quantities that is being read.
#[derive(Default)]
pub(super) struct Amounts(Vec<(ResourceName, Quantity)>);

impl Amounts {
    pub(super) fn take(&mut self, field: &str, value: Value<'_>) -> FieldResult {
        let (key, value) = value.entry().at(field)?;
        let amount = match value {
            Some(value) => Value::Bytes(value).quantity().within(field, key)?,
            None => Quantity::ZERO,
        };
        self.0.push((Text::shared(key).0, amount));
        Ok(())
    }

    pub(super) fn add_to(self, list: &mut ResourceList) {
        if self.0.is_empty() {
            return;
        }
        *list = list.iter().cloned().chain(self.0).collect();
    }
}
