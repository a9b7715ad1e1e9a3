//! Plots as inline SVG, drawn with the page's own colours so that they follow light and dark.
//!
//! Three of them: where the time of a start goes, how samples are distributed, and what happens when many
//! start at once. Every mark has a title, which a browser shows when it is pointed at.

use std::fmt::Write;

use super::number::digits;
use crate::record::{Series, Stage};
use crate::stats::{Summary, percentile};

/// Width of every plot in its own units.
const WIDTH: f64 = 960.0;
/// Room on the left for names.
const LEFT: f64 = 210.0;
/// Room on the right for a value.
const RIGHT: f64 = 110.0;

/// Stages by colour, the same in every plot and in the legend.
pub const STAGES: &[(&str, &str)] = &[
    ("reserve", "directory, control group, disk"),
    ("files", "descriptors or the jail's files"),
    ("spawn", "the monitor's process"),
    ("control", "the monitor's own start"),
    ("configure", "the machine's devices"),
    ("load", "the snapshot"),
    ("resume", "the processors"),
    ("dial", "a connection"),
    ("hello", "the agent's first answer"),
    ("gate", "randomness, clock, name, limits"),
    ("output", "the first program"),
    ("other", "between the steps"),
];

/// Text that is safe inside a page.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The same, with what stands between backticks set as code.
#[must_use]
pub fn prose(text: &str) -> String {
    let parts: Vec<String> = escape(text).split('`').map(str::to_owned).collect();
    let set = |(index, part): (usize, &String)| {
        if index % 2 == 1 { format!("<code>{part}</code>") } else { part.clone() }
    };
    parts.iter().enumerate().map(set).collect()
}

fn open(height: f64, label: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\" \
         font-family=\"inherit\">",
        escape(label)
    )
}

fn text(svg: &mut String, x: f64, y: f64, class: &str, words: &str) {
    let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{}</text>", escape(words));
}

/// One bar a start, cut into its stages; the means add up to the mean.
#[must_use]
pub fn waterfall(rows: &[(&str, &Series)]) -> String {
    let rows: Vec<(&str, Vec<Stage>)> =
        rows.iter().map(|(name, series)| (*name, series.stage_means())).collect();
    let total = |stages: &[Stage]| stages.iter().map(|stage| stage.millis).sum::<f64>();
    let longest = rows.iter().map(|(_, stages)| total(stages)).fold(0.0, f64::max);
    let scale = (WIDTH - LEFT - RIGHT) / longest.max(f64::MIN_POSITIVE);
    let (bar, gap) = (26.0, 14.0);
    let mut svg = open(rows.len() as f64 * (bar + gap) + gap, "where the time of each start goes");
    for (index, (name, stages)) in rows.iter().enumerate() {
        let y = gap + index as f64 * (bar + gap);
        text(&mut svg, LEFT - 12.0, y + bar / 2.0 + 5.0, "name", name);
        let mut x = LEFT;
        for stage in stages {
            let width = stage.millis * scale;
            let colour = STAGES.iter().position(|(known, _)| *known == stage.name).unwrap_or_default();
            let _ = write!(
                svg,
                "<rect x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{bar}\" class=\"s{colour}\">\
                 <title>{}: {} ms</title></rect>",
                escape(&stage.name),
                digits(stage.millis)
            );
            if width > 64.0 {
                text(&mut svg, x + width / 2.0, y + bar / 2.0 + 4.5, "inbar", &stage.name);
            }
            x += width;
        }
        text(&mut svg, x + 8.0, y + bar / 2.0 + 5.0, "value", &format!("{} ms", digits(total(stages))));
    }
    svg + "</svg>"
}

/// Every sample as a dot, on a scale where twice as long is always the same step; the line is the median.
#[must_use]
pub fn strips(rows: &[(&str, &Series)]) -> String {
    let values: Vec<(&str, Vec<f64>)> = rows
        .iter()
        .map(|(name, series)| {
            let mut values = series.values();
            values.sort_by(f64::total_cmp);
            (*name, values)
        })
        .filter(|(_, values)| !values.is_empty())
        .collect();
    let all = || values.iter().flat_map(|(_, values)| values.iter().copied());
    let axis = Axis::around(all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
    let (row, top) = (44.0, 34.0);
    let height = top + values.len() as f64 * row + 8.0;
    let mut svg = open(height, "every sample, by scenario, on a logarithmic scale");
    for tick in axis.ticks() {
        let x = axis.place(tick);
        let _ =
            write!(svg, "<line x1=\"{x:.1}\" y1=\"{top}\" x2=\"{x:.1}\" y2=\"{height}\" class=\"grid\"/>");
        text(&mut svg, x, top - 12.0, "tick", &label(tick));
    }
    for (index, (name, values)) in values.iter().enumerate() {
        let middle = top + (index as f64 + 0.5) * row;
        text(&mut svg, LEFT - 12.0, middle + 5.0, "name", name);
        if let (Some(low), Some(high)) = (percentile(values, 25), percentile(values, 75)) {
            let (from, to) = (axis.place(low), axis.place(high));
            let _ = write!(
                svg,
                "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"24\" rx=\"4\" class=\"half\"/>",
                middle - 12.0,
                (to - from).max(1.0)
            );
        }
        for (number, value) in values.iter().enumerate() {
            // Spread over the height of the row by order, so that equal samples do not hide each other.
            let y = middle + ((number * 7 % 11) as f64 - 5.0) * 1.9;
            let _ = write!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"2.6\" class=\"dot\"><title>{} ms</title></circle>",
                axis.place(*value),
                digits(*value)
            );
        }
        if let Some(centre) = percentile(values, 50) {
            let x = axis.place(centre);
            let (from, to) = (middle - 14.0, middle + 14.0);
            let _ =
                write!(svg, "<line x1=\"{x:.1}\" y1=\"{from}\" x2=\"{x:.1}\" y2=\"{to}\" class=\"median\"/>");
            text(&mut svg, WIDTH - RIGHT + 12.0, middle + 5.0, "value", &format!("{} ms", digits(centre)));
        }
    }
    svg + "</svg>"
}

/// How long until all of so many are usable, against as many one after the other.
#[must_use]
pub fn curve(points: &[(usize, &Series)]) -> String {
    let medians: Vec<(f64, f64, f64)> = points
        .iter()
        .filter_map(|(count, series)| {
            let summary = Summary::of(&series.values());
            Some((*count as f64, summary.p50.value()?, summary.max.value()?))
        })
        .collect();
    let (Some(first), Some(last)) = (medians.first(), medians.last()) else { return String::new() };
    let one_by_one = |count: f64| first.1 / first.0 * count;
    let (height, top, bottom, left, right) = (340.0, 24.0, 44.0, 84.0, 190.0);
    let most = medians.iter().map(|point| point.2).fold(one_by_one(last.0), f64::max) * 1.06;
    let x = |count: f64| left + (WIDTH - left - right) * (count - first.0) / (last.0 - first.0).max(1.0);
    let y = |value: f64| height - bottom - (height - top - bottom) * value / most;
    let mut svg = open(height, "time until all of so many starts are usable");
    let step = nice(most / 4.0);
    let mut tick = 0.0;
    while tick <= most {
        let at = y(tick);
        let _ = write!(
            svg,
            "<line x1=\"{left}\" y1=\"{at:.1}\" x2=\"{}\" y2=\"{at:.1}\" class=\"grid\"/>",
            WIDTH - right
        );
        text(&mut svg, left - 10.0, at + 4.0, "ytick", &label(tick));
        tick += step;
    }
    let line = |points: &mut dyn Iterator<Item = (f64, f64)>| {
        points.map(|(px, py)| format!("{px:.1},{py:.1}")).collect::<Vec<_>>().join(" ")
    };
    let serial = line(&mut medians.iter().map(|point| (x(point.0), y(one_by_one(point.0)))));
    let together = line(&mut medians.iter().map(|point| (x(point.0), y(point.1))));
    let _ = write!(svg, "<polyline points=\"{serial}\" class=\"serial\"/>");
    let _ = write!(svg, "<polyline points=\"{together}\" class=\"together\"/>");
    for (count, middle, worst) in &medians {
        let (px, py) = (x(*count), y(*middle));
        let _ = write!(
            svg,
            "<line x1=\"{px:.1}\" y1=\"{py:.1}\" x2=\"{px:.1}\" y2=\"{:.1}\" class=\"whisker\"/>",
            y(*worst)
        );
        let _ = write!(
            svg,
            "<circle cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"5\" class=\"point\"><title>{count} at once: {} ms, at most {} ms</title></circle>",
            digits(*middle),
            digits(*worst)
        );
        text(&mut svg, px, height - bottom + 22.0, "tick", &format!("{count}"));
    }
    text(&mut svg, (left + WIDTH - right) / 2.0, height - 4.0, "tick", "starts at once");
    let end = WIDTH - right + 14.0;
    text(&mut svg, end, y(last.1) + 5.0, "legend-line", &format!("at once: {} ms", digits(last.1)));
    text(&mut svg, end, y(one_by_one(last.0)) + 5.0, "legend-line", "one after the other");
    svg + "</svg>"
}

/// A logarithmic axis.
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    fn around(low: f64, high: f64) -> Self {
        let low = low.max(1e-3);
        Self { low: low / 1.15, high: (high * 1.15).max(low * 2.0) }
    }

    fn place(&self, value: f64) -> f64 {
        let share = (value.max(1e-3) / self.low).ln() / (self.high / self.low).ln();
        LEFT + share * (WIDTH - LEFT - RIGHT)
    }

    /// One, two and five of every power of ten that is on it.
    fn ticks(&self) -> Vec<f64> {
        let powers = (-3..=7).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power)));
        let all: Vec<f64> = powers.filter(|tick| (self.low..=self.high).contains(tick)).collect();
        // Only the powers themselves where all would be too many to read.
        if all.len() <= 9 {
            return all;
        }
        all.into_iter().filter(|tick| (tick.log10() - tick.log10().round()).abs() < 1e-9).collect()
    }
}

fn label(millis: f64) -> String {
    if millis >= 1000.0 {
        format!("{} s", trimmed(millis / 1000.0))
    } else {
        format!("{} ms", trimmed(millis))
    }
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The next number above that people count in.
fn nice(value: f64) -> f64 {
    let power = 10_f64.powf(value.max(1e-3).log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|nice| *nice >= value).unwrap_or(value)
}
