//! What a scheduler does on its way to its first decision: its connections, the kinds it follows, and when it may start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_config::{FeatureGates, Gate};
use kube_scheduler_engine::{Engine, ObjectReaders};
use kube_scheduler_framework::{ClusterEvent, EventResource};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::StartError;
use super::tasks::AbortOnDrop;
use crate::clock::Clock;
use crate::extender::HttpExtenders;
use crate::fence::Fence;
use crate::inbox::{Inbox, Observation};
use crate::kinds::{Form, Retention, WatchedKind};
use crate::leader::{Candidacy, Leadership, catch_up};
use crate::metrics::Metrics;
use crate::plugin_services::PluginServices;
use crate::progress::Progress;
use crate::serve::SecurePort;
use crate::spans::{Exporter, Spans, TracingOptions};
use crate::transport::{Api, ConnectError, Endpoint};
use crate::watch::{Patience, Position, Reflector, SharedObjects};
use crate::watchdog::Heartbeat;

/// What a scheduler is started with, once nothing can be refused any more.
pub(super) struct Preparation {
    pub(super) clock: Clock,
    /// In seconds since the epoch.
    pub(super) started_at: f64,
    pub(super) metrics: Arc<Metrics>,
    pub(super) services: PluginServices,
    pub(super) engine: Engine,
    pub(super) kinds: Vec<WatchedKind>,
    pub(super) configz: Arc<str>,
    pub(super) secure_port: Option<SecurePort>,
    pub(super) clients: Clients,
    /// The candidate that has not started yet, if there is an election, and the fence that it opens.
    pub(super) candidacy: Option<(Candidacy, Fence)>,
    pub(super) spans: Option<Spans>,
    pub(super) exporter: Option<AbortOnDrop>,
    /// Of the core thread.
    pub(super) heartbeat: Heartbeat,
    /// Whether it hangs, to be published.
    pub(super) hangs: watch::Sender<bool>,
}

/// The connections of a scheduler, by purpose.
pub(super) struct Clients {
    pub(super) api: Api,
    /// For long lists, each of which had better have a connection to itself.
    pub(super) lists: Api,
    /// For the lease, if there is an election, so that it is renewed whatever else is being sent.
    pub(super) election: Option<Api>,
}

impl Clients {
    /// Nothing is sent yet.
    pub(super) fn new(
        endpoint: &Endpoint,
        elects: bool,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, ConnectError> {
        Ok(Self {
            api: endpoint.client("scheduler")?.observed_by(metrics.clone()),
            lists: endpoint.client_for_long_answers("scheduler")?.observed_by(metrics.clone()),
            election: match elects {
                true => Some(endpoint.client("leader-election")?.observed_by(metrics.clone())),
                false => None,
            },
        })
    }
}

/// Starts to export spans, if any are to be made.
pub(super) fn start_tracing(
    options: Option<TracingOptions>,
    metrics: &Arc<Metrics>,
) -> Result<(Option<Spans>, Option<AbortOnDrop>), StartError> {
    let Some(options) = options.filter(|options| options.sampling_rate_per_million > 0) else {
        return Ok((None, None));
    };
    let (spans, made) = Spans::new(&options);
    let exporter = Exporter::new(&options, made, metrics.clone())
        .map_err(|_| StartError::TracingEndpoint { endpoint: options.endpoint.clone() })?;
    Ok((Some(spans), Some(AbortOnDrop(tokio::spawn(exporter.run())))))
}

/// Waits until this scheduler leads; returns at once where there is no election. `false` if it never will.
pub(super) async fn until_leading(leadership: Option<watch::Receiver<Leadership>>) -> bool {
    let Some(mut leadership) = leadership else { return true };
    let is_settled = |leadership: &Leadership| *leadership != Leadership::Standby;
    leadership.wait_for(is_settled).await.is_ok_and(|leadership| *leadership == Leadership::Leading)
}

/// Lets decisions start once this scheduler leads and has seen what was done before.
pub(super) async fn lead(
    leadership: Option<watch::Receiver<Leadership>>,
    delays_cache: bool,
    api: Api,
    positions: Vec<Position>,
    inbox: Inbox,
    mut progress: watch::Receiver<Progress>,
) {
    if !until_leading(leadership.clone()).await {
        return;
    }
    if delays_cache {
        tracing::info!("Starting informers and waiting for sync...");
        // Lists that begin after the lease was acquired show all that was done before.
        if progress.wait_for(|progress| progress.is_synced).await.is_err() {
            return;
        }
        tracing::info!("Sync completed");
    } else if leadership.is_some() {
        catch_up(&api, positions).await;
    }
    // The send fails only when the core has ended, and then nothing has to be done.
    let _ = inbox.observe(Observation::Lead);
}

/// The kinds that plugins register for or read, and those that are always followed.
pub(super) fn followed_kinds(
    engine: &Engine,
    extenders: &HttpExtenders,
    gates: &FeatureGates,
) -> Vec<WatchedKind> {
    let mut names = BTreeSet::new();
    let has_groups = gates.is_enabled(Gate::GenericWorkload);
    if has_groups {
        // Also if no plugin reads them: the engine itself writes the status of groups.
        names.insert(EventResource::PodGroup.as_str().to_owned());
    }
    if !extenders.extenders.is_empty() {
        // An extender does not say which events may change its answer, so any may.
        let events = ClusterEvent::catch_all(has_groups);
        names.extend(events.iter().map(|event| event.resource().as_str().to_owned()));
    }
    let (mut pods, mut nodes) = (extenders.pods, extenders.nodes);
    for entry in engine.profiles().iter().flat_map(|profile| profile.plugins()) {
        if entry.plugin.reads_pod_sources() {
            pods = Retention::All;
        }
        if entry.plugin.reads_node_sources() {
            nodes = Retention::All;
        }
        let reads = entry.plugin.reads_objects();
        names.extend(reads.iter().map(|resource| resource.as_str().to_owned()));
        let Some(extensions) = entry.plugin.as_enqueue_extensions() else { continue };
        names.extend(
            extensions
                .events_to_register()
                .iter()
                .map(|registration| registration.event.resource().as_str().to_owned()),
        );
    }
    let options = gates.compile_options();
    let kinds = WatchedKind::all_for(names.iter().map(String::as_str)).into_iter();
    kinds.map(|kind| kind.keeping(pods, nodes).reading_pods(options)).collect()
}

/// What the watches brought, for others to look at.
#[derive(Clone, Debug, Default)]
pub(super) struct FollowedObjects {
    pub(super) pods: SharedObjects,
    pub(super) nodes: SharedObjects,
    /// Other kinds by name.
    pub(super) others: BTreeMap<String, SharedObjects>,
}

/// What every reflector works with.
pub(super) struct ReflectorSources {
    pub(super) api: Api,
    /// For lists of thousands of objects.
    pub(super) lists: Api,
    pub(super) inbox: Inbox,
    pub(super) metrics: Arc<Metrics>,
    pub(super) patience: Patience,
    /// What reads objects before the core gets them.
    pub(super) readers: ObjectReaders,
}

/// The reflectors of a scheduler, running.
pub(super) struct Reflectors {
    pub(super) tasks: JoinSet<()>,
    /// Where those are whose kinds matter when leadership is taken over.
    pub(super) positions: Vec<Position>,
    pub(super) followed: FollowedObjects,
}

/// Starts a reflector for each kind. With `leadership` they wait until this scheduler leads.
pub(super) fn start_reflectors(
    kinds: Vec<WatchedKind>,
    sources: &ReflectorSources,
    leadership: Option<watch::Receiver<Leadership>>,
) -> Reflectors {
    let mut reflectors = Reflectors {
        tasks: JoinSet::new(),
        positions: Vec::new(),
        followed: FollowedObjects::default(),
    };
    for (number, kind) in kinds.into_iter().enumerate() {
        let matters_at_take_over = kind.matters_at_take_over();
        let name = kind.name.clone();
        let mut reflector = Reflector::new(
            number,
            kind,
            sources.api.clone(),
            sources.inbox.clone(),
            sources.metrics.clone(),
            sources.patience,
            sources.readers.clone(),
        );
        // Where caches are filled after the lease was acquired, nothing else shows what the last leader did.
        if leadership.is_some() {
            reflector = reflector.beginning_with_latest();
        }
        if matters_at_take_over {
            reflectors.positions.push(reflector.position());
        }
        // Nodes and pods are counted in thousands, so their lists use the connections for long lists.
        match reflector.form() {
            Form::Node => {
                reflectors.followed.nodes = reflector.known();
                reflector = reflector.listing_over(sources.lists.clone());
            }
            Form::Pod => {
                reflectors.followed.pods = reflector.known();
                reflector = reflector.listing_over(sources.lists.clone());
            }
            Form::Generic => {
                reflectors.followed.others.insert(name, reflector.known());
            }
        }
        let leadership = leadership.clone();
        reflectors.tasks.spawn(async move {
            if until_leading(leadership).await {
                reflector.run().await;
            }
        });
    }
    reflectors
}
