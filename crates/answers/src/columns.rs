//! Text in columns, as kubectl prints it.

/// Blanks between columns.
const GAP: usize = 3;

/// Rows of cells; the first row is the head.
#[derive(Clone, Debug)]
pub struct Columns(Vec<Vec<String>>);

impl Columns {
    /// A table with this head and no other rows.
    pub fn new<S: ToString>(head: &[S]) -> Self {
        Self(vec![head.iter().map(ToString::to_string).collect()])
    }

    /// Adds a row, with a cell for each column of the head.
    pub fn push(&mut self, row: Vec<String>) {
        self.0.push(row);
    }

    /// Appends all rows and an empty line to `out`, or nothing if there is only a head.
    pub fn print(&self, out: &mut String) {
        if self.0.len() < 2 {
            return;
        }
        let n_columns = self.0.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.0.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..n_columns).map(width).collect();
        for row in &self.0 {
            // Padded by hand: a width in a format string may not exceed 65,535, and texts of plugins have no limit. Blanks
            // are written only when another text follows, so that a long text in one row costs nothing in the others.
            let mut blanks = 0;
            for (cell, width) in row.iter().zip(&widths) {
                let cell = cell.trim_end();
                if !cell.is_empty() {
                    out.extend(std::iter::repeat_n(' ', blanks));
                    out.push_str(cell);
                    blanks = 0;
                }
                blanks += width + GAP - cell.chars().count().min(*width);
            }
            out.push('\n');
        }
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(rows: &[&[&str]]) -> String {
        let mut columns = Columns(Vec::new());
        for row in rows {
            columns.push(row.iter().map(ToString::to_string).collect());
        }
        let mut out = String::new();
        columns.print(&mut out);
        out
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows: [&[&str]; 3] = [&["A", "BB", "C"], &["aaa", "", "c"], &["ä", "b", ""]];
        assert_eq!(printed(&rows), "A     BB   C\naaa        c\nä     b\n\n");
    }

    #[test]
    fn texts_longer_than_a_format_width_are_printed() {
        let long = "x".repeat(70_000);
        let rows: [&[&str]; 3] = [&["A", "B"], &[&long, "b"], &["a", &long]];
        let text = printed(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], format!("{long}   b"));
        assert_eq!(lines[2], format!("a{}{long}", " ".repeat(70_002)));
    }
}
