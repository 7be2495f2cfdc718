//! The types of flags: how each is parsed and printed.
//!
//! Invariants: names, texts and errors are those of Go's pflag and of the reference's own types; a printed value can be
//! parsed again, except for lists, which are printed in brackets; a rejected text changes nothing.

use std::collections::BTreeMap;
use std::net::IpAddr;

use kube_scheduler_api_types::{Quantity, float_text};
use kube_scheduler_config::{Duration, DurationError};

use super::go;

/// The value of a flag.
pub(crate) trait FlagValue {
    /// Sets the value from a text on the command line. `is_first` means that the current value is the default, which lists
    /// and maps replace instead of adding to it.
    ///
    /// # Errors
    /// The message that pflag prints.
    fn set(&mut self, text: &str, is_first: bool) -> Result<(), String>;

    /// The printed form.
    fn text(&self) -> String;

    /// The name of the type in the help; empty if the help shows none.
    fn type_name(&self) -> &'static str;

    /// The value of a flag that is given without one; `None` if it needs one.
    fn without_value(&self) -> Option<&'static str> {
        None
    }

    /// The default as the help shows it; `None` if the help shows none.
    fn shown_default(&self) -> Option<String> {
        let text = self.text();
        (!matches!(&*text, "" | "false" | "0" | "0s" | "<nil>")).then_some(text)
    }
}

impl FlagValue for bool {
    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        *self = go::parse_bool(text)?;
        Ok(())
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn type_name(&self) -> &'static str {
        ""
    }

    fn without_value(&self) -> Option<&'static str> {
        Some("true")
    }
}

impl FlagValue for String {
    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        text.clone_into(self);
        Ok(())
    }

    fn text(&self) -> String {
        self.clone()
    }

    fn type_name(&self) -> &'static str {
        "string"
    }

    fn shown_default(&self) -> Option<String> {
        (!self.is_empty()).then(|| go::quoted(self))
    }
}

impl FlagValue for i64 {
    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        *self = go::parse_int(text, 64)?;
        Ok(())
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn type_name(&self) -> &'static str {
        "int"
    }
}

impl FlagValue for i32 {
    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        // Of 32 bits, so it fits.
        *self = i32::try_from(go::parse_int(text, 32)?).unwrap_or_default();
        Ok(())
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn type_name(&self) -> &'static str {
        "int32"
    }
}

impl FlagValue for u64 {
    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        *self = text.parse().map_err(|_| go::conversion("ParseUint", text, "invalid syntax"))?;
        Ok(())
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn type_name(&self) -> &'static str {
        "uint"
    }
}

impl FlagValue for f32 {
    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        *self = go::parse_float(text)?;
        Ok(())
    }

    fn text(&self) -> String {
        float_text(*self)
    }

    fn type_name(&self) -> &'static str {
        "float32"
    }
}

impl FlagValue for Duration {
    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        let quoted = go::quoted(text);
        *self = Self::parse(text).map_err(|error| match error {
            DurationError::MissingUnit(_) => format!("time: missing unit in duration {quoted}"),
            DurationError::UnknownUnit { unit, .. } => {
                format!("time: unknown unit {} in duration {quoted}", go::quoted(&unit))
            }
            _ => format!("time: invalid duration {quoted}"),
        })?;
        Ok(())
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn type_name(&self) -> &'static str {
        "duration"
    }
}

impl FlagValue for IpAddr {
    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        if text.is_empty() {
            return Ok(());
        }
        let parsed: Self =
            text.trim().parse().map_err(|_| format!("failed to parse IP: {}", go::quoted(text)))?;
        *self = parsed.to_canonical();
        Ok(())
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn type_name(&self) -> &'static str {
        "ip"
    }
}

impl FlagValue for Vec<String> {
    fn set(&mut self, text: &str, is_first: bool) -> Result<(), String> {
        let texts = if text.is_empty() { Vec::new() } else { go::parse_record(text)? };
        if is_first {
            self.clear();
        }
        self.extend(texts);
        Ok(())
    }

    fn text(&self) -> String {
        format!("[{}]", go::record(self))
    }

    fn type_name(&self) -> &'static str {
        "strings"
    }

    fn shown_default(&self) -> Option<String> {
        (!self.is_empty()).then(|| self.text())
    }
}

impl FlagValue for Vec<i32> {
    fn set(&mut self, text: &str, is_first: bool) -> Result<(), String> {
        let numbers: Result<Vec<i32>, String> = text
            .split(',')
            .map(|part| go::parse_int(part, 32).map(|n| i32::try_from(n).unwrap_or_default()))
            .collect();
        let numbers = numbers?;
        if is_first {
            self.clear();
        }
        self.extend(numbers);
        Ok(())
    }

    fn text(&self) -> String {
        let texts: Vec<String> = self.iter().map(i32::to_string).collect();
        format!("[{}]", texts.join(","))
    }

    fn type_name(&self) -> &'static str {
        "int32Slice"
    }
}

impl FlagValue for BTreeMap<String, String> {
    fn set(&mut self, text: &str, is_first: bool) -> Result<(), String> {
        let wrong = |pair: &str| format!("{pair} must be formatted as key=value");
        let pairs = match text.matches('=').count() {
            0 => return Err(wrong(text)),
            1 => vec![text.trim_matches('"').to_owned()],
            _ => go::parse_record(text)?,
        };
        let mut entries = Self::new();
        for pair in pairs {
            let (key, value) = pair.split_once('=').ok_or_else(|| wrong(&pair))?;
            entries.insert(key.to_owned(), value.to_owned());
        }
        if is_first {
            self.clear();
        }
        self.extend(entries);
        Ok(())
    }

    fn text(&self) -> String {
        let pairs: Vec<String> = self.iter().map(|(key, value)| format!("{key}={value}")).collect();
        format!("[{}]", go::record(&pairs))
    }

    fn type_name(&self) -> &'static str {
        "stringToString"
    }
}

impl FlagValue for Quantity {
    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        *self = Self::parse(text).map_err(|error| error.to_string())?;
        Ok(())
    }

    fn text(&self) -> String {
        self.canonical()
    }

    fn type_name(&self) -> &'static str {
        "quantity"
    }
}

/// A certificate and the names it is used for: `cert,key` or `cert,key:name,name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedCertificate {
    /// The file with the certificate chain.
    pub(crate) cert_file: String,
    /// The file with its key.
    pub(crate) key_file: String,
    /// Host names, with wildcards, and addresses; if empty, the certificate's own names count.
    pub(crate) names: Vec<String>,
}

impl NamedCertificate {
    fn parse(text: &str) -> Result<Self, String> {
        let (pair, names) = match text.split_once(':') {
            Some((pair, names)) => (pair, Some(names.trim())),
            None => (text, None),
        };
        if names == Some("") {
            return Err("empty names list is not allowed".to_owned());
        }
        let files: Vec<&str> = pair.trim().split(',').collect();
        let &[cert_file, key_file] = files.as_slice() else {
            return Err("expected comma separated certificate and key file paths".to_owned());
        };
        let names = names.map_or_else(Vec::new, |names| {
            names.split(',').map(|name| name.trim().to_owned()).collect()
        });
        let (cert_file, key_file) = (cert_file.trim().to_owned(), key_file.trim().to_owned());
        Ok(Self { cert_file, key_file, names })
    }
}

impl FlagValue for Vec<NamedCertificate> {
    fn set(&mut self, text: &str, is_first: bool) -> Result<(), String> {
        let parsed = NamedCertificate::parse(text)?;
        if is_first {
            self.clear();
        }
        self.push(parsed);
        Ok(())
    }

    fn text(&self) -> String {
        let text = |cert: &NamedCertificate| {
            let NamedCertificate { cert_file, key_file, names } = cert;
            let colon = if names.is_empty() { "" } else { ":" };
            format!("{cert_file},{key_file}{colon}{}", names.join(","))
        };
        let texts: Vec<String> = self.iter().map(text).collect();
        format!("[{}]", texts.join(";"))
    }

    fn type_name(&self) -> &'static str {
        "namedCertKey"
    }
}

/// How much to log, up to the largest 32-bit integer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Verbosity(pub(crate) u32);

impl FlagValue for Verbosity {
    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        self.0 = go::parse_uint(text, 31)?;
        Ok(())
    }

    fn text(&self) -> String {
        self.0.to_string()
    }

    fn type_name(&self) -> &'static str {
        "Level"
    }
}

/// Another verbosity for the source files that match a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModuleVerbosity {
    /// Matched against the name of the file without its ending, or against its path if it contains a slash.
    pub(crate) pattern: String,
    /// The verbosity there.
    pub(crate) verbosity: Verbosity,
}

impl FlagValue for Vec<ModuleVerbosity> {
    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        let mut items = Self::new();
        for item in text.split(',').filter(|item| !item.is_empty()) {
            let parts: Vec<&str> = item.split('=').collect();
            let &[pattern, level] = parts.as_slice() else {
                return Err(format!("{} does not have the pattern=N format", go::quoted(item)));
            };
            if pattern.is_empty() || level.is_empty() {
                return Err(format!("{} does not have the pattern=N format", go::quoted(item)));
            }
            let verbosity = go::parse_uint(level, 31)
                .map_err(|error| format!("parsing verbosity in {}: {error}", go::quoted(item)))?;
            items.push(ModuleVerbosity {
                pattern: pattern.to_owned(),
                verbosity: Verbosity(verbosity),
            });
        }
        self.extend(items);
        Ok(())
    }

    fn text(&self) -> String {
        let texts: Vec<String> =
            self.iter().map(|item| format!("{}={}", item.pattern, item.verbosity.0)).collect();
        texts.join(",")
    }

    fn type_name(&self) -> &'static str {
        "pattern=N,..."
    }
}

/// Feature gates as they were given, by component: `A=true,kube:B=false`. No component is the empty name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GatesByComponent(pub(crate) BTreeMap<String, Vec<String>>);

impl FlagValue for GatesByComponent {
    fn set(&mut self, text: &str, is_first: bool) -> Result<(), String> {
        if is_first {
            self.0.clear();
        }
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (component, gate) = pair.split_once(':').unwrap_or(("", pair));
            let gates = self.0.entry(component.trim().to_owned()).or_default();
            gates.push(gate.trim().to_owned());
        }
        Ok(())
    }

    fn text(&self) -> String {
        let pairs = self.0.iter().flat_map(|(component, gates)| {
            gates.iter().map(move |gate| format!("{component}:{gate}"))
        });
        pairs.collect::<Vec<String>>().join(",")
    }

    fn type_name(&self) -> &'static str {
        "colonSeparatedMultimapStringString"
    }
}

/// What `--version` asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum VersionRequest {
    /// Nothing.
    #[default]
    No,
    /// To print the version.
    Print,
    /// To print all that is known of it.
    PrintAll,
    /// To report this version, which differs from the real one in its suffix only.
    Report(String),
}

impl FlagValue for VersionRequest {
    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        *self = match text {
            "raw" => Self::PrintAll,
            version if version.starts_with('v') => {
                check_reported_version(version)?;
                Self::Report(version.to_owned())
            }
            text => match go::parse_bool(text)? {
                true => Self::Print,
                false => Self::No,
            },
        };
        Ok(())
    }

    fn text(&self) -> String {
        match self {
            Self::No => "false",
            Self::Print => "true",
            Self::PrintAll => "raw",
            Self::Report(version) => version,
        }
        .to_owned()
    }

    fn type_name(&self) -> &'static str {
        "version"
    }

    fn without_value(&self) -> Option<&'static str> {
        Some("true")
    }
}

/// Checks a version to report: its three numbers must be those of the real version.
fn check_reported_version(version: &str) -> Result<(), String> {
    let ours = crate::version::KUBERNETES;
    let bare = version.trim().trim_start_matches('v');
    let numbers: Vec<&str> = bare.split(['-', '+']).next().unwrap_or(bare).split('.').collect();
    if numbers.iter().any(|number| number.is_empty() || number.bytes().any(|b| !b.is_ascii_digit()))
    {
        return Err(format!("could not parse {} as version", go::quoted(version)));
    }
    if numbers.len() != 3 {
        return Err(format!("illegal version string {}", go::quoted(version)));
    }
    if numbers.join(".") != ours.trim_start_matches('v') {
        return Err(format!(
            "version {} must match major/minor/patch of default version {}",
            go::quoted(version),
            go::quoted(ours)
        ));
    }
    Ok(())
}
