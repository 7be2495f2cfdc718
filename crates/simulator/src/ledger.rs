//! A record of every pod of the input.
//!
//! Invariant: every pod has exactly one account, and accounts are never removed; so every pod is counted once.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_answers::PodName;
use kube_scheduler_api_types::Pod;

/// One pod.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    /// The pod as it is on the simulated API server.
    pub(crate) pod: Arc<Pod>,
    pub(crate) fate: Fate,
    /// The number of attempts to schedule it.
    pub(crate) n_attempts: u32,
    /// The number of the last of them among all attempts of the run.
    pub(crate) last_turn: Option<u64>,
    pub(crate) last_failure: Option<LastFailure>,
}

/// Why the last attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastFailure {
    pub(crate) is_error: bool,
    pub(crate) message: String,
}

/// Where a pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It had a node in the input.
    AlreadyRunning,
    /// It has no node.
    Pending,
    /// It got a node.
    Placed,
    /// It got a node and was deleted at the end of its time.
    Ended,
    /// It was deleted at the end of its time, without a node.
    Deleted,
    /// It was evicted for another pod.
    Preempted {
        /// The node it was on.
        node: Option<Arc<str>>,
        /// The pod it was evicted for.
        by: Option<PodName>,
    },
}

/// All pods.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    accounts: Vec<Account>,
    by_uid: BTreeMap<Arc<str>, usize>,
    /// Pods in the order in which they were placed.
    pub(crate) placed: Vec<usize>,
    /// Pods in the order in which they were preempted.
    pub(crate) preempted: Vec<usize>,
    pub(crate) n_tried: usize,
}

impl Ledger {
    pub(crate) fn new(pods: &[Arc<Pod>]) -> Self {
        let account = |pod: &Arc<Pod>| Account {
            pod: pod.clone(),
            fate: if pod.is_assigned() { Fate::AlreadyRunning } else { Fate::Pending },
            n_attempts: 0,
            last_turn: None,
            last_failure: None,
        };
        Self {
            accounts: pods.iter().map(account).collect(),
            by_uid: pods.iter().enumerate().map(|(at, pod)| (pod.uid.clone(), at)).collect(),
            placed: Vec::new(),
            preempted: Vec::new(),
            n_tried: 0,
        }
    }

    pub(crate) fn position(&self, uid: &str) -> Option<usize> {
        self.by_uid.get(uid).copied()
    }

    pub(crate) fn account(&self, at: usize) -> &Account {
        &self.accounts[at]
    }

    pub(crate) fn account_mut(&mut self, at: usize) -> &mut Account {
        &mut self.accounts[at]
    }

    /// All pods in the order of the input.
    pub(crate) fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    pub(crate) fn named(&self, name: &PodName) -> Option<&Account> {
        self.accounts.iter().find(|account| {
            account.pod.namespace == name.namespace && account.pod.name == name.name
        })
    }

    /// Records an attempt at the pod at position `at`, by its number.
    pub(crate) fn record_attempt(&mut self, at: usize, turn: u64) {
        let account = &mut self.accounts[at];
        self.n_tried += usize::from(account.n_attempts == 0);
        account.n_attempts += 1;
        account.last_turn = Some(turn);
        account.last_failure = None;
    }
}
