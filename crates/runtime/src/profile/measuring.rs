//! What is reported to the meter of a profile, if there is one.

use kube_scheduler_framework::{Code, Status};

use super::{PluginIdx, Profile};
use crate::meter::{Meter, MeteredPoint};

impl Profile {
    /// The meter's reading, to measure a whole extension point from; `None` when nothing is measured.
    pub fn point_start(&self) -> Option<u64> {
        self.meter().map(Meter::nanos)
    }

    /// A run of a whole extension point has ended that began at the reading `start`, if it is measured. Returns the reading to
    /// measure the next one from.
    pub fn point_ended(&self, point: MeteredPoint, code: Code, start: Option<u64>) -> Option<u64> {
        Some(self.meter()?.point_ended(point, code, start?))
    }

    /// Runs a whole extension point.
    pub(crate) fn measured_point<T>(
        &self,
        point: MeteredPoint,
        run: impl FnOnce() -> T,
        code: impl FnOnce(&T) -> Code,
    ) -> T {
        let start = self.point_start();
        let answer = run();
        self.point_ended(point, code(&answer), start);
        answer
    }

    /// The reading to measure a single plugin from, if plugins are measured at the moment.
    pub fn plugin_start(&self) -> Option<u64> {
        self.meter()?.plugin_start()
    }

    /// A run of a plugin that began at `start`, if it is measured, ends now.
    pub fn plugin_ended(
        &self,
        plugin: PluginIdx,
        point: MeteredPoint,
        code: Code,
        start: Option<u64>,
    ) {
        if let Some(meter) = self.meter() {
            meter.plugin_ended(plugin, point, code, start);
        }
    }

    /// Runs a plugin, measured if plugins are measured at the moment.
    pub(crate) fn measured<T>(
        &self,
        plugin: PluginIdx,
        point: MeteredPoint,
        run: impl FnOnce() -> T,
        code: impl FnOnce(&T) -> Code,
    ) -> T {
        let Some(meter) = self.meter() else { return run() };
        let start = meter.plugin_start();
        let answer = run();
        meter.plugin_ended(plugin, point, code(&answer), start);
        answer
    }

    /// Counts `n` calls of a plugin.
    pub(crate) fn called(&self, plugin: PluginIdx, point: MeteredPoint, n: usize) {
        if let Some(meter) = self.meter() {
            meter.called(plugin, point, n);
        }
    }
}

/// The code of an answer whose errors are statuses.
pub(crate) fn code_of<T>(result: &Result<T, Status>) -> Code {
    result.as_ref().err().map_or(Code::Success, Status::code)
}
