//! Features a node may declare and a pod may need, as bits (`docs/spec/plugins-node.md` §4.11).
//!
//! Invariant: `REGISTERED_FEATURES` is sorted; bit `i` stands for entry `i`.

/// The features this version knows, by name.
const REGISTERED_FEATURES: [&str; 5] = [
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
];

/// Bit of `RestartAllContainersOnContainerExits`.
pub(crate) const RESTART_ALL_CONTAINERS: u64 = 1 << 3;
/// Bit of `UserNamespacesHostNetworkSupport`.
pub(crate) const USER_NAMESPACES_HOST_NETWORK: u64 = 1 << 4;

/// The known ones of `declared`, which must be sorted; of an unsorted list some may be missed, as in the reference.
pub(crate) fn feature_bits<S: AsRef<str>>(declared: &[S]) -> u64 {
    let (mut bits, mut at) = (0, 0);
    for name in declared {
        let name = name.as_ref();
        while REGISTERED_FEATURES.get(at).is_some_and(|known| *known < name) {
            at += 1;
        }
        if REGISTERED_FEATURES.get(at) == Some(&name) {
            bits |= 1 << at;
            at += 1;
        }
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_is_sorted_and_bits_fit_their_names() {
        assert!(REGISTERED_FEATURES.is_sorted());
        assert_eq!(feature_bits(&["RestartAllContainersOnContainerExits"]), RESTART_ALL_CONTAINERS);
        assert_eq!(
            feature_bits(&["UserNamespacesHostNetworkSupport"]),
            USER_NAMESPACES_HOST_NETWORK
        );
        assert_eq!(feature_bits(&REGISTERED_FEATURES), 0b11111);
    }

    #[test]
    fn unknown_names_are_ignored_and_unsorted_lists_lose_entries() {
        assert_eq!(feature_bits(&["A", "ExtendWebSocketsToKubelet", "Foo", "Zoo"]), 1);
        assert_eq!(
            feature_bits(&["UserNamespacesHostNetworkSupport", "ExtendWebSocketsToKubelet"]),
            1 << 4
        );
        assert_eq!(feature_bits::<&str>(&[]), 0);
    }
}
