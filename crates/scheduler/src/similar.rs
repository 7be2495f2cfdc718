//! Finds the most similar of the known names, for suggestions in messages.

/// The one of `known` that is most similar to `name`, if any is similar enough.
pub(crate) fn most_like<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let near = known.into_iter().map(|known| (distance(known, name), known)).min()?;
    (near.0 <= name.len() / 3).then_some(near.1)
}

/// The edit distance of two names, ignoring case.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_lowercase(), b.to_lowercase());
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, a) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (slot, b) in row.iter_mut().skip(1).zip(b.chars()) {
            let best = (diagonal + usize::from(a != b)).min(*slot + 1).min(left + 1);
            diagonal = std::mem::replace(slot, best);
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_found_and_nothing_far() {
        let known = ["simulate", "demo", "config"];
        assert_eq!(most_like("simulat", known), Some("simulate"));
        assert_eq!(most_like("Simulate", known), Some("simulate"));
        assert_eq!(most_like("confgi", known), Some("config"));
        assert_eq!(most_like("bogus", known), None);
        assert_eq!(most_like("x", known), None);
    }
}
