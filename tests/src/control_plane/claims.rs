//! The controller of resource claims for an API server that comes without one: devcluster's rules, carried out over HTTP.
//!
//! Nothing is followed until there is a template, so that other workloads do not pay for it. Invariant: a claim is changed only in the
//! revision that the decision was made from; what fails is read again and decided anew.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::stream::{self, StreamExt, TryStreamExt};
use kube_scheduler_devcluster::{ClaimController, ClaimKind, ClaimStore};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Api, Change, code, open_watch};

/// What is followed from the first template on.
const OTHER_KINDS: [ClaimKind; 3] = [ClaimKind::Group, ClaimKind::Claim, ClaimKind::Pod];

/// How long to wait before something that failed is tried again.
const PAUSE: Duration = Duration::from_millis(100);

/// How many requests are on their way at once.
const WIDTH: usize = 30;

/// This many changes may wait to be looked at.
const MAX_WAITING: usize = 4096;

/// What one of the watches says.
enum News {
    /// All objects that there are.
    Listed(ClaimKind, Vec<Value>),
    Changed(ClaimKind, Change<Value>),
}

/// Generates and releases resource claims by devcluster's rules, as long as the server is there.
///
/// # Errors
/// If the server does not answer, or refuses what the rules ask for.
pub async fn control_claims(api: Api) -> Result<()> {
    let (sender, mut news) = mpsc::channel(MAX_WAITING);
    let mut watches = JoinSet::new();
    watches.spawn(follow(api.clone(), ClaimKind::Template, sender.clone()));
    let mut others = Some(sender);
    let (mut mirror, mut controller) = (Mirror::default(), ClaimController::default());
    loop {
        let first = tokio::select! {
            Some(first) = news.recv() => Some(first),
            // A kind that is not served ends without an error.
            Some(ended) = watches.join_next() => {
                ended??;
                continue;
            }
            () = tokio::time::sleep(PAUSE), if !controller.is_idle() => None,
            else => return Ok(()),
        };
        let rest = std::iter::from_fn(|| news.try_recv().ok());
        first.into_iter().chain(rest).for_each(|news| mirror.see(&mut controller, news));
        if !mirror.objects.is_empty()
            && let Some(sender) = others.take()
        {
            for kind in OTHER_KINDS {
                watches.spawn(follow(api.clone(), kind, sender.clone()));
            }
        }
        controller.work(&mut mirror);
        // What failed is decided anew with the next change, or after a pause.
        mirror.send(&api, &mut controller).await?;
    }
}

/// Where the objects of a kind are: all of them, or those of a namespace.
fn collection(kind: ClaimKind, namespace: &str) -> String {
    let (prefix, plural) = match kind {
        ClaimKind::Pod => ("/api/v1", "pods"),
        ClaimKind::Group => ("/apis/scheduling.k8s.io/v1alpha2", "podgroups"),
        ClaimKind::Template => ("/apis/resource.k8s.io/v1", "resourceclaimtemplates"),
        ClaimKind::Claim => ("/apis/resource.k8s.io/v1", "resourceclaims"),
    };
    match namespace {
        "" => format!("{prefix}/{plural}"),
        _ => format!("{prefix}/namespaces/{namespace}/{plural}"),
    }
}

/// The objects of a list, with its version; none if the server does not know the kind.
async fn list(api: &Api, path: &str) -> Result<(String, Vec<Value>)> {
    let mut list = match api.send("GET", path, None, "").await {
        Err(error) if code(&error) == Some(404) => return Ok(Default::default()),
        list => list.with_context(|| format!("list {path}"))?,
    };
    let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    match list["items"].take() {
        Value::Array(items) => Ok((version, items)),
        _ => Ok((version, Vec::new())),
    }
}

/// Follows the objects of one kind until the receiver is dropped or the server is gone.
async fn follow(api: Api, kind: ClaimKind, news: mpsc::Sender<News>) -> Result<()> {
    let path = collection(kind, "");
    loop {
        let (version, items) = list(&api, &path).await?;
        // A kind that is not served has no version.
        if version.is_empty() || news.send(News::Listed(kind, items)).await.is_err() {
            return Ok(());
        }
        let since = format!("{path}?watch=1&timeoutSeconds=86400&resourceVersion={version}");
        let mut changes = open_watch(&api, &since).await?;
        // A watch that breaks off has ended; if the server is gone, listing says so.
        while let Ok(Some(change)) = changes.next().await {
            if news.send(News::Changed(kind, change)).await.is_err() {
                return Ok(());
            }
        }
    }
}

type Key = (ClaimKind, String, String);

/// What is known of the cluster, with what was asked for and is not seen yet.
#[derive(Default)]
struct Mirror {
    objects: BTreeMap<Key, Value>,
    /// The names of claims by the UIDs of their owners.
    owned: BTreeMap<String, BTreeSet<(String, String)>>,
    /// What is to be sent. Requests with the same key go out one after the other.
    requests: BTreeMap<String, Vec<Request>>,
    n_created: usize,
}

#[derive(Clone, Debug)]
struct Request {
    method: &'static str,
    path: String,
    body: Value,
    content_type: &'static str,
    /// The claim that it creates or changes; absent for the status of something else.
    claim: Option<(String, String)>,
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

fn key_of(kind: ClaimKind, object: &Value) -> Key {
    (kind, text(object, "namespace").to_owned(), text(object, "name").to_owned())
}

impl Mirror {
    fn see(&mut self, controller: &mut ClaimController, news: News) {
        match news {
            News::Changed(kind, Change::Applied(object)) => self.put(controller, kind, object),
            News::Changed(kind, Change::Deleted(object)) => self.drop(controller, kind, &object),
            News::Listed(kind, objects) => {
                let listed: BTreeSet<Key> =
                    objects.iter().map(|object| key_of(kind, object)).collect();
                // What was created a moment ago and has not been seen yet may be missing.
                let is_gone = |(key, object): &(&Key, &Value)| {
                    key.0 == kind && !listed.contains(key) && !text(object, "uid").is_empty()
                };
                let gone: Vec<Value> =
                    self.objects.iter().filter(is_gone).map(|(_, gone)| gone.clone()).collect();
                gone.iter().for_each(|object| self.drop(controller, kind, object));
                objects.into_iter().for_each(|object| self.put(controller, kind, object));
            }
        }
    }

    fn put(&mut self, controller: &mut ClaimController, kind: ClaimKind, object: Value) {
        controller.see(kind, &object, false);
        self.insert(kind, object);
    }

    fn insert(&mut self, kind: ClaimKind, object: Value) {
        let key = key_of(kind, &object);
        if kind == ClaimKind::Claim {
            for owner in owners(&object) {
                self.owned.entry(owner).or_default().insert((key.1.clone(), key.2.clone()));
            }
        }
        self.objects.insert(key, object);
    }

    fn drop(&mut self, controller: &mut ClaimController, kind: ClaimKind, object: &Value) {
        let key = key_of(kind, object);
        if kind == ClaimKind::Claim {
            for owner in owners(object) {
                if let Some(claims) = self.owned.get_mut(&owner) {
                    claims.remove(&(key.1.clone(), key.2.clone()));
                    if claims.is_empty() {
                        self.owned.remove(&owner);
                    }
                }
            }
        }
        self.objects.remove(&key);
        controller.see(kind, object, true);
    }

    fn ask(&mut self, line: &str, request: Request) {
        self.requests.entry(line.to_owned()).or_default().push(request);
    }

    /// Sends what was asked for. Claims about which a request failed are read again.
    async fn send(&mut self, api: &Api, controller: &mut ClaimController) -> Result<()> {
        let lines = std::mem::take(&mut self.requests).into_values();
        let failed: Vec<Option<(String, String)>> = stream::iter(lines)
            .map(|line| send_line(api, line))
            .buffer_unordered(WIDTH)
            .try_collect()
            .await?;
        for (namespace, name) in failed.into_iter().flatten() {
            let path = format!("{}/{name}", collection(ClaimKind::Claim, &namespace));
            match api.send("GET", &path, None, "").await {
                Ok(claim) => self.put(controller, ClaimKind::Claim, claim),
                Err(error) if code(&error) == Some(404) => {
                    let key = (ClaimKind::Claim, namespace, name);
                    if let Some(claim) = self.objects.get(&key).cloned() {
                        self.drop(controller, ClaimKind::Claim, &claim);
                    }
                }
                Err(error) => return Err(error.context("read a claim")),
            }
        }
        Ok(())
    }
}

fn owners(claim: &Value) -> impl Iterator<Item = String> {
    let owners = claim["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.filter_map(|owner| owner["uid"].as_str().map(str::to_owned))
}

/// Sends requests one after the other, each about the revision that the one before has made. Ends with the first about a claim that is
/// gone or has another revision, and gives that claim. That a pod or a group is gone, or another one, is left to the watch.
///
/// # Errors
/// If the server refuses a request for another reason: it would do so again.
async fn send_line(api: &Api, line: Vec<Request>) -> Result<Option<(String, String)>> {
    let mut revision = Value::Null;
    for Request { method, path, mut body, content_type, claim } in line {
        if method == "PUT" && !revision.is_null() {
            body["metadata"]["resourceVersion"] = revision.take();
        }
        match api.send(method, &path, Some(&body), content_type).await {
            Ok(mut answer) if claim.is_some() => {
                revision = answer["metadata"]["resourceVersion"].take();
            }
            Ok(_) => {}
            Err(error) if !matches!(code(&error), Some(404 | 409)) => {
                return Err(error.context(format!("{method} {path}")));
            }
            Err(_) if claim.is_some() => return Ok(claim),
            Err(_) => {}
        }
    }
    Ok(None)
}

impl ClaimStore for Mirror {
    fn get(&self, kind: ClaimKind, namespace: &str, name: &str) -> Option<Value> {
        self.objects.get(&(kind, namespace.to_owned(), name.to_owned())).cloned()
    }

    fn owned_claims(&self, _: &str, uid: &str) -> Vec<Value> {
        let claims = self.owned.get(uid).into_iter().flatten();
        claims.filter_map(|(namespace, name)| self.get(ClaimKind::Claim, namespace, name)).collect()
    }

    fn create_claim(&mut self, namespace: &str, mut claim: Value) -> Option<String> {
        self.n_created += 1;
        let base = claim["metadata"]["generateName"].take();
        // Chosen here, so that the name can be written down at once.
        let name = format!("{}{:05x}", base.as_str().unwrap_or_default(), self.n_created);
        claim["metadata"]["name"] = name.clone().into();
        claim["metadata"]["namespace"] = namespace.into();
        claim["apiVersion"] = "resource.k8s.io/v1".into();
        claim["kind"] = "ResourceClaim".into();
        let owner = owners(&claim).next().unwrap_or_default();
        let request = Request {
            method: "POST",
            path: collection(ClaimKind::Claim, namespace),
            body: claim.clone(),
            content_type: "application/json",
            claim: Some((namespace.to_owned(), name.clone())),
        };
        self.ask(&owner, request);
        self.insert(ClaimKind::Claim, claim);
        Some(name)
    }

    fn put_status(&mut self, kind: ClaimKind, object: Value) {
        let path = collection(kind, text(&object, "namespace"));
        let statuses = &object["status"]["resourceClaimStatuses"];
        let request = Request {
            method: "PATCH",
            path: format!("{path}/{}/status", text(&object, "name")),
            body: json!({"metadata": {"uid": object["metadata"]["uid"]},
                "status": {"resourceClaimStatuses": statuses}}),
            content_type: "application/merge-patch+json",
            claim: None,
        };
        self.ask(text(&object, "uid"), request);
        self.insert(kind, object);
    }

    fn change_claim(
        &mut self,
        namespace: &str,
        name: &str,
        is_status: bool,
        change: &mut dyn FnMut(&mut Value),
    ) {
        let key = (ClaimKind::Claim, namespace.to_owned(), name.to_owned());
        let Some(claim) = self.objects.get_mut(&key) else { return };
        // What is not seen yet has no revision, and comes again.
        if text(claim, "resourceVersion").is_empty() {
            return;
        }
        change(claim);
        let mut body = claim.clone();
        // Items of a list do not say what they are.
        body["apiVersion"] = "resource.k8s.io/v1".into();
        body["kind"] = "ResourceClaim".into();
        let part = if is_status { "/status" } else { "" };
        let request = Request {
            method: "PUT",
            path: format!("{}/{name}{part}", collection(ClaimKind::Claim, namespace)),
            body,
            content_type: "application/json",
            claim: Some((namespace.to_owned(), name.to_owned())),
        };
        self.ask(&format!("{namespace}/{name}"), request);
    }

    fn delete_claim(&mut self, namespace: &str, name: &str, uid: &str) {
        if uid.is_empty() {
            return;
        }
        let request = Request {
            method: "DELETE",
            path: format!("{}/{name}", collection(ClaimKind::Claim, namespace)),
            body: json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}),
            content_type: "application/json",
            // What is gone, or another one, is reported by the watch.
            claim: None,
        };
        self.ask(&format!("{namespace}/{name}"), request);
    }
}

#[cfg(test)]
mod tests {
    use kube_scheduler_devcluster::{DevCluster, User};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    /// The claims, as soon as `is_so` holds for them.
    async fn claims_when(api: &Api, is_so: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let seen = async {
            loop {
                let claims = api.list("ResourceClaim").await.unwrap();
                if is_so(&claims) {
                    return claims;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LIMIT, seen).await.expect("claims as they should be")
    }

    async fn put_claim(api: &Api, claim: &Value, part: &str) -> Value {
        let path =
            format!("{}/{}{part}", collection(ClaimKind::Claim, "default"), text(claim, "name"));
        api.send("PUT", &path, Some(claim), "application/json").await.unwrap()
    }

    /// An API server that generates nothing by itself, with a template, two pods of it, and this controller.
    #[tokio::test]
    async fn claims_come_from_templates_and_go_with_their_pods() {
        let cluster = DevCluster::builder().hollow(None).volumes(None).claim_controller(false);
        let cluster = cluster.start().await.unwrap();
        let kubeconfig = cluster.kubeconfig_for(&User::administrator()).unwrap();
        let api = Api::of_kubeconfig(&kubeconfig).await.unwrap();
        let task = tokio::spawn(control_claims(api.clone()));
        let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1});
        let template = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
            "metadata": {"name": "one", "namespace": "default"},
            "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}},
        });
        let pod = |name: &str| {
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
                "spec": {
                    "containers": [{"name": "main", "image": "registry/app:1"}],
                    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
                },
            })
        };
        api.create_all([template, pod("a"), pod("b")]).await.unwrap();
        let claims = claims_when(&api, |claims| claims.len() >= 2).await;
        assert_eq!(claims.len(), 2);
        let of = |claims: &[Value], pod: &str| {
            let mut claims = claims.iter();
            claims.find(|claim| claim["metadata"]["ownerReferences"][0]["name"] == pod).cloned()
        };
        let mut claim = of(&claims, "a").unwrap();
        let name = text(&claim, "name").to_owned();
        let noted = async {
            loop {
                let pod = api.get("Pod", "a").await.unwrap().unwrap();
                if !pod["status"]["resourceClaimStatuses"].is_null() {
                    return pod;
                }
                tokio::task::yield_now().await;
            }
        };
        let pod = tokio::time::timeout(LIMIT, noted).await.expect("a status");
        let expected = json!([{"name": "gpu", "resourceClaimName": name}]);
        assert_eq!(pod["status"]["resourceClaimStatuses"], expected);

        // As a scheduler writes it. With the pod go the reservation, the allocation, the finalizer and the claim.
        claim["metadata"]["finalizers"] = json!(["resource.kubernetes.io/delete-protection"]);
        let mut claim = put_claim(&api, &claim, "").await;
        let result = json!({"request": "r", "driver": "d", "pool": "p", "device": "0"});
        claim["status"] = json!({
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": "a", "uid": pod["metadata"]["uid"]}],
        });
        put_claim(&api, &claim, "/status").await;
        api.delete("Pod", "a", Some(0)).await.unwrap();
        let left = claims_when(&api, |claims| of(claims, "a").is_none()).await;
        assert!(of(&left, "b").is_some());
        assert!(!task.is_finished());
        task.abort();
        cluster.shutdown().await.unwrap();
    }
}
