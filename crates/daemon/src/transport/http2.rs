//! What the environment says about HTTP/2, in the variables that the reference's client reads.

use std::sync::OnceLock;
use std::time::Duration;

/// How HTTP/2 is used, if at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Http2Options {
    pub(super) is_enabled: bool,
    /// After how long a silence the server is asked whether it is there; `None` for never.
    pub(super) ping_after: Option<Duration>,
    /// How long its answer is waited for.
    pub(super) ping_patience: Duration,
}

impl Default for Http2Options {
    fn default() -> Self {
        Self {
            is_enabled: true,
            ping_after: Some(Duration::from_secs(30)),
            ping_patience: Duration::from_secs(15),
        }
    }
}

impl Http2Options {
    /// Those of this process's environment, which is read once.
    pub(super) fn of_environment() -> Self {
        static OPTIONS: OnceLock<Http2Options> = OnceLock::new();
        *OPTIONS.get_or_init(|| Self::read(|name| std::env::var(name).ok()))
    }

    /// Those of the variables whose values `lookup` gives. What is no number counts as not given.
    pub(super) fn read(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let value = |name: &str| lookup(name).filter(|value| !value.is_empty());
        let seconds = |name: &str| {
            let text = value(name)?;
            match text.parse::<i64>() {
                // More than a century is as good as for ever.
                Ok(n) => Some(Duration::from_secs(n.clamp(0, i64::from(u32::MAX)).unsigned_abs())),
                Err(error) => {
                    tracing::warn!(variable = name, value = text, %error, "A variable of the environment is ignored");
                    None
                }
            }
        };
        let mut options = Self::default();
        if value("DISABLE_HTTP2").is_some() {
            tracing::info!("HTTP2 has been explicitly disabled");
            options.is_enabled = false;
        }
        if let Some(silence) = seconds("HTTP2_READ_IDLE_TIMEOUT_SECONDS") {
            options.ping_after = (!silence.is_zero()).then_some(silence);
        }
        if let Some(patience) = seconds("HTTP2_PING_TIMEOUT_SECONDS")
            && !patience.is_zero()
        {
            options.ping_patience = patience;
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read_as_the_reference_reads_them() {
        let read = |variables: &[(&str, &str)]| {
            Http2Options::read(|name| {
                let known = variables.iter().find(|(known, _)| *known == name);
                known.map(|(_, value)| (*value).to_owned())
            })
        };
        let default = Http2Options::default();
        assert_eq!(read(&[]), default);
        assert_eq!(read(&[("DISABLE_HTTP2", "")]), default);
        // Whatever it says, also "false".
        assert!(!read(&[("DISABLE_HTTP2", "false")]).is_enabled);
        let ping_after = |text| read(&[("HTTP2_READ_IDLE_TIMEOUT_SECONDS", text)]).ping_after;
        let some = |seconds| Some(Duration::from_secs(seconds));
        for (text, expected) in [
            ("5", some(5)),
            ("0", None),
            ("-1", None),
            ("", default.ping_after),
            ("5s", default.ping_after),
            ("9223372036854775807", some(u64::from(u32::MAX))),
        ] {
            assert_eq!(ping_after(text), expected, "{text:?}");
        }
        let patience = |text| read(&[("HTTP2_PING_TIMEOUT_SECONDS", text)]).ping_patience;
        assert_eq!(patience("3"), Duration::from_secs(3));
        assert_eq!([patience("0"), patience("x")], [default.ping_patience; 2]);
    }
}
