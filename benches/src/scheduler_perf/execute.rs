//! Carrying operations out, one after the other; what goes on in the background ends with the workload.

mod churn;
mod devices;
mod groups;
mod pods;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::cluster::{Hands, Parts};
use super::collect::{self, Collection};
use super::data_items::{DataItem, apply_threshold};
use super::definition::{MetricSelector, Settings};
use super::go_template::{Env, Fields};
use super::objects::{Template, base_node};
use super::op::{
    Barrier, CreateAny, CreateNamespaces, CreateNodes, Op, Sleep, Stage, StartCollectingMetrics,
    UpdateAny, counted,
};
use super::params::Params;
use super::pods::{Counts, PodFilter};

/// How often to look whether pods are where they should be, as in the reference.
const POLL: Duration = Duration::from_secs(1);
/// How long kinds may take to be served that are new to the server.
const CREATE_PATIENCE: Duration = Duration::from_secs(20);

/// What a workload is carried out with.
pub(crate) struct Executor<'a> {
    pub(crate) cluster: &'a Parts,
    pub(crate) hands: Hands,
    pub(crate) settings: &'a Settings,
    pub(crate) directory: PathBuf,
    pub(crate) params: Params,
    pub(crate) gates: BTreeMap<String, bool>,
    /// What results are called, without the last part.
    pub(crate) name: String,
    pub(crate) threshold: f64,
    pub(crate) selector: MetricSelector,
    /// How long pods may take.
    pub(crate) patience: Duration,
    pub(crate) state: State,
}

/// What operations leave behind for those after them.
#[derive(Default)]
pub(crate) struct State {
    /// Namespaces that were created, with the number of pods that a barrier waits for.
    n_pods: BTreeMap<String, usize>,
    n_nodes: usize,
    /// How many pod groups were created, by namespace.
    n_pod_groups: BTreeMap<String, usize>,
    collection: Option<Collection>,
    background: JoinSet<Result<()>>,
    pub(crate) items: Vec<DataItem>,
    /// Thresholds that were missed.
    pub(crate) missed: Vec<String>,
}

/// Puts sets of pods in place of the operation that asks for them: places count in names of namespaces.
pub(crate) fn unroll(ops: &[Op], params: &mut Params) -> Result<Vec<Op>> {
    let mut unrolled = Vec::new();
    for (index, op) in ops.iter().enumerate() {
        let Op::CreatePodSets(sets) = op else {
            unrolled.push(op.clone());
            continue;
        };
        let n = counted("countParam", sets.count, &sets.count_param, params)
            .with_context(|| format!("op {index}: createPodSets"))?;
        unrolled.extend((0..n).map(|set| {
            let mut pods = sets.create_pods_op.clone();
            pods.namespace = Some(format!("{}-{set}", sets.namespace_prefix));
            Op::CreatePods(pods)
        }));
    }
    Ok(unrolled)
}

/// How many features the nodes of a workload declare. The reference's program reads it beside the definition.
const N_DECLARED_FEATURES: &str = "numNodeDeclaredFeatures";

impl Executor<'_> {
    /// Carries an operation out.
    pub(crate) async fn run(&mut self, index: usize, op: &Op) -> Result<()> {
        match op {
            Op::AllocResourceClaims(op) => self.alloc_resource_claims(op).await,
            Op::Barrier(op) => self.barrier(op).await,
            Op::Churn(op) => self.churn(index, op).await,
            Op::CreateAny(op) => self.create_any(op).await,
            Op::CreateNamespaces(op) => self.create_namespaces(op).await,
            Op::CreateNodes(op) => self.create_nodes(index, op).await,
            Op::CreatePodGroups(op) => self.create_pod_groups(op).await,
            Op::CreatePodSets(_) => bail!("sets of pods are put in place before"),
            Op::CreatePods(op) => self.create_pods(index, op).await,
            Op::CreateResourceClaims(op) => self.create_resource_claims(op).await,
            Op::CreateResourceDriver(op) => self.create_resource_driver(op).await,
            Op::DeletePods(op) => self.delete_pods(op).await,
            Op::Sleep(op) => self.sleep(op).await,
            Op::StartCollectingMetrics(op) => self.start_collecting(op),
            Op::StopCollectingMetrics(_) => self.stop_collecting(),
            Op::UpdateAny(op) => self.update_any(op).await,
            Op::WaitForPodGroups(op) => self.wait_for_pod_groups(op).await,
        }?;
        // Something in the background may have failed meanwhile.
        while let Some(done) = self.state.background.try_join_next() {
            done.context("a background operation broke down")?.context("in the background")?;
        }
        Ok(())
    }

    /// Checks what can be checked when all operations are through.
    pub(crate) fn finish(mut self) -> Result<State> {
        let unused = self.params.unused();
        if !unused.is_empty() {
            bail!("the parameters {} are defined, but unused", unused.join(", "));
        }
        if self.state.collection.is_some() {
            bail!("startCollectingMetrics without stopCollectingMetrics");
        }
        self.state.background.abort_all();
        Ok(self.state)
    }

    fn template(&self, path: &str) -> Result<Template> {
        Template::read(&self.directory, path)
    }

    /// Creates a namespace unless an operation of this workload has.
    async fn need_namespace(&mut self, name: &str) -> Result<()> {
        if !self.state.n_pods.contains_key(name) {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            self.hands.create_namespace(&namespace).await?;
            self.state.n_pods.insert(name.to_owned(), 0);
        }
        Ok(())
    }

    async fn create_namespaces(&mut self, op: &CreateNamespaces) -> Result<()> {
        let n = counted("countParam", op.count, &op.count_param, &mut self.params)?;
        let base = match &op.namespace_template_path {
            Some(path) => self.template(path)?.plain()?,
            None => json!({}),
        };
        for index in 0..n {
            let name = format!("{}-{index}", op.prefix);
            let mut namespace = base.clone();
            namespace["apiVersion"] = "v1".into();
            namespace["kind"] = "Namespace".into();
            namespace["metadata"]["name"] = name.clone().into();
            self.hands.create_namespace(&namespace).await?;
            self.state.n_pods.entry(name).or_insert(0);
        }
        Ok(())
    }

    /// Parity: the reference creates nodes one at a time and prepares them with patches afterwards; here they are created
    /// as they are meant to be, several at a time. Names end in numbers, not in random letters.
    async fn create_nodes(&mut self, index: usize, op: &CreateNodes) -> Result<()> {
        let n = counted("countParam", op.count, &op.count_param, &mut self.params)?;
        let template = match &op.node_template_path {
            Some(path) => Some(self.template(path)?),
            None => None,
        };
        let fields = self.params.template(&op.template_params)?;
        let first = self.state.n_nodes;
        let declared: Vec<String> = match self.params.count_if_given(N_DECLARED_FEATURES)? {
            Some(n) => (1..=n).map(|number| format!("Feature{number}")).collect(),
            None => Vec::new(),
        };
        let object = |number: usize| -> Result<Value> {
            let mut node = match &template {
                Some(template) => {
                    template.object(Env { index: number, count: n, fields: &fields })?
                }
                None => base_node(&format!("node-{index}-")),
            };
            prepare(&mut node, op, number, first + number);
            if !declared.is_empty() {
                node["status"]["declaredFeatures"] = declared.clone().into();
            }
            Ok(node)
        };
        self.hands.create_all(n, "", object).await?;
        if let Some(strategy) = &op.node_allocatable_strategy {
            let csi_node = |number: usize| -> Result<Value> {
                let node = object(number)?;
                let name = &node["metadata"]["name"];
                let drivers: Vec<Value> = strategy
                    .csi_node_allocatable
                    .iter()
                    .map(|(driver, allocatable)| {
                        json!({"name": driver, "nodeID": name, "allocatable": allocatable})
                    })
                    .collect();
                Ok(json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
                    "metadata": {"name": name, "annotations": {
                        "storage.alpha.kubernetes.io/migrated-plugins": strategy.migrated_plugins.join(",")}},
                    "spec": {"drivers": drivers}}))
            };
            self.hands.create_all(n, "", csi_node).await?;
        }
        self.state.n_nodes += n;
        Ok(())
    }

    async fn create_any(&mut self, op: &CreateAny) -> Result<()> {
        let n = counted("countParam", op.count.unwrap_or(1), &op.count_param, &mut self.params)?;
        let template = self.template(&op.template_path)?;
        let fields = self.params.template(&op.template_params)?;
        if !op.namespace.is_empty() {
            self.need_namespace(&op.namespace).await?;
        }
        for index in 0..n {
            let object = template.object(Env { index, count: n, fields: &fields })?;
            if groups::is_pod_group(&object) {
                self.state.count_pod_groups(&op.namespace, 1);
            }
            let give_up = tokio::time::Instant::now() + CREATE_PATIENCE;
            while let Err(error) = self.hands.create(&object, &op.namespace).await {
                // What the server does not accept as it is will not be accepted later either.
                let code = kube_scheduler_tests::control_plane::code(&error);
                if code != Some(404) || tokio::time::Instant::now() > give_up {
                    return Err(error.context(op.template_path.clone()));
                }
                tokio::time::sleep(POLL).await;
            }
        }
        Ok(())
    }

    async fn update_any(&mut self, op: &UpdateAny) -> Result<()> {
        let n = counted("countParam", op.count.unwrap_or(1), &op.count_param, &mut self.params)?;
        let template = self.template(&op.template_path)?;
        if !op.namespace.is_empty() {
            self.need_namespace(&op.namespace).await?;
        }
        let mut pace = pace(op.update_per_second);
        let parts: Vec<&str> = op.subresources.iter().map(String::as_str).collect();
        for index in 0..n {
            if let Some(pace) = &mut pace {
                pace.tick().await;
            }
            let object = template.object(Env { index, count: n, fields: &Fields::new() })?;
            let replaced = async {
                self.hands.replace(&object, &op.namespace, &parts).await?;
                self.hands.replace(&object, &op.namespace, &["status"]).await
            };
            replaced.await.with_context(|| op.template_path.clone())?;
        }
        Ok(())
    }

    async fn barrier(&mut self, op: &Barrier) -> Result<()> {
        for namespace in &op.namespaces {
            if !self.state.n_pods.contains_key(namespace) {
                let known: Vec<&str> = self.state.n_pods.keys().map(String::as_str).collect();
                bail!("unknown namespace {namespace}; known are {}", known.join(", "));
            }
        }
        let namespaces: Vec<String> = if op.namespaces.is_empty() {
            self.state.n_pods.keys().cloned().collect()
        } else {
            op.namespaces.clone()
        };
        for namespace in &namespaces {
            let wanted = self.state.n_pods.get(namespace).copied().unwrap_or(0);
            let mut filter = PodFilter::namespace(namespace);
            filter.labels.clone_from(&op.label_selector);
            self.until(op.stage_requirement, filter, wanted).await?;
        }
        if op.stage_requirement == Stage::Scheduled {
            for namespace in &namespaces {
                self.state.n_pods.remove(namespace);
            }
        }
        Ok(())
    }

    /// Waits until this many pods are bound, or at least were tried.
    async fn until(&self, stage: Stage, filter: PodFilter, wanted: usize) -> Result<()> {
        let deadline = tokio::time::Instant::now() + self.patience;
        loop {
            let counts = self.cluster.pods.count(&filter);
            let Counts { scheduled, attempted, .. } = counts;
            let (n, what) = match stage {
                Stage::Scheduled => (scheduled, "scheduled"),
                Stage::Attempted => (scheduled + attempted, "attempted"),
            };
            if n >= wanted {
                return Ok(());
            }
            if tokio::time::Instant::now() > deadline {
                let namespaces: Vec<String> = filter.namespaces.into_iter().collect();
                bail!(
                    "{n} of {wanted} pods of namespace {} {what} after {:?}{}",
                    namespaces.join(", "),
                    self.patience,
                    counts.pending.map(|pending| format!("; {pending}")).unwrap_or_default()
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn sleep(&mut self, op: &Sleep) -> Result<()> {
        let length = self.length(op.duration, &op.duration_param)?;
        tokio::time::sleep(length).await;
        Ok(())
    }

    fn length(
        &mut self,
        written: kube_scheduler_config::Duration,
        param: &str,
    ) -> Result<Duration> {
        let length = if param.is_empty() {
            written
        } else {
            let text = self.params.text("durationParam", param)?;
            kube_scheduler_config::Duration::parse(&text).context("durationParam")?
        };
        length.to_std().context("duration cannot be negative")
    }

    fn start_collecting(&mut self, op: &StartCollectingMetrics) -> Result<()> {
        let filter = PodFilter {
            namespaces: op.namespaces.iter().cloned().collect(),
            labels: op.label_selector.clone(),
        };
        self.collect(&op.name, filter)
    }

    fn collect(&mut self, name: &str, filter: PodFilter) -> Result<()> {
        if self.state.collection.is_some() {
            bail!("metrics collection is overlapping: stop the one before first");
        }
        self.state.collection = Some(Collection::start(
            format!("{}/{name}", self.name),
            &self.cluster.pods,
            filter,
            collect::config_of(self.settings.metrics_collector_config.as_ref(), &self.gates),
            self.cluster.scheduler.clone(),
        ));
        Ok(())
    }

    fn stop_collecting(&mut self) -> Result<()> {
        let collection = self
            .state
            .collection
            .take()
            .context("missing startCollectingMetrics operation before stopping")?;
        let mut items = collection.stop();
        self.state.missed.extend(apply_threshold(&mut items, self.threshold, &self.selector));
        self.state.items.extend(items);
        Ok(())
    }
}

/// How often something happens in a second; `None` means at once.
fn pace(per_second: u32) -> Option<tokio::time::Interval> {
    let interval = Duration::from_secs(1).checked_div(per_second)?;
    Some(ticker(interval))
}

/// The first tick comes after an interval, and ticks that passed before they were waited for are left out.
fn ticker(interval: Duration) -> tokio::time::Interval {
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}

/// Gives a node its name, and what the operation's strategy prescribes. `number` is its place in the operation,
/// `overall` among all nodes of the workload.
fn prepare(node: &mut Value, op: &CreateNodes, number: usize, overall: usize) {
    let name = match node["metadata"]["name"].as_str() {
        Some(name) => name.to_owned(),
        None => {
            let prefix = node["metadata"]["generateName"].as_str().unwrap_or_default();
            format!("{prefix}{overall:06}")
        }
    };
    node["metadata"]["name"] = name.clone().into();
    node["metadata"]["labels"]["kubernetes.io/hostname"] = name.clone().into();
    if let Some(strategy) = &op.node_allocatable_strategy {
        for (resource, amount) in &strategy.node_allocatable {
            if node["status"]["allocatable"].is_null() {
                node["status"]["allocatable"] = node["status"]["capacity"].clone();
            }
            node["status"]["allocatable"][resource] = amount.clone().into();
        }
    } else if let Some(strategy) = &op.label_node_prepare_strategy {
        let values = &strategy.label_values;
        if let Some(value) = values.get(number % values.len().max(1)) {
            node["metadata"]["labels"][&strategy.label_key] = value.clone().into();
        }
    } else if let Some(strategy) = &op.unique_node_label_strategy {
        node["metadata"]["labels"][&strategy.label_key] = format!("unique-{name}").into();
    }
}

#[cfg(test)]
mod tests {
    use super::super::op::{LabelNodePrepareStrategy, NodeAllocatableStrategy};
    use super::*;

    fn op(value: Value) -> Op {
        Op::read(value).unwrap()
    }

    #[test]
    fn sets_of_pods_take_a_place_each() {
        let ops = [
            op(json!({"opcode": "createPodSets", "countParam": "$n", "namespacePrefix": "ns",
                "createPodsOp": {"opcode": "createPods", "count": 3}})),
            op(json!({"opcode": "barrier"})),
        ];
        let mut params = Params::new([("n".to_owned(), json!(2))].into());
        let unrolled = unroll(&ops, &mut params).unwrap();
        assert_eq!(unrolled.len(), 3);
        let Op::CreatePods(second) = &unrolled[1] else { panic!("{unrolled:?}") };
        assert_eq!((second.namespace.as_deref(), second.count), (Some("ns-1"), 3));
        assert!(params.unused().is_empty());
    }

    #[test]
    fn nodes_are_prepared_as_the_strategy_says() {
        let labels = CreateNodes {
            label_node_prepare_strategy: Some(LabelNodePrepareStrategy {
                label_key: "zone".into(),
                label_values: vec!["a".into(), "b".into()],
            }),
            ..CreateNodes::default()
        };
        let mut node = base_node("node-0-");
        prepare(&mut node, &labels, 1, 7);
        assert_eq!(node["metadata"]["name"], "node-0-000007");
        assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], "node-0-000007");
        assert_eq!(node["metadata"]["labels"]["zone"], "b");

        let allocatable = CreateNodes {
            node_allocatable_strategy: Some(NodeAllocatableStrategy {
                node_allocatable: [("x".into(), "39".into())].into(),
                ..NodeAllocatableStrategy::default()
            }),
            ..CreateNodes::default()
        };
        let mut node = json!({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}});
        prepare(&mut node, &allocatable, 0, 0);
        assert_eq!(node["metadata"]["name"], "n");
        assert_eq!(node["status"]["allocatable"], json!({"cpu": "4", "x": "39"}));
    }
}
