//! Which of a list of things, each for nodes with certain labels, a node may reach: volumes, and places to make volumes.
//!
//! Most are for one node or one zone: they are found by that label instead of being compared with every node.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_framework::api::{Labels, Operator, Requirement};

/// Places in a list, by what a node must have to reach them.
#[derive(Clone, Debug, Default)]
pub(super) struct Pins {
    /// Those that only nodes with one value of one label reach, by label and value.
    pinned: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Vec<usize>>>,
    /// All others.
    loose: Vec<usize>,
}

impl Pins {
    /// Files a place under one of the requirements that its nodes have to fulfil. Places come in ascending order.
    pub(super) fn push(&mut self, at: usize, requirements: &[Requirement]) {
        let pin = requirements.iter().find_map(|requirement| match &*requirement.values {
            [value] if requirement.operator == Operator::In => Some((&requirement.key, value)),
            _ => None,
        });
        let places = match pin {
            None => &mut self.loose,
            Some((key, value)) => {
                let by_value = self.pinned.entry(key.clone()).or_default();
                by_value.entry(value.clone()).or_default()
            }
        };
        places.push(at);
    }

    /// The places that a node with these labels may reach, in ascending order; all others it surely does not reach.
    pub(super) fn on(&self, labels: &Labels) -> Places<'_> {
        let pinned = self.pinned.iter();
        let pinned = pinned.filter_map(|(key, by_value)| by_value.get(labels.get(key)?));
        Places(pinned.chain([&self.loose]).map(|places| &**places).collect())
    }
}

/// Merges sorted lists.
#[derive(Clone, Debug)]
pub(super) struct Places<'a>(Vec<&'a [usize]>);

impl Places<'_> {
    /// Leaves out all places before this one.
    pub(super) fn skip_to(&mut self, least: usize) {
        for list in &mut self.0 {
            let n_before = list.partition_point(|at| *at < least);
            *list = list.get(n_before..).unwrap_or_default();
        }
    }
}

impl Iterator for Places<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let lists = self.0.iter_mut().filter(|list| !list.is_empty());
        let list = lists.min_by_key(|list| list.first().copied())?;
        let (first, rest) = list.split_first()?;
        *list = rest;
        Some(*first)
    }
}
