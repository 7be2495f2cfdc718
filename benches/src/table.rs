//! Figures as text: for a terminal, or as Markdown for the documentation.

use crate::figures::Figures;

/// Rows of cells under a head, with every column but the first one to the right.
#[derive(Debug)]
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Self {
        Self { head: head.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// In columns.
    pub fn plain(&self) -> String {
        let lines = || std::iter::once(&self.head).chain(&self.rows);
        let widths: Vec<usize> = (0..self.head.len())
            .map(|at| lines().filter_map(|row| row.get(at)).map(|c| c.chars().count()).max())
            .map(Option::unwrap_or_default)
            .collect();
        let mut text = String::new();
        for row in lines() {
            let mut line = String::new();
            for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if at == 0 {
                    line.push_str(&format!("{cell:<width$}"));
                } else {
                    line.push_str(&format!("  {cell:>width$}"));
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let line = |row: &[String]| format!("| {} |\n", row.join(" | "));
        let rule: Vec<String> = (0..self.head.len())
            .map(|at| if at == 0 { "---" } else { "---:" }.to_owned())
            .collect();
        let mut text = line(&self.head) + &line(&rule);
        text.extend(self.rows.iter().map(|row| line(row)));
        text
    }
}

/// All figures of all workloads.
pub fn figures(all: &[Figures]) -> Table {
    let mut head = vec!["workload", "nodes", "pods", "pods/s"];
    // A column is there if any of the workloads has something for it.
    let has_spread = all.iter().any(|figures| figures.runs > 1);
    let has_memory = all.iter().any(|figures| figures.memory.is_some());
    let has_goal = all.iter().any(|figures| figures.goal.is_some());
    let has_reference = all.iter().any(|figures| figures.reference.is_some());
    if has_spread {
        head.push("from – to");
    }
    head.extend(["p50", "p99", "longest", "most units"]);
    if has_memory {
        head.extend(["B/node", "B/pod"]);
    }
    if has_goal {
        head.extend(["goal", "of goal"]);
    }
    if has_reference {
        head.extend(["reference", "ratio"]);
    }
    let mut table = Table::new(head);
    for figures in all {
        let mut row = vec![
            figures.workload.clone(),
            count(figures.nodes as f64),
            format!("{} + {}", count(figures.init as f64), count(figures.measured as f64)),
            count(figures.pods_per_second),
        ];
        if has_spread {
            let (least, most) = (figures.least_pods_per_second, figures.most_pods_per_second);
            row.push(format!("{} – {}", count(least), count(most)));
        }
        row.extend([figures.p50_micros, figures.p99_micros, figures.max_micros].map(micros));
        row.push(count(figures.most_work as f64));
        if has_memory {
            let cell = |bytes: Option<f64>| bytes.map(count).unwrap_or_default();
            row.push(cell(figures.memory.map(|memory| memory.bytes_per_node)));
            row.push(cell(figures.memory.map(|memory| memory.bytes_per_pod)));
        }
        let mut compared = |with: Option<f64>, show: &dyn Fn(f64) -> String| match with {
            Some(value) => row.extend([count(value), show(figures.pods_per_second / value)]),
            None => row.extend([String::new(), String::new()]),
        };
        if has_goal {
            compared(figures.goal, &|part| format!("{:.0} %", part * 100.0));
        }
        if has_reference {
            compared(figures.reference, &|ratio| format!("{ratio:.0}×"));
        }
        table.push(row);
    }
    table
}

/// A whole number with separated thousands.
pub fn count(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number < 0.0 { format!("-{text}") } else { text }
}

/// A length of time, in the unit that suits it.
pub fn micros(micros: f64) -> String {
    match micros {
        ..10.0 => format!("{micros:.1} µs"),
        ..1_000.0 => format!("{micros:.0} µs"),
        ..10_000.0 => format!("{:.2} ms", micros / 1e3),
        _ => format!("{:.1} ms", micros / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        assert_eq!(count(0.0), "0");
        assert_eq!(count(999.6), "1,000");
        assert_eq!(count(123_456.0), "123,456");
        assert_eq!(count(-1_234_567.0), "-1,234,567");
    }

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(["name", "n"]);
        table.push(vec!["a".into(), "100".into()]);
        assert_eq!(table.plain(), "name    n\na     100\n");
        assert_eq!(table.markdown(), "| name | n |\n| --- | ---: |\n| a | 100 |\n");
    }
}
