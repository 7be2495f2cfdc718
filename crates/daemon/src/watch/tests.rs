//! Reflectors against a server that answers from a list, under paused time.

use kube_scheduler_config::FeatureGates;

use super::*;
use crate::inbox::InboxReceiver;
use crate::metrics::MetricsOptions;
use crate::transport::{ScriptedReply, scripted};

const LIST: ScriptedReply = ScriptedReply::Body(
    r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[]}"#,
);

fn reflector(api: Api) -> (Reflector, InboxReceiver) {
    reflector_of(WatchedKind::pods(), api)
}

fn reflector_of(kind: WatchedKind, api: Api) -> (Reflector, InboxReceiver) {
    let (inbox, core) = Inbox::open();
    let metrics = Metrics::new(0.0, MetricsOptions::default(), &FeatureGates::default());
    let (metrics, readers) = (Arc::new(metrics), ObjectReaders::default());
    (Reflector::new(0, kind, api, inbox, metrics, Patience::default(), readers), core)
}

/// What a reflector asks a server for that gives these answers, up to the first request that gets none, and the pause before
/// each request.
async fn asked(
    answers: impl IntoIterator<Item = ScriptedReply, IntoIter: Send + 'static>,
    prepare: impl FnOnce(Reflector) -> Reflector,
) -> Vec<(String, Duration)> {
    let (api, script) = scripted(answers);
    let (reflector, _core) = reflector(api);
    tokio::select! {
        () = prepare(reflector).run() => panic!("a reflector does not end before the core"),
        () = script.over() => {}
    }
    let asked = script.asked();
    let times = std::iter::once(Duration::ZERO).chain(asked.iter().map(|(time, _)| *time));
    let pauses = times.zip(&asked).map(|(before, (time, _))| *time - before);
    asked.iter().map(|(_, what)| step_of(what)).zip(pauses).collect()
}

/// What a request is for: a list, pages, a list as the start of a watch, or a watch and from which version on.
fn step_of(what: &str) -> String {
    let value = |name: &str| {
        let (_, rest) = what.split_once(name)?;
        Some(rest.split('&').next().unwrap_or_default().to_owned())
    };
    if what.contains("sendInitialEvents=true") {
        "stream".to_owned()
    } else if what.contains("watch=true") {
        format!("watch {}", value("resourceVersion=").unwrap_or_default())
    } else if what.contains("limit=") {
        "pages".to_owned()
    } else {
        "list".to_owned()
    }
}

fn steps(asked: &[(String, Duration)]) -> Vec<&str> {
    asked.iter().map(|(step, _)| &**step).collect()
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_is_to_come_later_becomes_no_paged_one() {
    let too_many = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":429}}\n";
    let answers = [
        ScriptedReply::Status(429, None),
        ScriptedReply::Lost(std::io::ErrorKind::ConnectionRefused),
        ScriptedReply::Body(too_many),
        ScriptedReply::Status(500, None),
    ];
    let asked = asked(answers, Reflector::beginning_with_latest).await;
    assert_eq!(steps(&asked), ["stream", "stream", "stream", "stream", "pages"]);
    // 0.8 s, and twice that each time; stretched at random, never shortened.
    for ((_, pause), least) in asked[1..].iter().zip([800, 1_600, 3_200, 6_400]) {
        assert!(*pause >= Duration::from_millis(least), "{asked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_comes_back_when_the_server_wants_it_to() {
    let later = ScriptedReply::Status(429, Some(1));
    let answers = [LIST, later, later, later];
    let asked = asked(answers, |reflector| reflector).await;
    assert_eq!(steps(&asked), ["list", "watch 5", "watch 5", "watch 5", "watch 5"]);
    for (_, pause) in &asked[2..] {
        assert_eq!(pause.as_millis() / 10, 100, "{asked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_has_broken_off_goes_on_at_once_where_it_was() {
    let bookmark = "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"7\"}}}\n";
    let watch = |begin, seconds, breaks| ScriptedReply::Watch {
        begin,
        lasts: Duration::from_secs(seconds),
        breaks,
    };
    let answers = [
        LIST,
        watch(bookmark, 30, true),
        // Long, and empty.
        watch("", 60, true),
        watch("", 60, false),
        // Short, but not empty.
        watch(bookmark, 0, true),
        // Short and empty.
        watch("", 0, true),
    ];
    let asked = asked(answers, |reflector| reflector).await;
    let seven = "watch 7";
    assert_eq!(steps(&asked), ["list", "watch 5", seven, seven, seven, seven, seven]);
    let pauses: Vec<u128> = asked.iter().map(|(_, pause)| pause.as_millis()).collect();
    for (pause, least) in pauses.iter().zip([0, 0, 30_000, 60_000, 60_000, 100, 800]) {
        let most = if least == 800 { 1_610 } else { least + 10 };
        assert!((least..=most).contains(pause), "{pauses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_lists_and_watches_bring_shows_that_the_server_lives() {
    let begin = "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"7\"}}}\n";
    let watch = ScriptedReply::Watch { begin, lasts: Duration::from_secs(30), breaks: false };
    let (api, script) = scripted([LIST, watch]);
    let (reflector, _core) = reflector(api.clone());
    tokio::select! {
        () = reflector.run() => panic!("a reflector does not end before the core"),
        () = script.over() => {}
    }
    assert_eq!(api.n_signs(), 4, "two answers, and a part of each");
}

const ALPHA: ScriptedReply = ScriptedReply::Body(r#"{"versions":[{"version":"v1alpha2"}]}"#);
const BETA: ScriptedReply = ScriptedReply::Body(r#"{"versions":[{"version":"v1beta1"}]}"#);
const NO_VERSION: ScriptedReply = ScriptedReply::Body(r#"{"versions":[]}"#);
const RESOURCES: ScriptedReply = ScriptedReply::Body(r#"{"resources":[{"name":"podgroups"}]}"#);
const GROUPS: ScriptedReply = ScriptedReply::Body(
    r#"{"kind":"PodGroupList","apiVersion":"scheduling.k8s.io/v1alpha2","metadata":{"resourceVersion":"5"},"items":[{"metadata":{"namespace":"x","name":"g","uid":"u","resourceVersion":"3"}}]}"#,
);
const NOT_FOUND: ScriptedReply = ScriptedReply::Status(404, None);
const FORBIDDEN: ScriptedReply = ScriptedReply::Status(403, None);

/// What a reflector of PodGroups did until a request got no answer.
#[derive(Debug, Default)]
struct Followed {
    /// The path of each request behind that of the API group, and what it is for.
    asked: Vec<(String, String)>,
    /// Before each request.
    pauses: Vec<Duration>,
    n_applied: usize,
    n_deleted: usize,
    is_synced: bool,
}

impl Followed {
    fn paths(&self) -> Vec<&str> {
        self.asked.iter().map(|(path, _)| &**path).collect()
    }
}

async fn follow_groups(
    answers: impl IntoIterator<Item = ScriptedReply, IntoIter: Send + 'static>,
) -> Followed {
    let (api, script) = scripted(answers);
    let kind = WatchedKind::all_for(["scheduling.k8s.io/PodGroup"]).pop().unwrap();
    let (reflector, core) = reflector_of(kind, api);
    tokio::select! {
        () = reflector.run() => panic!("a reflector does not end before the core"),
        () = script.over() => {}
    }
    let mut followed = Followed::default();
    let mut before = Duration::ZERO;
    for (time, what) in script.asked() {
        let (_, path) = what.split_once("/apis/scheduling.k8s.io").unwrap();
        let path = path.split('?').next().unwrap_or_default().to_owned();
        followed.asked.push((path, step_of(&what)));
        followed.pauses.push(time - before);
        before = time;
    }
    for observation in core.observations.try_iter() {
        match observation {
            Observation::Changes(inputs, _) => {
                let n_deleted =
                    inputs.iter().filter(|input| matches!(input, Input::ObjectDeleted(_))).count();
                followed.n_deleted += n_deleted;
                followed.n_applied += inputs.len() - n_deleted;
            }
            Observation::Synced(_) => followed.is_synced = true,
            other => panic!("{other:?}"),
        }
    }
    followed
}

#[tokio::test(start_paused = true)]
async fn objects_stay_known_while_the_version_that_serves_them_is_looked_up() {
    let pages = ScriptedReply::Status(400, None);
    let answers = [ALPHA, RESOURCES, GROUPS, NOT_FOUND, BETA, RESOURCES, pages, GROUPS];
    let followed = follow_groups(answers).await;
    let (alpha, beta) = ("/v1alpha2/podgroups", "/v1beta1/podgroups");
    assert_eq!(
        followed.paths(),
        ["", "/v1alpha2", alpha, alpha, "", "/v1beta1", beta, beta, beta],
        "{followed:?}"
    );
    assert_eq!((followed.n_applied, followed.n_deleted), (1, 0), "{followed:?}");
    assert!(followed.pauses[4] >= Duration::from_millis(800), "{followed:?}");
}

#[tokio::test(start_paused = true)]
async fn objects_stay_known_while_the_server_does_not_say_where_they_are() {
    // The user may not ask, as for moments while a server starts.
    let answers = [ALPHA, RESOURCES, GROUPS, NOT_FOUND, FORBIDDEN, NOT_FOUND, FORBIDDEN, NOT_FOUND];
    let followed = follow_groups(answers).await;
    let alpha = "/v1alpha2/podgroups";
    assert_eq!(
        followed.paths(),
        ["", "/v1alpha2", alpha, alpha, "", alpha, "", alpha, ""],
        "{followed:?}"
    );
    assert_eq!((followed.n_applied, followed.n_deleted), (1, 0), "{followed:?}");
    for (at, least) in [(4, 800), (6, 1_600), (8, 3_200)] {
        assert!(followed.pauses[at] >= Duration::from_millis(least), "{at}: {followed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn objects_are_gone_once_the_server_says_that_it_serves_them_no_more() {
    let answers = [ALPHA, RESOURCES, GROUPS, NOT_FOUND, NO_VERSION, ALPHA, RESOURCES];
    let followed = follow_groups(answers).await;
    let alpha = "/v1alpha2/podgroups";
    assert_eq!(
        followed.paths(),
        ["", "/v1alpha2", alpha, alpha, "", "", "/v1alpha2", alpha],
        "{followed:?}"
    );
    assert_eq!((followed.n_applied, followed.n_deleted), (1, 1), "{followed:?}");
    // What was there before has to be listed again.
    assert_eq!(followed.asked.last().map(|(_, step)| &**step), Some("stream"), "{followed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_start_waits_for_no_kind_that_is_not_found() {
    let followed = follow_groups([FORBIDDEN, NOT_FOUND]).await;
    assert_eq!(followed.paths(), ["", "/v1alpha2/podgroups", ""], "{followed:?}");
    assert!(followed.is_synced, "{followed:?}");
    let followed = follow_groups([NOT_FOUND]).await;
    assert_eq!(followed.paths(), ["", ""], "{followed:?}");
    assert!(followed.is_synced, "{followed:?}");
}
