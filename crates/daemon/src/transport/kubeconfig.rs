//! What kubeconfig files say about one API server: which context counts, what replaces what, and what is left to the cluster that
//! this process runs in.
//!
//! kube reads and merges the files; the choice follows client-go, which takes a file without a current context as one that says
//! nothing, and an address without a scheme as plain HTTP. kube's own choice asks for a context, and reads `HTTPS_PROXY` itself,
//! without `NO_PROXY`.

use std::path::Path;

use http::Uri;
use kube::config::{
    AuthInfo, Cluster, Context, ExecAuthCluster, Kubeconfig, KubeconfigError, NamedAuthInfo,
};

use serde_json::Value;

use super::credentials::{CredentialFiles, authorities_in_base64, reason};
use super::proxy::{Proxy, ProxyError, ProxyUrlError};

/// What names the proxy of a kubeconfig, in messages.
pub(super) const PROXY_URL: &str = "proxy-url of the kubeconfig";

/// What kubeconfig files say about one API server.
pub(super) enum Choice {
    /// Where it is and who we are there.
    Server(Box<kube::Config>, CredentialFiles),
    /// Nothing, and why.
    Nothing(String),
}

/// Reads files and merges them as kubectl merges those of `$KUBECONFIG`. What cannot be read is named with its path.
pub(super) fn read<'p>(paths: &[&'p Path]) -> Result<Kubeconfig, (&'p Path, String)> {
    let mut kubeconfig = Kubeconfig::default();
    for path in paths {
        let read = Kubeconfig::read_from(path).and_then(|next| kubeconfig.merge(next));
        kubeconfig = read.map_err(|error| (*path, said(error)))?;
    }
    Ok(kubeconfig)
}

/// What a kubeconfig says about the server of a context: of `asked`, or else of the current one. `master` replaces its address.
/// Files with credentials are read to see whether that is possible.
pub(super) fn choose(
    mut kubeconfig: Kubeconfig,
    asked: Option<&str>,
    master: Option<Uri>,
) -> Result<Choice, String> {
    let name = asked.map(str::to_owned).or_else(|| given(kubeconfig.current_context.take()));
    let context = match &name {
        Some(name) => {
            let known = kubeconfig.contexts.into_iter().find(|known| known.name == *name);
            known.ok_or_else(|| format!("there is no context {name:?}"))?.context
        }
        None => None,
    };
    let context = context.unwrap_or_default();
    let known = kubeconfig.clusters.into_iter().find(|known| known.name == context.cluster);
    let mut cluster = known.and_then(|known| known.cluster).unwrap_or_default();
    let server = match (master, given(cluster.server.take())) {
        (Some(master), _) => {
            // It was for the other address.
            cluster.tls_server_name = None;
            master
        }
        (None, Some(server)) => address(&server).ok_or_else(|| {
            format!(
                "server {server:?} of cluster {:?} is not the URL of an API server; expected is http(s)://HOST[:PORT]",
                context.cluster
            )
        })?,
        (None, None) => {
            let why = match &name {
                Some(name) => format!("context {name:?} names no API server"),
                None => "there is no current context".to_owned(),
            };
            let is_empty = asked.is_none() && is_empty(&cluster);
            return if is_empty { Ok(Choice::Nothing(why)) } else { Err(why) };
        }
    };
    cluster.server = Some(server.to_string());
    let mut user = user(kubeconfig.auth_infos, &context);
    if let Some(exec) = user.exec.as_mut().filter(|exec| exec.provide_cluster_info) {
        exec.cluster = Some(ExecAuthCluster::try_from(&cluster).map_err(said)?);
    }
    let files = CredentialFiles::of(&cluster, &user);
    let contents = files.read()?;
    let mut config = kube::Config::new(server);
    config.proxy_url = proxy_url(cluster.proxy_url)?;
    config.root_cert = match given(cluster.certificate_authority_data) {
        Some(data) => Some(authorities_in_base64(&data)?),
        None => contents.authorities()?,
    };
    config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or(false);
    config.disable_compression = cluster.disable_compression.unwrap_or(false);
    config.tls_server_name = given(cluster.tls_server_name);
    if let Some(namespace) = given(context.namespace) {
        config.default_namespace = namespace;
    }
    config.auth_info = user;
    Ok(Choice::Server(Box::new(config), files))
}

/// The URL of a server: without a scheme a host, with or without a port, that is spoken to in plain HTTP.
pub(super) fn address(text: &str) -> Option<Uri> {
    let has_scheme = text.contains("://");
    let full = if has_scheme { text.to_owned() } else { format!("http://{text}") };
    let uri: Uri = full.parse().ok()?;
    let is_server = matches!(uri.scheme_str(), Some("http" | "https"))
        && uri.host().is_some_and(|host| !host.is_empty())
        && has_possible_port(&uri);
    (is_server && (has_scheme || matches!(uri.path(), "" | "/"))).then_some(uri)
}

/// Whether the port of an address, if it names one, is a number that a port can have: anything else would be read as none.
pub(super) fn has_possible_port(uri: &Uri) -> bool {
    let Some(authority) = uri.authority() else { return true };
    let host_and_port = authority.as_str().rsplit('@').next().unwrap_or_default();
    let port = host_and_port.strip_prefix(authority.host());
    matches!(port, Some("" | ":")) || authority.port_u16().is_some()
}

/// The user of a context, who may be nobody. Empty texts are as good as none.
fn user(users: Vec<NamedAuthInfo>, context: &Context) -> AuthInfo {
    let known = users.into_iter().find(|user| Some(&user.name) == context.user.as_ref());
    let user = known.and_then(|known| known.auth_info).unwrap_or_default();
    let Ok(Value::Object(mut fields)) = serde_json::to_value(&user) else { return user };
    fields.retain(|_, field| field.as_str() != Some(""));
    serde_json::from_value(Value::Object(fields)).unwrap_or(user)
}

/// Whether nothing is said about a cluster.
fn is_empty(cluster: &Cluster) -> bool {
    let Cluster {
        server,
        insecure_skip_tls_verify,
        certificate_authority,
        certificate_authority_data,
        proxy_url,
        disable_compression,
        tls_server_name,
        ..
    } = cluster;
    let texts =
        [server, certificate_authority, certificate_authority_data, proxy_url, tls_server_name];
    texts.into_iter().all(|text| text.as_deref().is_none_or(str::is_empty))
        && !insecure_skip_tls_verify.unwrap_or(false)
        && !disable_compression.unwrap_or(false)
}

/// The proxy of a cluster; unlike one of the environment it has to say how it is spoken to.
fn proxy_url(text: Option<String>) -> Result<Option<Uri>, String> {
    let Some(text) = given(text) else { return Ok(None) };
    let refused = |error: ProxyUrlError| ProxyError::from(error).to_string();
    if !text.contains("://") {
        return Err(format!("{PROXY_URL} has no scheme; possible are http, https and socks5"));
    }
    Proxy::parse(&text, PROXY_URL).map_err(refused)?;
    text.parse().map(Some).map_err(|_| format!("{PROXY_URL} is no URL"))
}

fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// What kube says, without what its reader knows: the file is named beside it.
fn said(error: KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(error, _) => reason(&error),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kubeconfig(server: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "c", "cluster": {"server": server, "tls-server-name": "inner.example"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "shop"}}],
        })
    }

    /// The URL of the server that is chosen, why there is none, or an error.
    fn chosen(kubeconfig: &Value, context: Option<&str>, master: Option<&str>) -> String {
        let master = master.map(|master| address(master).unwrap());
        match choose(serde_json::from_value(kubeconfig.clone()).unwrap(), context, master) {
            Ok(Choice::Server(config, _)) => config.cluster_url.to_string(),
            Ok(Choice::Nothing(why)) => format!("nothing: {why}"),
            Err(error) => format!("error: {error}"),
        }
    }

    fn config(kubeconfig: &Value, master: Option<&str>) -> kube::Config {
        let master = master.map(|master| address(master).unwrap());
        match choose(serde_json::from_value(kubeconfig.clone()).unwrap(), None, master).unwrap() {
            Choice::Server(config, _) => *config,
            Choice::Nothing(why) => panic!("{why}"),
        }
    }

    #[test]
    fn a_context_says_which_server_user_and_namespace_count() {
        let whole = config(&kubeconfig("https://api.example:6443"), None);
        assert_eq!(whole.cluster_url, "https://api.example:6443/");
        assert_eq!(whole.default_namespace, "shop");
        assert_eq!(whole.tls_server_name.as_deref(), Some("inner.example"));
        assert!(whole.auth_info.token.is_some() && whole.proxy_url.is_none());
        // The name in the certificate belongs to the address that is replaced.
        let elsewhere = config(&kubeconfig("https://api.example:6443"), Some("https://10.0.0.1"));
        assert_eq!(elsewhere.cluster_url, "https://10.0.0.1/");
        assert_eq!((elsewhere.tls_server_name, elsewhere.auth_info.token.is_some()), (None, true));
    }

    #[test]
    fn empty_credentials_are_none() {
        let with = |user: Value| {
            let mut kubeconfig = kubeconfig("https://a.example");
            kubeconfig["users"][0]["user"] = user;
            config(&kubeconfig, None).auth_info
        };
        let user = with(json!({"token": "", "tokenFile": "/t", "username": "", "password": "",
            "client-key-data": "", "as": "jane"}));
        assert!(user.token.is_none() && user.username.is_none() && user.password.is_none());
        assert!(user.client_key_data.is_none());
        assert_eq!(user.token_file.as_deref(), Some("/t"));
        assert_eq!(user.impersonate.as_deref(), Some("jane"));
        let user = with(json!({"token": "t", "username": "me", "password": "secret"}));
        assert!(user.token.is_some() && user.username.is_some() && user.password.is_some());
    }

    #[test]
    fn an_address_has_a_port_that_there_is() {
        for (text, is_one) in [
            ("https://h:6443", true),
            ("h:80", true),
            ("https://[fd00::1]", true),
            ("https://[fd00::1]:6443", true),
            ("https://h:99999", false),
            ("https://h:x", false),
            ("h:70000", false),
        ] {
            assert_eq!(address(text).is_some(), is_one, "{text}");
        }
    }

    #[test]
    fn a_master_is_enough_where_the_file_says_nothing() {
        let mut without_current = kubeconfig("https://api.example");
        without_current.as_object_mut().unwrap().remove("current-context");
        for (says_nothing, why) in [
            (json!({}), "there is no current context"),
            (
                json!({"apiVersion": "v1", "kind": "Config", "clusters": null}),
                "there is no current context",
            ),
            (json!({"current-context": ""}), "there is no current context"),
            (without_current, "there is no current context"),
            (
                json!({"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "none"}}]}),
                "context \"x\" names no API server",
            ),
        ] {
            assert_eq!(chosen(&says_nothing, None, Some("10.0.0.1:8080")), "http://10.0.0.1:8080/");
            assert_eq!(chosen(&says_nothing, None, None), format!("nothing: {why}"));
        }
        // The credentials of a user that no context names do not count.
        let nobody = config(&json!({"users": kubeconfig("")["users"]}), Some("https://a.example"));
        assert!(nobody.auth_info.token.is_none());
    }

    #[test]
    fn what_is_asked_for_has_to_be_there() {
        let whole = kubeconfig("https://api.example");
        assert_eq!(chosen(&whole, Some("x"), None), "https://api.example/");
        assert_eq!(chosen(&whole, Some("y"), None), "error: there is no context \"y\"");
        let gone = json!({"current-context": "y"});
        assert_eq!(
            chosen(&gone, None, Some("https://a.example")),
            "error: there is no context \"y\""
        );
        let lost = json!({"contexts": [{"name": "x", "context": {"cluster": "none"}}]});
        assert_eq!(chosen(&lost, Some("x"), None), "error: context \"x\" names no API server");
        let mut no_server = whole;
        no_server["clusters"][0]["cluster"]["server"] = "".into();
        assert_eq!(chosen(&no_server, None, None), "error: context \"x\" names no API server");
    }

    #[test]
    fn a_server_without_a_scheme_is_spoken_to_in_plain_http() {
        for (server, url) in [
            ("localhost:8080", "http://localhost:8080/"),
            ("127.0.0.1:8080", "http://127.0.0.1:8080/"),
            ("api.example", "http://api.example/"),
            ("[::1]:8080/", "http://[::1]:8080/"),
            ("https://api.example/below", "https://api.example/below"),
        ] {
            assert_eq!(chosen(&kubeconfig(server), None, None), url, "{server}");
        }
        for bad in ["api.example/below", "ftp://api.example", "http://", "a b"] {
            let said = chosen(&kubeconfig(bad), None, None);
            let expected =
                format!("error: server {bad:?} of cluster \"c\" is not the URL of an API server");
            assert!(said.starts_with(&expected), "{said}");
        }
    }

    #[test]
    fn a_proxy_has_to_be_one() {
        let with = |proxy: &str| {
            let mut kubeconfig = kubeconfig("https://api.example");
            kubeconfig["clusters"][0]["cluster"]["proxy-url"] = proxy.into();
            kubeconfig
        };
        let proxy = config(&with("socks5://p:1080"), None).proxy_url.unwrap();
        assert_eq!(proxy.to_string(), "socks5://p:1080/");
        assert!(config(&with(""), None).proxy_url.is_none());
        for (bad, why) in [("ftp://p", "unsupported scheme \"ftp\""), ("p:3128", "has no scheme")] {
            let said = chosen(&with(bad), None, None);
            assert!(
                said.starts_with("error: proxy-url of the kubeconfig") && said.contains(why),
                "{said}"
            );
        }
    }

    #[test]
    fn files_that_cannot_be_read_are_named_once() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing");
        let (path, why) = read(&[&missing]).unwrap_err();
        assert_eq!((path, &*why), (&*missing, "no such file or directory"));
        let mut kubeconfig = kubeconfig("https://api.example");
        kubeconfig["clusters"][0]["cluster"]["certificate-authority"] = "/no/such/ca".into();
        assert_eq!(
            chosen(&kubeconfig, None, None),
            "error: certificate-authority /no/such/ca: no such file or directory"
        );
    }

    #[test]
    fn an_empty_file_is_a_kubeconfig() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("empty");
        for text in ["", "\n", "# nothing\n", "apiVersion: v1\nkind: Config\n"] {
            std::fs::write(&path, text).unwrap();
            let read = read(&[&path]).unwrap();
            assert!(matches!(choose(read, None, None), Ok(Choice::Nothing(_))), "{text:?}");
        }
    }
}
