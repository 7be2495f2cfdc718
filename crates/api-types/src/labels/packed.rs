//! Very many pairs of texts in a few bytes more than the texts have: a tenant may write a megabyte of labels to each pod.

/// The number of pairs in a block. A look-up finds the block by its first key, and then compares its pairs one after the other; each
/// block takes two numbers.
const BLOCK: usize = 32;

/// Pairs of texts, one after the other, sorted by the first ones.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PackedTexts {
    text: Box<str>,
    /// The lengths of all texts, seven bits in a byte, the lowest first; the highest bit says that more follow.
    lengths: Box<[u8]>,
    /// Where every [`BLOCK`] pairs begin in `text` and `lengths`.
    blocks: Box<[(usize, usize)]>,
    n: usize,
}

/// Collects pairs that are sorted by the first texts, which differ.
impl<'a> FromIterator<(&'a str, &'a str)> for PackedTexts {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(pairs: I) -> Self {
        let (mut text, mut lengths) = (String::new(), Vec::new());
        let (mut blocks, mut n) = (Vec::new(), 0);
        for (key, value) in pairs {
            if n % BLOCK == 0 {
                blocks.push((text.len(), lengths.len()));
            }
            n += 1;
            for part in [key, value] {
                text.push_str(part);
                write_length(part.len(), &mut lengths);
            }
        }
        Self { text: text.into(), lengths: lengths.into(), blocks: blocks.into(), n }
    }
}

impl PackedTexts {
    pub(super) fn len(&self) -> usize {
        self.n
    }

    /// The second text of the pair whose first is `key`. O(log pairs + [`BLOCK`]).
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        let is_before = |at: usize| self.block(at).next().is_some_and(|(first, _)| first <= key);
        let (mut from, mut to) = (0, self.blocks.len());
        while from < to {
            let middle = usize::midpoint(from, to);
            if is_before(middle) { from = middle + 1 } else { to = middle }
        }
        let mut pairs = self.block(from.checked_sub(1)?).take(BLOCK);
        pairs.find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    pub(super) fn iter(&self) -> PackedPairs<'_> {
        PackedPairs { text: &self.text, lengths: &self.lengths, n: self.n }
    }

    /// The pairs from a block on.
    fn block(&self, at: usize) -> PackedPairs<'_> {
        let from = self.blocks.get(at).and_then(|&(text, lengths)| {
            let (text, lengths) = (self.text.get(text..)?, self.lengths.get(lengths..)?);
            Some(PackedPairs { text, lengths, n: self.n.saturating_sub(at * BLOCK) })
        });
        from.unwrap_or(PackedPairs { text: "", lengths: &[], n: 0 })
    }
}

/// The pairs in order.
#[derive(Clone, Debug)]
pub(super) struct PackedPairs<'a> {
    text: &'a str,
    lengths: &'a [u8],
    /// How many there are still.
    n: usize,
}

impl<'a> PackedPairs<'a> {
    fn part(&mut self) -> Option<&'a str> {
        let (n, rest) = read_length(self.lengths)?;
        let (part, text) = self.text.split_at_checked(n)?;
        (self.text, self.lengths) = (text, rest);
        Some(part)
    }
}

impl<'a> Iterator for PackedPairs<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let pair = (self.part()?, self.part()?);
        self.n = self.n.saturating_sub(1);
        Some(pair)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.n, Some(self.n))
    }
}

fn write_length(mut n: usize, lengths: &mut Vec<u8>) {
    while n >= 0x80 {
        lengths.push(n as u8 | 0x80);
        n >>= 7;
    }
    lengths.push(n as u8);
}

/// A length, and what comes after it; `None` at the end.
fn read_length(lengths: &[u8]) -> Option<(usize, &[u8])> {
    let (mut n, mut shift) = (0_usize, 0);
    for (at, byte) in lengths.iter().enumerate() {
        n |= usize::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some((n, lengths.get(at + 1..)?));
        }
        shift += 7;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_read_as_they_were_written() {
        let all = [0, 1, 127, 128, 300, 16_383, 16_384, 3_000_000];
        let mut bytes = Vec::new();
        all.iter().for_each(|n| write_length(*n, &mut bytes));
        let mut rest = &*bytes;
        for n in all {
            let (read, after) = read_length(rest).unwrap();
            assert_eq!(read, n);
            rest = after;
        }
        assert!(rest.is_empty() && read_length(rest).is_none());
    }

    #[test]
    fn texts_of_any_length_are_found() {
        let keys: Vec<String> = (0..200).map(|at| format!("{at:03}é{}", "k".repeat(at))).collect();
        let packed: PackedTexts = keys.iter().map(|key| (&**key, &key[..3])).collect();
        for key in &keys {
            assert_eq!(packed.get(key), Some(&key[..3]));
        }
        assert_eq!((packed.get("000"), packed.get("é"), packed.get("050k")), (None, None, None));
        assert_eq!((packed.iter().count(), packed.iter().size_hint().0), (200, 200));
        let none = PackedTexts::from_iter([]);
        assert_eq!((none.get("a"), none.iter().next(), none.len()), (None, None, 0));
    }
}
