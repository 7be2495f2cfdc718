//! What a runner reports to the meter of its profile, if there is one.

use kube_scheduler_framework::{Code, Status};

use super::Runner;
use crate::meter::MeteredPoint;
use crate::profile::PluginIdx;

impl Runner<'_> {
    /// A run of a whole extension point has ended; `start` is empty when nothing is measured.
    pub fn point_ended(&self, point: MeteredPoint, code: Code, start: Option<u64>) {
        if let (Some(meter), Some(start)) = (self.profile.meter(), start) {
            meter.point_ended(point, code, start);
        }
    }

    pub(super) fn called(&self, plugin: PluginIdx, point: MeteredPoint, n: usize) {
        if let Some(meter) = self.profile.meter() {
            meter.called(plugin, point, n);
        }
    }

    pub(super) fn measured<T>(
        &self,
        plugin: PluginIdx,
        point: MeteredPoint,
        run: impl FnOnce() -> T,
        code: impl FnOnce(&T) -> Code,
    ) -> T {
        match self.profile.meter() {
            Some(meter) => meter.measured(plugin, point, run, code),
            None => run(),
        }
    }
}

/// The code of an answer whose errors are statuses.
pub(super) fn code_of<T>(result: &Result<T, Status>) -> Code {
    result.as_ref().err().map_or(Code::Success, Status::code)
}
