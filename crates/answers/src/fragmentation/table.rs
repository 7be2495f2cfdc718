//! Fragmentation for people.

use std::fmt::Write as _;

use super::data::{Fragmentation, FragmentedResource};
use crate::columns::Columns;
use crate::format::count;

/// How many shapes narrow tables have.
const MAX_SHAPES: usize = 10;

impl Fragmentation {
    /// The answer in columns; wide ones have all shapes that were tried.
    pub fn table(&self, wide: bool) -> String {
        let mut out = String::new();
        let mut shapes = Columns::new(&["SHAPE", "PODS", "FITS ON", "ASKS FOR"]);
        let max = if wide { usize::MAX } else { MAX_SHAPES };
        for shape in self.shapes.iter().take(max) {
            let asks = shape.requests.iter().map(|(name, amount)| format!("{name}={amount}"));
            shapes.push(vec![
                shape.example.clone(),
                shape.pods.to_string(),
                count(shape.feasible, "node"),
                asks.collect::<Vec<String>>().join(", "),
            ]);
        }
        shapes.print(&mut out);
        if self.n_shapes > self.shapes.len().min(max) {
            let more = count(self.n_shapes - self.shapes.len().min(max), "more shape");
            let _ = writeln!(out, "and {more}\n");
        }
        // As kubectl heads columns of labels.
        let label = self.by.as_deref().and_then(|label| label.rsplit('/').next());
        let pool = label.unwrap_or("NODES").to_uppercase();
        let head = [&*pool, "RESOURCE", "FREE", "UNUSABLE", "SHARE", "BECAUSE OF"];
        let mut columns = Columns::new(&head);
        for pool in &self.pools {
            let name = pool.pool.as_deref().unwrap_or("-");
            pool.resources.iter().for_each(|resource| columns.push(resource.cells(name)));
        }
        self.resources.iter().for_each(|resource| columns.push(resource.cells("all")));
        columns.print(&mut out);
        for warning in &self.warnings {
            let _ = writeln!(out, "note: {warning}");
        }
        let _ = write!(out, "the mix: {} of ", count(self.pods, "pod"));
        let _ = write!(out, "{}", count(self.shapes.len(), "shape"));
        if self.other_pods > 0 {
            let all = self.pods + self.other_pods;
            let _ = write!(out, "; {} of {all} pods not judged", self.other_pods);
        }
        out.push('\n');
        out
    }
}

impl FragmentedResource {
    fn cells(&self, pool: &str) -> Vec<String> {
        let because =
            self.because.iter().map(|cause| format!("{} {}", cause.plugin, cause.unusable));
        vec![
            pool.to_owned(),
            self.resource.clone(),
            self.free.clone(),
            self.unusable.clone(),
            format!("{}.{}%", self.permille / 10, self.permille % 10),
            because.collect::<Vec<String>>().join(", "),
        ]
    }
}
