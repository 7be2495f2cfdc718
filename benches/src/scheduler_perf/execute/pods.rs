//! Creating pods, with volumes or without, once or again and again; and deleting them.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::stream::{self, StreamExt, TryStreamExt};
use kube_scheduler_tests::control_plane::code;
use serde_json::{Value, json};

use super::super::cluster::{Hands, WIDTH};
use super::super::go_template::{Env, Fields};
use super::super::objects::{Template, base_pod};
use super::super::op::{CreatePods, DeletePods, Stage, counted};
use super::super::pods::PodFilter;
use super::{Executor, pace};

/// How to make the pods of an operation.
struct Recipe {
    pod: Option<Template>,
    fields: Fields,
    /// Volume and claim of each pod.
    volumes: Option<(Value, Value)>,
}

impl Executor<'_> {
    pub(super) async fn create_pods(&mut self, index: usize, op: &CreatePods) -> Result<()> {
        let mut n = counted("countParam", op.count, &op.count_param, &mut self.params)?;
        if !op.count_multiplier_param.is_empty() {
            let field = "countMultiplierParam";
            let factor = self.params.count(field, &op.count_multiplier_param)?;
            n = n.checked_mul(factor).with_context(|| format!("{field}: {n} times {factor}"))?;
        }
        let is_steady = if op.steady_state_param.is_empty() {
            op.steady_state
        } else {
            self.params.flag("steadyStateParam", &op.steady_state_param)?
        };
        let length = self.length(op.duration, &op.duration_param)?;
        if is_steady && length.is_zero() {
            bail!("when creating pods in a steady state, the test duration must be > 0");
        }
        if is_steady && op.skip_wait_to_completion {
            bail!("skipWaitToCompletion and steadyState cannot be true at the same time");
        }
        let namespace = op.namespace.clone().unwrap_or_else(|| format!("namespace-{index}"));
        let recipe = self.recipe(op)?;
        self.need_namespace(&namespace).await?;
        if op.collect_metrics {
            self.collect(&namespace, PodFilter::namespace(&namespace))?;
        }
        if is_steady {
            self.keep_steady(&namespace, n, &recipe, length).await?;
        } else {
            create(&self.hands, &namespace, n, &recipe).await?;
            if op.skip_wait_to_completion {
                *self.state.n_pods.entry(namespace).or_default() += n;
            } else {
                self.until(Stage::Scheduled, PodFilter::namespace(&namespace), n).await?;
            }
        }
        if op.collect_metrics {
            self.stop_collecting()?;
        }
        Ok(())
    }

    fn recipe(&mut self, op: &CreatePods) -> Result<Recipe> {
        let path =
            op.pod_template_path.as_ref().or(self.settings.default_pod_template_path.as_ref());
        let pod = match path {
            Some(path) => Some(self.template(path)?),
            None => None,
        };
        let paths =
            (&op.persistent_volume_template_path, &op.persistent_volume_claim_template_path);
        let volumes = match paths {
            (Some(volume), Some(claim)) => {
                Some((self.template(volume)?.plain()?, self.template(claim)?.plain()?))
            }
            _ => None,
        };
        Ok(Recipe { pod, fields: self.params.template(&op.template_params)?, volumes })
    }

    /// Creates pods, and new ones whenever all of them are bound, in place of the old ones, until the time is over.
    async fn keep_steady(
        &self,
        namespace: &str,
        n: usize,
        recipe: &Recipe,
        length: Duration,
    ) -> Result<()> {
        let bound = self.cluster.pods.count_scheduled(PodFilter::namespace(namespace));
        let mut changes = self.cluster.pods.changes();
        let mut n_batches = 1;
        let rounds = async {
            create(&self.hands, namespace, n, recipe).await?;
            loop {
                while bound.n_scheduled() < n * n_batches {
                    changes.changed().await.context("the watch on pods")?;
                }
                n_batches += 1;
                let path = format!("/api/v1/namespaces/{namespace}/pods");
                let now = json!({"apiVersion": "v1", "kind": "DeleteOptions",
                    "gracePeriodSeconds": 0, "propagationPolicy": "Background"});
                self.hands.api.send("DELETE", &path, Some(&now), "application/json").await?;
                create(&self.hands, namespace, n, recipe).await?;
            }
        };
        if n == 0 {
            bail!("when creating pods in a steady state, the count must be > 0");
        }
        tokio::select! {
            done = rounds => done,
            () = tokio::time::sleep(length) => {
                if bound.n_scheduled() == 0 {
                    bail!("no pod at all got scheduled, either because of a problem or because the test interval was too small");
                }
                Ok(())
            }
        }
    }

    pub(super) async fn delete_pods(&mut self, op: &DeletePods) -> Result<()> {
        let names = self.cluster.pods.names(&op.namespace, &op.label_selector);
        let (hands, op) = (self.hands.clone(), op.clone());
        let skips_wait = op.skip_wait_to_completion;
        let delete = async move {
            let pods = format!("/api/v1/namespaces/{}/pods", op.namespace);
            if let Some(mut pace) = pace(op.delete_pods_per_second) {
                for name in names {
                    pace.tick().await;
                    hands.delete(&format!("{pods}/{name}")).await?;
                }
                return Ok(());
            }
            let labels: Vec<String> = op
                .label_selector
                .iter()
                .map(|(label, value)| format!("{}%3D{value}", label.replace('/', "%2F")))
                .collect();
            hands.delete(&format!("{pods}?labelSelector={}", labels.join("%2C"))).await
        };
        if skips_wait {
            self.state.background.spawn(delete);
            return Ok(());
        }
        delete.await
    }
}

/// Creates the pods of an operation.
async fn create(hands: &Hands, namespace: &str, n: usize, recipe: &Recipe) -> Result<()> {
    stream::iter(0..n)
        .map(|index| create_one(hands, namespace, index, n, recipe))
        .buffer_unordered(WIDTH)
        .try_collect::<()>()
        .await
}

async fn create_one(
    hands: &Hands,
    namespace: &str,
    index: usize,
    count: usize,
    recipe: &Recipe,
) -> Result<()> {
    let mut pod = match &recipe.pod {
        Some(template) => template.object(Env { index, count, fields: &recipe.fields })?,
        None => base_pod(),
    };
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    if let Some((volume, claim)) = &recipe.volumes {
        let (volume, claim) = bound_pair(namespace, index, volume.clone(), claim.clone());
        // A status cannot be created along with its object.
        create_with_status(hands, &claim, namespace).await?;
        create_with_status(hands, &volume, "").await?;
        pod["spec"]["volumes"] = json!([{"name": "vol",
            "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}]);
    }
    let has_name = !pod["metadata"]["name"].is_null();
    match hands.create(&pod, namespace).await {
        // The first try went through. A pod whose generated names were all taken, though, is not there.
        Err(error) if has_name && code(&error) == Some(409) => Ok(()),
        made => made.map(drop),
    }
}

async fn create_with_status(hands: &Hands, object: &Value, namespace: &str) -> Result<()> {
    match hands.create(object, namespace).await {
        // Left from the batch before.
        Err(error) if code(&error) != Some(409) => return Err(error),
        _ => {}
    }
    hands.replace(object, namespace, &["status"]).await
}

/// A volume and a claim that are bound to each other.
///
/// Parity: the reference runs a controller that marks bound claims; here they are created with the mark.
fn bound_pair(
    namespace: &str,
    index: usize,
    mut volume: Value,
    mut claim: Value,
) -> (Value, Value) {
    let claim_name = format!("pvc-{index}");
    let volume_name = format!("{namespace}-vol-{index}");
    volume["apiVersion"] = "v1".into();
    volume["kind"] = "PersistentVolume".into();
    volume["metadata"]["name"] = volume_name.clone().into();
    if volume["spec"]["csi"].is_object() {
        volume["spec"]["csi"]["volumeHandle"] = volume_name.clone().into();
    } else if volume["spec"]["awsElasticBlockStore"].is_object() {
        volume["spec"]["awsElasticBlockStore"]["volumeID"] = format!("vol-{index}").into();
    }
    volume["spec"]["claimRef"] = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": namespace, "name": claim_name});
    volume["status"]["phase"] = "Bound".into();
    claim["apiVersion"] = "v1".into();
    claim["kind"] = "PersistentVolumeClaim".into();
    claim["metadata"]["name"] = claim_name.into();
    claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "true".into();
    claim["spec"]["volumeName"] = volume_name.into();
    claim["status"]["phase"] = "Bound".into();
    (volume, claim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volume_and_claim_name_each_other() {
        let volume = json!({"spec": {"csi": {"driver": "d"}}});
        let (volume, claim) = bound_pair("ns", 3, volume, json!({"spec": {}}));
        assert_eq!(claim["spec"]["volumeName"], volume["metadata"]["name"]);
        assert_eq!(volume["spec"]["claimRef"]["name"], claim["metadata"]["name"]);
        assert_eq!(volume["spec"]["csi"]["volumeHandle"], "ns-vol-3");
        assert_eq!(claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"], "true");
    }
}
