//! CSI migration of places: zones of in-tree volumes under the label of the CSI driver (`docs/spec/plugins-storage.md` §2.6).

use std::collections::BTreeSet;

use kube_scheduler_framework::api::InTreePlugin;
use kube_scheduler_framework::api::well_known::{BETA_REGION, BETA_ZONE, REGION, ZONE};
use kube_scheduler_framework::api::wire::{
    List, NodeSelector, NodeSelectorTerm, SelectorRequirement, Text,
};
use serde::Deserialize;

use super::{PersistentVolume, ZONE_DELIMITER};

/// The required node affinity of a volume of an in-tree `plugin` once it is translated; `None` when it requires
/// nothing.
pub(crate) fn translated_node_affinity(
    plugin: InTreePlugin,
    volume: PersistentVolume<'_>,
) -> Option<NodeSelector> {
    let required = volume.required_node_affinity();
    let mut affinity = required.map(|json| NodeSelector::deserialize(json).unwrap_or_default());
    let Some(topology_key) = plugin.topology_key() else { return affinity };
    let labels = &volume.object().labels;
    let has_key = |key: &str| {
        affinity.as_ref().is_some_and(|affinity| expressions(affinity).any(|e| *e.key == *key))
    };
    // The affinity decides between the two names of a zone; the labels do where it mentions none.
    let is_beta = !has_key(ZONE)
        && (has_key(BETA_ZONE) || !labels.contains_key(ZONE) && labels.contains_key(BETA_ZONE));
    let zone = if is_beta { BETA_ZONE } else { ZONE };
    if affinity.as_ref().is_some_and(|affinity| has_values(affinity, zone)) {
        rename_key(&mut affinity, zone, topology_key);
    } else if let Some(zones) = labels.get(zone) {
        require_zones(&mut affinity, topology_key, zones);
    }
    if is_beta && affinity.as_ref().is_some_and(|affinity| has_values(affinity, BETA_REGION)) {
        rename_key(&mut affinity, BETA_REGION, REGION);
    }
    affinity
}

fn expressions(affinity: &NodeSelector) -> impl Iterator<Item = &SelectorRequirement> {
    affinity.node_selector_terms.iter().flat_map(|term| term.match_expressions.iter())
}

fn has_values(affinity: &NodeSelector, key: &str) -> bool {
    expressions(affinity)
        .filter(|expression| *expression.key == *key)
        .any(|expression| expression.values.as_ref().is_some_and(|values| !values.is_empty()))
}

fn rename_key(affinity: &mut Option<NodeSelector>, from: &str, to: &str) {
    let terms = affinity.iter_mut().flat_map(|affinity| &mut affinity.node_selector_terms.0);
    for expression in terms.flat_map(|term| &mut term.match_expressions.0) {
        if *expression.key == *from {
            expression.key = Text::from(to);
        }
    }
}

/// Makes every term require one of the zones; the first term if there is none yet.
fn require_zones(affinity: &mut Option<NodeSelector>, key: &str, zones: &str) {
    let zones: BTreeSet<&str> =
        zones.split(ZONE_DELIMITER).map(str::trim).filter(|zone| !zone.is_empty()).collect();
    if zones.is_empty() {
        return;
    }
    let terms = &mut affinity.get_or_insert_default().node_selector_terms.0;
    if terms.is_empty() {
        terms.push(NodeSelectorTerm::default());
    }
    for term in terms {
        term.match_expressions.0.push(SelectorRequirement {
            key: Text::from(key),
            operator: Text::from("In"),
            values: Some(List(zones.iter().map(|zone| Text::from(*zone)).collect())),
        });
    }
}

#[cfg(test)]
mod tests {
    use kube_scheduler_framework::api::Object;
    use serde_json::{Value, json};

    use super::*;

    /// Terms as lists of `key operator value,value`.
    fn translated(plugin: InTreePlugin, labels: Value, terms: Option<Value>) -> Vec<Vec<String>> {
        let mut spec = json!({});
        if let Some(terms) = terms {
            spec["nodeAffinity"]["required"]["nodeSelectorTerms"] = terms;
        }
        let object = Object::from_value(json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": "pv", "labels": labels}, "spec": spec,
        }))
        .unwrap();
        let affinity = translated_node_affinity(plugin, PersistentVolume::new(&object));
        let shown = |e: &SelectorRequirement| {
            let values: Vec<&str> =
                e.values.iter().flat_map(|values| values.iter()).map(|value| &**value).collect();
            format!("{} {} {}", &*e.key, &*e.operator, values.join(","))
        };
        let terms = affinity.into_iter().flat_map(|affinity| affinity.node_selector_terms.0);
        terms.map(|term| term.match_expressions.iter().map(shown).collect()).collect()
    }

    const EBS: InTreePlugin = InTreePlugin::AwsElasticBlockStore;
    const KEY: &str = "topology.ebs.csi.aws.com/zone";

    fn term(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
    }

    #[test]
    fn zones_in_the_affinity_are_renamed_in_every_term() {
        let terms = json!([
            term(ZONE, "In", &["a"]),
            term(ZONE, "Exists", &[]),
            term("other", "In", &["x"]),
            term(BETA_ZONE, "In", &["b"]),
        ]);
        assert_eq!(
            translated(EBS, json!({ZONE: "ignored"}), Some(terms)),
            [
                [format!("{KEY} In a")],
                [format!("{KEY} Exists ")],
                ["other In x".to_owned()],
                [format!("{BETA_ZONE} In b")]
            ]
        );
    }

    #[test]
    fn beta_zones_take_beta_regions_along() {
        let terms = json!([{"matchExpressions": [
            {"key": BETA_ZONE, "operator": "In", "values": ["a"]},
            {"key": BETA_REGION, "operator": "In", "values": ["r"]},
        ]}]);
        assert_eq!(
            translated(EBS, json!({}), Some(terms)),
            [[format!("{KEY} In a"), format!("{REGION} In r")]]
        );
    }

    #[test]
    fn labels_count_where_the_affinity_has_no_zones() {
        assert_eq!(translated(EBS, json!({ZONE: "b__ a__b__"}), None), [[format!("{KEY} In a,b")]]);
        assert_eq!(
            translated(EBS, json!({BETA_ZONE: "z"}), Some(json!([term("x", "Exists", &[]), {}]))),
            [vec!["x Exists ".to_owned(), format!("{KEY} In z")], vec![format!("{KEY} In z")]]
        );
        assert!(translated(EBS, json!({ZONE: " __ "}), None).is_empty());
    }

    #[test]
    fn a_zone_key_without_values_chooses_the_family_only() {
        let terms = json!([term(BETA_ZONE, "Exists", &[])]);
        assert_eq!(
            translated(EBS, json!({ZONE: "ga", BETA_ZONE: "beta"}), Some(terms)),
            [[format!("{BETA_ZONE} Exists "), format!("{KEY} In beta")]]
        );
    }

    #[test]
    fn some_plugins_keep_their_affinity() {
        let terms = json!([term(ZONE, "In", &["a"])]);
        assert_eq!(
            translated(InTreePlugin::AzureDisk, json!({ZONE: "b"}), Some(terms)),
            [[format!("{ZONE} In a")]]
        );
        assert!(translated(InTreePlugin::Portworx, json!({ZONE: "b"}), None).is_empty());
    }
}
