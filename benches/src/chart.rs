//! A line chart with logarithmic axes as SVG: no fonts, scripts or files of others, readable on light and dark pages.

use std::fmt::{self, Display, Formatter};

use crate::table::count;

/// What is drawn.
#[derive(Debug)]
pub struct Chart {
    /// The heading.
    pub title: String,
    /// What lies along the bottom.
    pub x_label: String,
    /// What lies along the side.
    pub y_label: String,
    /// The lines. The ends of the highest are named first.
    pub series: Vec<Series>,
}

/// One line.
#[derive(Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points, both coordinates above zero.
    pub points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 520.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 268.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 60.0;

/// Dark enough for a white page and light enough for a black one.
const COLOURS: [&str; 10] = [
    "#3b82f6", "#f97316", "#22a06b", "#d946ef", "#c99700", "#ef4444", "#0ea5b7", "#8b5cf6",
    "#84a315", "#94735a",
];

const STYLE: &str = "\
text{font:13px system-ui,-apple-system,'Segoe UI',sans-serif;fill:#24292f}\
.title{font-size:16px;font-weight:600}.axis{fill:#57606a}\
.grid{stroke:#8c959f;stroke-opacity:.3}.minor{stroke:#8c959f;stroke-opacity:.12}\
.line{fill:none;stroke-width:2}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.axis{fill:#9da7b1}}";

/// Brings numbers of one axis onto the page.
struct Axis {
    /// Decimal logarithms of the ends.
    from: f64,
    to: f64,
    /// The ends on the page.
    start: f64,
    end: f64,
}

impl Axis {
    /// From the power of ten below the least value to the one above the greatest.
    fn decades(values: impl Iterator<Item = f64>, start: f64, end: f64) -> Self {
        let (from, to) = extremes(values);
        Self { from: from.log10().floor(), to: to.log10().ceil(), start, end }
    }

    fn at(&self, value: f64) -> f64 {
        let part = (value.log10() - self.from) / (self.to - self.from).max(f64::MIN_POSITIVE);
        self.start + part * (self.end - self.start)
    }
}

fn extremes(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::MAX, f64::MIN_POSITIVE), |(least, most), value| {
        (least.min(value), most.max(value))
    })
}

impl Display for Chart {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let (least, most) = extremes(points().map(|point| point.0));
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let x = Axis { from: least.log10(), to: most.log10(), start: LEFT, end: right };
        let y = Axis::decades(points().map(|point| point.1), bottom, TOP);
        writeln!(
            f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{0}\">\n\
             <title>{0}</title>\n<style>{STYLE}</style>\n\
             <text class=\"title\" x=\"{LEFT}\" y=\"28\">{0}</text>",
            escaped(&self.title),
        )?;
        self.grid(f, &x, &y)?;
        let mut legend: Vec<(usize, &Series)> = self.series.iter().enumerate().collect();
        legend.sort_by(|(_, a), (_, b)| end_of(b).total_cmp(&end_of(a)));
        for (place, (number, series)) in legend.into_iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            // Lines beyond the colours, and every second one for those who see few colours, differ in dashes.
            let dashes = if number % 2 == 0 { "" } else { " stroke-dasharray=\"7 3\"" };
            let path: Vec<String> = series
                .points
                .iter()
                .map(|point| format!("{:.1},{:.1}", x.at(point.0), y.at(point.1)))
                .collect();
            writeln!(
                f,
                "<polyline class=\"line\" stroke=\"{colour}\"{dashes} points=\"{}\"/>",
                path.join(" ")
            )?;
            for point in &series.points {
                writeln!(
                    f,
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"{colour}\"/>",
                    x.at(point.0),
                    y.at(point.1)
                )?;
            }
            let (from, level) = (right + 20.0, TOP + 10.0 + 24.0 * place as f64);
            writeln!(
                f,
                "<line class=\"line\" stroke=\"{colour}\"{dashes} x1=\"{from}\" y1=\"{level}\" x2=\"{}\" y2=\"{level}\"/>\
                 <text x=\"{}\" y=\"{}\">{}</text>",
                from + 24.0,
                from + 32.0,
                level + 4.5,
                escaped(&series.name),
            )?;
        }
        writeln!(f, "</svg>")
    }
}

impl Chart {
    fn grid(&self, f: &mut Formatter<'_>, x: &Axis, y: &Axis) -> fmt::Result {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let mut xs: Vec<f64> = self
            .series
            .iter()
            .flat_map(|series| series.points.iter().map(|point| point.0))
            .collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        for value in xs {
            let at = x.at(value);
            writeln!(
                f,
                "<line class=\"grid\" x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\"/>\
                 <text class=\"axis\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 20.0,
                count(value),
            )?;
        }
        // The axis is logarithmic: a line with a label for every power of ten, thin ones for the multiples in between.
        let mut exponent = y.from as i32;
        while f64::from(exponent) <= y.to {
            let decade = 10_f64.powi(exponent);
            let at = y.at(decade);
            writeln!(
                f,
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\"/>\
                 <text class=\"axis\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                at + 4.5,
                if decade < 1.0 { decade.to_string() } else { count(decade) },
            )?;
            for step in 2..10 {
                let at = y.at(decade * f64::from(step));
                if f64::from(exponent) < y.to {
                    writeln!(
                        f,
                        "<line class=\"minor\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\"/>"
                    )?;
                }
            }
            exponent += 1;
        }
        writeln!(
            f,
            "<text class=\"axis\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text class=\"axis\" transform=\"translate(20 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, right),
            HEIGHT - 16.0,
            escaped(&self.x_label),
            f64::midpoint(TOP, bottom),
            escaped(&self.y_label),
        )
    }
}

fn end_of(series: &Series) -> f64 {
    series.points.last().map_or(0.0, |point| point.1)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_lie_where_their_logarithms_say() {
        let chart = Chart {
            title: "a < b".into(),
            x_label: "nodes".into(),
            y_label: "µs".into(),
            series: vec![Series {
                name: "one & two".into(),
                points: vec![(10.0, 1.0), (100.0, 10.0), (1_000.0, 100.0)],
            }],
        };
        let svg = chart.to_string();
        // Corners of the plot, and its middle.
        assert!(svg.contains("points=\"76.0,460.0 384.0,258.0 692.0,56.0\""), "{svg}");
        assert!(svg.contains("a &lt; b") && svg.contains("one &amp; two"), "{svg}");
    }
}
