//! Pages for debugging this process: where its time goes, what its threads do, how much it logs.
//!
//! Parity: these answer the questions of Go's `/debug/pprof` with what this process has. The CPU profile is in pprof's
//! form and counts by thread, not by function: sampling the stacks of a running process from a signal handler is not
//! safe, and `perf` does it better from outside. What only Go has is named as missing, not imitated.
//!
//! Invariant: nothing here stops or slows the threads that it describes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{CONTENT_DISPOSITION, LOCATION};
use http::{HeaderValue, Method, StatusCode};
use jiff::Timestamp;

use super::options::VerbositySetter;
use super::reply::{self, Reply};

/// How long a profile takes in seconds, unless the request says otherwise.
const DEFAULT_SECONDS: u64 = 30;
/// How long it may take.
const MAX_SECONDS: u64 = 600;
/// The unit of times in `/proc`, which has been fixed for all of user space long ago.
const NANOS_PER_TICK: u64 = 10_000_000;

const INDEX: &str = "<html>\n<head>\n<title>/debug/pprof/</title>\n</head>\n<body>\n/debug/pprof/\n<br>\n\
    <p>What this process can tell about itself:</p>\n<ul>\n\
    <li><a href=\"profile?seconds=30\">profile</a>: CPU time by thread over some seconds, for <code>go tool pprof</code></li>\n\
    <li><a href=\"threads\">threads</a>: all threads, their state and CPU time</li>\n\
    <li><a href=\"memory\">memory</a>: memory in use, as the system counts it</li>\n\
    <li><a href=\"cmdline\">cmdline</a>: the command line</li>\n</ul>\n\
    <p>This is no Go program: there are no goroutines and no heap profile.</p>\n</body>\n</html>\n";

/// A page below `/debug/pprof`.
pub(crate) async fn pprof(page: &str, query: &[(String, String)]) -> Reply {
    match page {
        "" => reply::typed(StatusCode::OK, "text/html; charset=utf-8", INDEX),
        "cmdline" => reply::plain(StatusCode::OK, command_line()),
        "profile" => {
            let seconds = query.iter().find(|(key, _)| key == "seconds");
            let seconds = seconds.and_then(|(_, seconds)| seconds.parse().ok());
            profile(seconds.filter(|seconds| *seconds > 0).unwrap_or(DEFAULT_SECONDS)).await
        }
        "threads" => page_or_missing(threads_text()),
        "memory" => page_or_missing(memory_text()),
        "goroutine" | "threadcreate" => missing(page, "/debug/pprof/threads lists threads"),
        "heap" | "allocs" => missing(page, "/debug/pprof/memory shows how much memory is in use"),
        "block" | "mutex" | "trace" | "symbol" => {
            missing(page, "perf and strace can look at this process from outside")
        }
        unknown => reply::plain(StatusCode::NOT_FOUND, format!("Unknown profile: {unknown:?}\n")),
    }
}

/// The way from `/debug/pprof` to its index.
pub(crate) fn pprof_redirect() -> Reply {
    let mut reply = reply::typed(
        StatusCode::FOUND,
        "text/html; charset=utf-8",
        "<a href=\"/debug/pprof/\">Found</a>.\n\n",
    );
    reply.headers_mut().insert(LOCATION, HeaderValue::from_static("/debug/pprof/"));
    reply
}

/// The index of flags that can be changed.
pub(crate) fn flags() -> Reply {
    let page = "<html>\n<head>\n<title>/debug/flags/</title>\n</head>\n<body>\n/debug/flags/<br>\n<br>\nflags:<br>\n\
                <table>\n<tr>v<br>\n</table>\n<br>\nfull flags configurable<br>\n</body>\n</html>\n";
    reply::typed(StatusCode::OK, "text/html; charset=utf-8", page)
}

/// Changes the verbosity of the log.
pub(crate) fn set_verbosity(
    method: &Method,
    body: Result<&str, &str>,
    setter: Option<&VerbositySetter>,
) -> Reply {
    if method != Method::PUT {
        return line(StatusCode::NOT_ACCEPTABLE, "unsupported http method");
    }
    let text = match body {
        Ok(text) => text,
        Err(problem) => {
            let text = format!("error reading request body: {problem}");
            return line(StatusCode::BAD_REQUEST, &text);
        }
    };
    let level = match parse_level(text) {
        Ok(level) => level,
        Err(problem) => {
            let text = format!("strconv.ParseUint: parsing {text:?}: {problem}");
            return line(StatusCode::BAD_REQUEST, &text);
        }
    };
    let Some(setter) = setter else {
        return line(StatusCode::NOT_IMPLEMENTED, "this program's log cannot be changed");
    };
    match (setter.0)(level) {
        Ok(()) => {
            line(StatusCode::OK, &format!("successfully set klog.logging.verbosity to {text}"))
        }
        Err(problem) => {
            let text = format!("failed set klog.logging.verbosity {text}: {problem}");
            line(StatusCode::BAD_REQUEST, &text)
        }
    }
}

fn parse_level(text: &str) -> Result<u32, &'static str> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("invalid syntax");
    }
    // The reference keeps the level as a signed number.
    text.parse::<u32>()
        .ok()
        .filter(|level| i32::try_from(*level).is_ok())
        .ok_or("value out of range")
}

fn line(status: StatusCode, text: &str) -> Reply {
    reply::typed(status, "text/plain", format!("{text}\n"))
}

fn page_or_missing(text: Option<String>) -> Reply {
    match text {
        Some(text) => reply::plain(StatusCode::OK, text),
        None => reply::plain(
            StatusCode::NOT_IMPLEMENTED,
            "not available on this system: /proc is missing\n",
        ),
    }
}

fn missing(profile: &str, instead: &str) -> Reply {
    let text = format!("there is no profile {profile:?}: this is no Go program; {instead}\n");
    reply::plain(StatusCode::NOT_IMPLEMENTED, text)
}

fn command_line() -> String {
    let arguments: Vec<String> = std::env::args_os()
        .map(|argument| String::from_utf8_lossy(argument.as_bytes()).into_owned())
        .collect();
    arguments.join("\0")
}

/// One thread as the system sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Thread {
    name: String,
    state: char,
    user_nanos: u64,
    system_nanos: u64,
}

/// All threads by number. `None` where the system does not list them.
fn threads() -> Option<BTreeMap<u64, Thread>> {
    let mut threads = BTreeMap::new();
    for entry in fs::read_dir("/proc/self/task").ok()? {
        let entry = entry.ok()?;
        // A thread may end while it is looked at.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        threads.extend(parse_stat(&stat).map(|thread| (number, thread)));
    }
    Some(threads)
}

/// Reads `7 (a name) S …`; see proc_pid_stat(5).
fn parse_stat(stat: &str) -> Option<Thread> {
    let (_, rest) = stat.split_once('(')?;
    let (name, rest) = rest.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // Fields are counted from 1, and the next one is the fourth.
    let user: u64 = fields.nth(14 - 4)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Thread {
        name: name.to_owned(),
        state,
        user_nanos: user.saturating_mul(NANOS_PER_TICK),
        system_nanos: system.saturating_mul(NANOS_PER_TICK),
    })
}

fn threads_text() -> Option<String> {
    let threads = threads()?;
    let mut text = format!("threads: total {}\n\n", threads.len());
    for (number, thread) in &threads {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{number} {:?} state {} user {:.2}s system {:.2}s",
            thread.name,
            thread.state,
            thread.user_nanos as f64 / 1e9,
            thread.system_nanos as f64 / 1e9,
        );
    }
    Some(text)
}

fn memory_text() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let mut text: String = status
        .lines()
        .filter(|line| {
            line.starts_with("Vm") || line.starts_with("Rss") || line.starts_with("Threads")
        })
        .flat_map(|line| [line, "\n"])
        .collect();
    if let Ok(rollup) = fs::read_to_string("/proc/self/smaps_rollup") {
        text.push('\n');
        text.extend(rollup.lines().skip(1).flat_map(|line| [line, "\n"]));
    }
    Some(text)
}

async fn profile(seconds: u64) -> Reply {
    let length = Duration::from_secs(seconds.min(MAX_SECONDS));
    let start = Timestamp::now();
    let Some(before) = threads() else { return page_or_missing(None) };
    tokio::time::sleep(length).await;
    let Some(after) = threads() else { return page_or_missing(None) };
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let packed = encoder
        .write_all(&encode(&before, &after, start.as_nanosecond(), length))
        .and_then(|()| encoder.finish());
    match packed {
        Ok(packed) => {
            let mut reply = reply::typed(StatusCode::OK, "application/octet-stream", packed);
            let name = HeaderValue::from_static("attachment; filename=\"profile\"");
            reply.headers_mut().insert(CONTENT_DISPOSITION, name);
            reply
        }
        Err(error) => reply::plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

/// A profile in pprof's protobuf: a sample per thread and mode, each with the frames `mode` and `thread`.
fn encode(
    before: &BTreeMap<u64, Thread>,
    after: &BTreeMap<u64, Thread>,
    start_nanos: i128,
    length: Duration,
) -> Vec<u8> {
    let mut strings = Strings::default();
    let mut out = Vec::new();
    let (kind, unit) = (strings.number("cpu"), strings.number("nanoseconds"));
    let value_type = message(&[(1, kind), (2, unit)]);
    put_bytes(&mut out, 1, &value_type);
    let mut functions: BTreeMap<String, u64> = BTreeMap::new();
    for (number, now) in after {
        // A number may be used again by another thread, whose time then starts at zero.
        let then = before.get(number).filter(|then| then.name == now.name);
        let since = |now: u64, then: Option<u64>| now.saturating_sub(then.unwrap_or(0));
        for (mode, nanos) in [
            ("user", since(now.user_nanos, then.map(|then| then.user_nanos))),
            ("system", since(now.system_nanos, then.map(|then| then.system_nanos))),
        ] {
            if nanos == 0 {
                continue;
            }
            let mut locations = Vec::new();
            for frame in [format!("{mode} time"), format!("thread {}", now.name)] {
                let next = functions.len() as u64 + 1;
                put_varint(&mut locations, *functions.entry(frame).or_insert(next));
            }
            let mut values = Vec::new();
            put_varint(&mut values, nanos);
            let mut sample = Vec::new();
            put_bytes(&mut sample, 1, &locations);
            put_bytes(&mut sample, 2, &values);
            put_bytes(&mut out, 2, &sample);
        }
    }
    for (name, &id) in &functions {
        let line = message(&[(1, id)]);
        let mut location = message(&[(1, id)]);
        put_bytes(&mut location, 4, &line);
        put_bytes(&mut out, 4, &location);
        let name = strings.number(name);
        put_bytes(&mut out, 5, &message(&[(1, id), (2, name), (3, name)]));
    }
    let comment =
        "CPU time by thread as the system counts it; for functions use perf record -p PID";
    let comment = strings.number(comment);
    for text in &strings.0 {
        put_bytes(&mut out, 6, text.as_bytes());
    }
    let start = u64::try_from(start_nanos).unwrap_or(0);
    let nanos = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    put_number(&mut out, 9, start);
    put_number(&mut out, 10, nanos);
    put_bytes(&mut out, 11, &value_type);
    put_number(&mut out, 12, NANOS_PER_TICK);
    let mut comments = Vec::new();
    put_varint(&mut comments, comment);
    put_bytes(&mut out, 13, &comments);
    out
}

/// Texts by number; the first is the empty one.
struct Strings(Vec<String>);

impl Default for Strings {
    fn default() -> Self {
        Self(vec![String::new()])
    }
}

impl Strings {
    fn number(&mut self, text: &str) -> u64 {
        let known = self.0.iter().position(|known| known == text);
        let at = known.unwrap_or_else(|| {
            self.0.push(text.to_owned());
            self.0.len() - 1
        });
        at as u64
    }
}

fn message(fields: &[(u64, u64)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (field, value) in fields {
        put_number(&mut out, *field, *value);
    }
    out
}

fn put_number(out: &mut Vec<u8>, field: u64, value: u64) {
    put_varint(out, field << 3);
    put_varint(out, value);
}

fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(out, field << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_plain_numbers() {
        for (text, expected) in [
            ("0", Ok(0)),
            ("10", Ok(10)),
            ("2147483647", Ok(i32::MAX as u32)),
            ("2147483648", Err("value out of range")),
            ("99999999999", Err("value out of range")),
            ("", Err("invalid syntax")),
            ("-1", Err("invalid syntax")),
            ("+1", Err("invalid syntax")),
            ("5\n", Err("invalid syntax")),
        ] {
            assert_eq!(parse_level(text), expected, "{text:?}");
        }
    }

    #[test]
    fn threads_are_read_whatever_they_are_called() {
        let stat = "7 (a) (b c) R 1 2 3 4 5 6 7 8 9 10 120 34 0 0 20";
        let expected = Thread {
            name: "a) (b c".to_owned(),
            state: 'R',
            user_nanos: 1_200_000_000,
            system_nanos: 340_000_000,
        };
        assert_eq!(parse_stat(stat), Some(expected));
        assert_eq!(parse_stat("7 (a) R 1 2"), None);
        assert_eq!(parse_stat(""), None);
    }

    /// Splits a protobuf message into its fields.
    fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, Vec<u8>)> {
        let mut fields = Vec::new();
        let varint = |bytes: &mut &[u8]| {
            let mut value = 0;
            for shift in (0..).step_by(7) {
                let (first, rest) = bytes.split_first().unwrap();
                *bytes = rest;
                value |= u64::from(first & 0x7f) << shift;
                if first & 0x80 == 0 {
                    return value;
                }
            }
            unreachable!()
        };
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let value = varint(&mut bytes);
            let mut content = Vec::new();
            if key & 7 == 2 {
                let (this, rest) = bytes.split_at(value as usize);
                (content, bytes) = (this.to_vec(), rest);
            }
            fields.push((key >> 3, value, content));
        }
        fields
    }

    #[test]
    fn profiles_show_what_each_thread_took() {
        let thread = |name: &str, user, system| Thread {
            name: name.to_owned(),
            state: 'S',
            user_nanos: user,
            system_nanos: system,
        };
        let before = BTreeMap::from([(1, thread("core", 100, 0)), (2, thread("idle", 5, 5))]);
        let after = BTreeMap::from([
            (1, thread("core", 350, 40)),
            (2, thread("idle", 5, 5)),
            (3, thread("new", 7, 0)),
        ]);
        let profile = fields(&encode(&before, &after, 1, Duration::from_secs(1)));
        let contents = |number: u64| -> Vec<&Vec<u8>> {
            profile
                .iter()
                .filter(|(field, ..)| *field == number)
                .map(|(.., content)| content)
                .collect()
        };
        let strings: Vec<String> =
            contents(6).iter().map(|text| String::from_utf8((*text).clone()).unwrap()).collect();
        assert_eq!(strings[..3], ["", "cpu", "nanoseconds"]);
        let names: BTreeMap<u64, &String> = contents(5)
            .iter()
            .map(|function| {
                let function = fields(function);
                (function[0].1, &strings[function[1].1 as usize])
            })
            .collect();
        let found: Vec<(String, u64)> = contents(2)
            .iter()
            .map(|sample| {
                let sample = fields(sample);
                let stack: Vec<&str> =
                    sample[0].2.iter().map(|id| names[&u64::from(*id)].as_str()).collect();
                let mut nanos = 0;
                for byte in sample[1].2.iter().rev() {
                    nanos = nanos << 7 | u64::from(byte & 0x7f);
                }
                (stack.join(" < "), nanos)
            })
            .collect();
        assert_eq!(
            found,
            [
                ("user time < thread core".to_owned(), 250),
                ("system time < thread core".to_owned(), 40),
                ("user time < thread new".to_owned(), 7),
            ]
        );
    }
}
