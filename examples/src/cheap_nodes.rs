//! CheapNodes: of the nodes that fit, the cheaper the better.
//!
//! ```yaml
//! pluginConfig:
//! - name: CheapNodes
//!   args:
//!     priceLabel: example.com/price      # the node label with the price per hour, such as "0.25"
//! ```
//!
//! The raw score of a node is its price; [`Normalization::ReversedProportional`] turns prices into scores between 0 and 100:
//! the most expensive node gets 0. A node without a readable price counts as costing one million per hour.

use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{
    Context, CycleState, Handle, NodeIdx, NodeView, Normalization, Plugin, PluginArgs, PluginError,
    Score, Sign, SignatureWriter, Status, extension_points,
};
use serde::Deserialize;

/// The name in configurations.
pub const NAME: &str = "CheapNodes";

/// The price of a node without a readable price label: one million per hour.
const UNKNOWN: i64 = 1_000_000_000_000;

/// The arguments.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Args {
    #[serde(default = "default_price_label")]
    price_label: String,
}

fn default_price_label() -> String {
    "example.com/price".to_owned()
}

/// The plugin.
#[derive(Clone, Debug)]
struct CheapNodes {
    price_label: Arc<str>,
}

/// Makes the plugin.
///
/// # Errors
/// If the arguments are invalid.
pub fn new(args: &PluginArgs, handle: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    let Args { price_label } = handle.args(args)?;
    if price_label.is_empty() {
        return Err(handle.invalid_arg("priceLabel", "must not be empty"));
    }
    Ok(Arc::new(CheapNodes { price_label: price_label.into() }))
}

/// A price in millionths, as scores are whole numbers.
fn price(text: Option<&str>) -> i64 {
    let price: Option<f64> = text.and_then(|text| text.parse().ok());
    match price {
        Some(price) if (0.0..1_000_000.0).contains(&price) => (price * 1_000_000.0) as i64,
        _ => UNKNOWN,
    }
}

impl Plugin for CheapNodes {
    fn name(&self) -> &str {
        NAME
    }

    extension_points!(Score, Sign);
}

impl Score for CheapNodes {
    fn score(
        &self,
        _: &Context<'_>,
        _: &CycleState,
        _: &Pod,
        node: &NodeView<'_>,
    ) -> Result<i64, Status> {
        Ok(price(node.labels().get(&self.price_label)))
    }

    /// The second step, once the first works: the same over the column of the label. Thousands of nodes share a handful of
    /// prices, so each price is read once. Leaving this method out changes the speed only.
    fn score_all(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        scores: &mut [i64],
    ) -> Result<(), Status> {
        let Some(column) = cx.cluster().label_column(&self.price_label) else {
            // The cluster keeps no column for this label: score node by node.
            for (&idx, score) in nodes.iter().zip(scores) {
                let Some(node) = cx.cluster().node(idx) else { continue };
                *score = self.score(cx, state, pod, &node)?;
            }
            return Ok(());
        };
        let mut by_value = vec![UNKNOWN; column.n_ids()];
        for (id, value, _) in column.values() {
            if let Some(place) = by_value.get_mut(id.index()) {
                *place = price(Some(value));
            }
        }
        for (&idx, score) in nodes.iter().zip(scores) {
            *score = by_value.get(column.id(idx).index()).copied().unwrap_or(UNKNOWN);
        }
        Ok(())
    }

    fn normalization(&self) -> Normalization {
        Normalization::ReversedProportional
    }
}

impl Sign for CheapNodes {
    /// All pods get the same answers.
    fn sign(&self, _: &Pod, _: &mut SignatureWriter) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use kube_scheduler_framework::testing::{Fixture, check_contract, node, pod};
    use serde_json::json;

    use super::*;

    fn plugin() -> Arc<dyn Plugin> {
        new(&PluginArgs::Null, &Handle::default()).unwrap()
    }

    fn fixture(prices: &[(&str, &str)]) -> Fixture {
        prices.iter().fold(Fixture::new(), |fixture, (name, price)| {
            fixture.with_node(node(name).label("example.com/price", price))
        })
    }

    fn scores(prices: &[(&str, &str)]) -> Vec<i64> {
        let mut fixture = fixture(prices);
        let ask = |fixture: &Fixture| {
            let scores = fixture.scores(&*plugin(), &pod("p").build()).unwrap();
            scores.into_iter().map(|(_, score)| score).collect::<Vec<_>>()
        };
        let plain = ask(&fixture);
        // What is kept up to date for the plugin must make no difference.
        fixture.cluster_mut().ensure_label_column("example.com/price");
        assert_eq!(ask(&fixture), plain);
        plain
    }

    #[test]
    fn the_cheaper_the_better() {
        assert_eq!(scores(&[("a", "1"), ("b", "0.25"), ("c", "0")]), [0, 75, 100]);
    }

    #[test]
    fn equal_prices_make_no_difference() {
        assert_eq!(scores(&[("a", "0"), ("b", "0")]), [100, 100]);
        assert_eq!(scores(&[("a", "2"), ("b", "2")]), [0, 0]);
    }

    #[test]
    fn a_price_that_cannot_be_read_is_the_dearest() {
        for text in ["dear", "-1", "NaN", "inf", "1e9"] {
            assert_eq!(scores(&[("a", text), ("b", "999")]), [0, 100], "{text}");
        }
    }

    #[test]
    fn mistakes_in_arguments_are_named() {
        let error = new(&json!({"priceLabel": ""}), &Handle::default()).unwrap_err().to_string();
        assert!(error.ends_with("priceLabel: must not be empty"), "{error}");
    }

    #[test]
    fn it_keeps_its_promises() {
        let fixture = fixture(&[("a", "1"), ("b", "2"), ("c", "x")]);
        let pods = [pod("p").build(), pod("q").label("a", "b").build()];
        assert_eq!(check_contract(&*plugin(), &fixture, &pods), []);
    }
}
