//! Which budgets of a namespace cover pods with given labels, found at bounded cost.
//!
//! A tenant writes budgets and pods, and pods of all others may want to evict its own. So a budget is looked up by a label that it asks
//! for, pods with the same labels are compared once in an attempt, and comparing ends at a limit.
//!
//! Parity: the reference compares every budget of the namespace with every pod, however long that takes. Here a budget that lists
//! more than [`MOST_LISTED`] texts covers every pod of its namespace that has labels; and where comparing would cost more than
//! [`MOST_WORK`] for one set of labels, or a namespace has more than [`MOST_BUDGETS`] budgets, evicting the pod violates a budget. Either
//! protects more pods, never fewer, and the log says so.
//!
//! Invariant: without such budgets, a cover has exactly the budgets whose selectors match, in order of their names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_framework::api::{
    Fields, Json, LabelSelector, Labels, Object, Operator, Pod, Requirement, wire,
};
use serde::Deserialize;

/// A selector that lists more keys and values than these is not read.
pub(super) const MOST_LISTED: usize = 256;
/// More budgets of a namespace than these are not looked at.
pub(super) const MOST_BUDGETS: usize = 4096;
/// What comparing the budgets of a namespace with one set of labels may cost, in units: one for a key that budgets are looked up by, a
/// budget, a requirement or a step through a list of values.
pub(super) const MOST_WORK: u64 = 128;
/// What a budget costs that covers: it is counted down for each pod. The API server evicts no pod that has two.
pub(super) const COVERING: u64 = 16;
/// A budget is looked up by a label if it lists no more values for it.
const MOST_VALUES: usize = 16;

/// What a budget says of the pods that it covers.
#[derive(Debug)]
enum BudgetSelector {
    /// None, as an empty one does here.
    Nothing,
    By(LabelSelector),
    /// The selector is too long.
    Everything,
}

/// What a budget says; read once, and kept with its object.
#[derive(Debug)]
pub(super) struct Terms {
    selected: BudgetSelector,
    pub(super) allowed: i64,
    /// Names of pods whose disruption is counted already.
    disrupted: BTreeSet<String>,
}

impl Terms {
    fn read(json: &Json) -> Self {
        let status = &json["status"];
        let disrupted =
            status["disruptedPods"].as_object().into_iter().flat_map(|pods| pods.iter());
        Self {
            selected: BudgetSelector::read(&json["spec"]["selector"]),
            allowed: status["disruptionsAllowed"].as_i64().unwrap_or(0),
            disrupted: disrupted.map(|(name, _)| name.to_owned()).collect(),
        }
    }

    /// Whether the disruption of the pod is counted already.
    pub(super) fn is_disrupted(&self, pod: &Pod) -> bool {
        self.disrupted.contains(&*pod.name)
    }
}

impl BudgetSelector {
    fn read(written: &Json) -> Self {
        if written.is_null() {
            return Self::Nothing;
        }
        if is_too_long(written) {
            return Self::Everything;
        }
        let read = wire::LabelSelector::deserialize(written).ok();
        let read = read.and_then(|selector| LabelSelector::from_wire(&selector).ok());
        match read.filter(|selector| !selector.is_empty()) {
            Some(selector) => Self::By(selector),
            None => Self::Nothing,
        }
    }

    /// What a comparison costs, and a short list of values for a label that pods need, with its key.
    fn look_up(&self) -> (u64, Option<&Requirement>) {
        let Self::By(selector) = self else { return (1, None) };
        let requirements = selector.requirements();
        let of_values =
            |one: &Requirement| u64::from(usize::BITS - one.values.len().leading_zeros());
        let cost = requirements.iter().map(|one| 1 + of_values(one)).sum::<u64>();
        let lists = requirements
            .iter()
            .filter(|one| one.operator == Operator::In && one.values.len() <= MOST_VALUES);
        (1 + cost, lists.min_by_key(|one| one.values.len()))
    }

    fn covers(&self, labels: &Labels) -> bool {
        match self {
            Self::Nothing => false,
            Self::By(selector) => selector.matches(labels),
            Self::Everything => true,
        }
    }
}

/// Whether a selector lists too many keys and values. Looks at no more expressions than it may have.
fn is_too_long(written: &Json) -> bool {
    let mut n_listed = 2 * written["matchLabels"].as_object().map_or(0, Fields::len);
    for expression in written["matchExpressions"].as_array().unwrap_or_default() {
        n_listed += 1 + expression["values"].as_array().map_or(0, <[_]>::len);
        if n_listed > MOST_LISTED {
            break;
        }
    }
    n_listed > MOST_LISTED
}

/// One budget that may cover pods.
#[derive(Debug)]
pub(super) struct Budget {
    pub(super) name: Arc<str>,
    pub(super) terms: Arc<Terms>,
    /// What comparing it costs.
    cost: u64,
}

/// The budgets, by their numbers, that count for pods with some labels.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Cover {
    /// Those that cover them, in order of their names.
    pub(super) budgets: Vec<usize>,
    /// The first that was not compared. It lets nothing go.
    pub(super) not_compared: Option<usize>,
}

/// The budgets of a namespace, and which of them cover pods with which labels.
#[derive(Debug, Default)]
pub(super) struct NamespaceBudgets {
    /// A number of its own among the namespaces.
    pub(super) number: usize,
    /// In order of their names.
    budgets: Vec<Budget>,
    by_label: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Vec<usize>>>,
    /// Those that are looked up by no label.
    others: Vec<usize>,
    /// The first that is one too many.
    surplus: Option<usize>,
    /// By the address of labels, which are kept so that no others get it.
    known: BTreeMap<usize, (Labels, Arc<Cover>)>,
    has_warned: bool,
}

impl NamespaceBudgets {
    /// The budgets of a namespace, in order of their names.
    pub(super) fn read<'o>(number: usize, objects: impl Iterator<Item = &'o Arc<Object>>) -> Self {
        let mut all = Self { number, ..Self::default() };
        for object in objects {
            let terms = object.read_as(Terms::read);
            if matches!(terms.selected, BudgetSelector::Nothing) {
                continue;
            }
            let at = all.budgets.len();
            let (cost, by) = terms.selected.look_up();
            if at == MOST_BUDGETS {
                all.surplus = Some(at);
            } else if let Some(Requirement { key, values, .. }) = by {
                let by_value = all.by_label.entry(key.clone()).or_default();
                for value in &**values {
                    by_value.entry(value.clone()).or_default().push(at);
                }
            } else {
                all.others.push(at);
            }
            all.budgets.push(Budget { name: object.name.clone(), terms, cost });
            if all.surplus.is_some() {
                break;
            }
        }
        all
    }

    pub(super) fn len(&self) -> usize {
        self.budgets.len()
    }

    pub(super) fn get(&self, at: usize) -> Option<&Budget> {
        self.budgets.get(at)
    }

    /// What covers a pod that has labels, and what it cost to find that out.
    pub(super) fn cover(&mut self, pod: &Pod) -> (Arc<Cover>, u64) {
        let labels = &pod.labels;
        if let Some((_, cover)) = self.known.get(&labels.address()) {
            return (cover.clone(), 0);
        }
        let (cover, work) = self.compare(labels);
        self.warn_once(&pod.namespace, &cover);
        let cover = Arc::new(cover);
        self.known.insert(labels.address(), (labels.clone(), cover.clone()));
        (cover, work)
    }

    fn compare(&self, labels: &Labels) -> (Cover, u64) {
        let mut cover = Cover { not_compared: self.surplus, ..Cover::default() };
        let mut work = self.by_label.len() as u64;
        if work > MOST_WORK {
            return (Cover { not_compared: Some(0), ..cover }, MOST_WORK);
        }
        // Each costs a unit or more, so no more of one list are compared.
        let first =
            |all: &[usize]| all.iter().take(MOST_WORK as usize).copied().collect::<Vec<_>>();
        let mut candidates = first(&self.others);
        for (key, by_value) in &self.by_label {
            let found = labels.get(key).and_then(|value| by_value.get(value));
            candidates.extend(found.into_iter().flat_map(|all| first(all)));
        }
        candidates.sort_unstable();
        for at in candidates {
            let Some(Budget { terms, cost, .. }) = self.budgets.get(at) else { continue };
            if work + cost > MOST_WORK {
                cover.not_compared = Some(at);
                break;
            }
            work += cost;
            if terms.selected.covers(labels) {
                cover.budgets.push(at);
                work += COVERING;
            }
        }
        (cover, work)
    }

    /// Says that budgets protect pods which they may not mean.
    fn warn_once(&mut self, namespace: &str, cover: &Cover) {
        let is_too_long =
            |at: &&usize| matches!(self.budgets[**at].terms.selected, BudgetSelector::Everything);
        let too_long = cover.budgets.iter().find(is_too_long).copied();
        let Some(at) = cover.not_compared.or(too_long).filter(|_| !self.has_warned) else { return };
        self.has_warned = true;
        let budget = &*self.budgets[at].name;
        tracing::warn!(
            namespace,
            budget,
            "PodDisruptionBudgets are too many or too long to be compared with pods: they protect pods of the namespace \
             that they may not select"
        );
    }
}
