//! When the memory of a list or table that has become smaller is given back.
//!
//! What tenants write may make a table large for a moment. If the room for it stayed when its entries go, tenants could use up memory
//! by and by that nothing is in.

/// Room that a list or table may always have, in entries: without it one that is filled and emptied in turn would be allocated each
/// time.
const SMALL: usize = 8;

/// For how many entries there should still be room if most of the room is unused now. To follow it costs O(1) for each entry that
/// was removed since the last time, on average.
pub(crate) const fn room_to_keep(n_entries: usize, room: usize) -> Option<usize> {
    if room > 4 * n_entries + SMALL { Some(2 * n_entries) } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(crate::tests::cases(64))]

        #[test]
        fn what_is_removed_leaves_little_room_and_is_rarely_moved(changes in prop::collection::vec(0_usize..60, 0..400)) {
            let (mut list, mut n_moved, mut n_removed) = (Vec::new(), 0, 0);
            for change in changes {
                // Up to 39 more, or up to 20 fewer, one by one.
                list.extend(0..change.saturating_sub(20));
                for _ in 0..20_usize.saturating_sub(change) {
                    n_removed += usize::from(list.pop().is_some());
                    if let Some(room) = room_to_keep(list.len(), list.capacity()) {
                        prop_assert!(room >= list.len());
                        n_moved += list.len();
                        list.shrink_to(room);
                    }
                    prop_assert!(list.capacity() <= 4 * list.len() + SMALL);
                }
            }
            prop_assert!(n_moved <= n_removed, "{n_moved} of {n_removed}");
        }
    }
}
