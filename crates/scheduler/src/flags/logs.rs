//! How much to log, in which form, and where to.

use kube_scheduler_api_types::Quantity;
use kube_scheduler_config::{Duration, FeatureGates, Gate};

use super::go;
use super::section::section;
use super::value::{ModuleVerbosity, Verbosity};

section! {
    /// The log.
    Logs {
        /// `text` or `json`; empty is text.
        logging_format: String = "text".to_owned(), "logging-format",
            "Sets the log format. Permitted formats: \"json\" (gated by LoggingBetaOptions), \"text\".";
        /// The longest time that lines stay in the buffer.
        log_flush_frequency: Duration = Duration::from_secs(5), "log-flush-frequency",
            "Maximum number of seconds between log flushes";
        /// How much.
        v: Verbosity = Verbosity(0), "v" or 'v', "number for the log level verbosity";
        /// How much elsewhere.
        vmodule: Vec<ModuleVerbosity> = Vec::new(), "vmodule",
            "comma-separated list of pattern=N settings for file-filtered logging (only works for text log format)";
        /// Whether info lines of the text form go to standard output.
        log_text_split_stream: bool = false, "log-text-split-stream",
            "[Alpha] In text format, write error messages to stderr and info messages to stdout. The default is to write \
             a single stream to stdout. Enable the LoggingAlphaOptions feature gate to use this.";
        /// The size in bytes of the buffer for info lines of the text form, when streams are split.
        log_text_info_buffer_size: Quantity = Quantity::from_units(0), "log-text-info-buffer-size",
            buffer_usage("text");
        /// Whether info lines of the JSON form go to standard output.
        log_json_split_stream: bool = false, "log-json-split-stream",
            "[Alpha] In JSON format, write error messages to stderr and info messages to stdout. The default is to write \
             a single stream to stdout. Enable the LoggingAlphaOptions feature gate to use this.";
        /// The size in bytes of the buffer for info lines of the JSON form, when streams are split.
        log_json_info_buffer_size: Quantity = Quantity::from_units(0), "log-json-info-buffer-size",
            buffer_usage("JSON");
    }
}

fn buffer_usage(format: &str) -> String {
    format!(
        "[Alpha] In {format} format with split output streams, the info messages can be buffered for a while to increase \
         performance. The default value of zero bytes disables buffering. The size can be specified as number of bytes \
         (512), multiples of 1000 (1K), multiples of 1024 (2Ki), or powers of those (3M, 4G, 5Mi, 6Gi). Enable the \
         LoggingAlphaOptions feature gate to use this."
    )
}

impl Logs {
    /// The errors of the reference's validation, which it prints without a log header.
    pub(crate) fn validate(&self, gates: &FeatureGates) -> Vec<String> {
        let mut errors = Vec::new();
        if self.log_flush_frequency <= Duration::ZERO {
            errors.push(format!(
                "flushFrequency: Invalid value: {}: Must be greater than zero",
                go::quoted(&self.log_flush_frequency.to_string())
            ));
        }
        match &*self.logging_format {
            "text" => {}
            "json" if gates.is_enabled(Gate::LoggingBetaOptions) => {}
            "json" => errors.push(
                "format: Forbidden: Log format json is disabled, see LoggingBetaOptions feature"
                    .to_owned(),
            ),
            other => errors.push(format!(
                "format: Invalid value: {}: Unsupported log format",
                go::quoted(other)
            )),
        }
        if !self.vmodule.is_empty() && !matches!(&*self.logging_format, "" | "text") {
            errors.push("vmodule: Forbidden: Only supported for text log format".to_owned());
        }
        if !gates.is_enabled(Gate::LoggingAlphaOptions) {
            let asked = [
                ("text.splitStream", self.log_text_split_stream),
                ("text.infoBufferSize", !self.log_text_info_buffer_size.is_zero()),
                ("json.splitStream", self.log_json_split_stream),
                ("json.infoBufferSize", !self.log_json_info_buffer_size.is_zero()),
            ];
            let asked = asked.into_iter().filter(|(_, is_asked)| *is_asked);
            errors.extend(asked.map(|(option, _)| {
                format!("options.{option}: Forbidden: Feature LoggingAlphaOptions is disabled")
            }));
        }
        errors
    }
}
