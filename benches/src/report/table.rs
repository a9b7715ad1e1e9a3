//! The table on the terminal. Readable without colour, because it has none.

use super::Report;
use super::number::{digits, figure};
use crate::ratio::{Promise, Ratio};
use crate::stats::Summary;

/// Names that a note gives before it only counts them.
const FEW: usize = 4;

/// Everything, for a person at a terminal.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut text = String::new();
    for (name, value) in report.host.rows() {
        text += &format!("{name:<10} {value}\n");
    }
    text +=
        &format!("template   {} ({} vCPUs, {} MiB)\n\n", report.template, report.vcpus, report.memory_mib);
    let head = ["", "cache", "n", "p50", "p95", "p99", "spread", "out", "unit"].map(str::to_owned).to_vec();
    let mut rows = vec![head];
    for series in &report.record.series {
        let summary = Summary::of(&series.values());
        rows.push(vec![
            series.kind.name.clone(),
            series.kind.cache.label().to_owned(),
            summary.n.to_string(),
            figure(&summary.p50),
            figure(&summary.p95),
            figure(&summary.p99),
            figure(&summary.mad),
            summary.outliers.to_string(),
            series.kind.unit.symbol().to_owned(),
        ]);
    }
    text += &columns(&rows, &[false, false, true, true, true, true, true, true, false]);
    if !report.ratios.is_empty() {
        let mut rows = Vec::new();
        for ratio in &report.ratios {
            rows.push(vec![
                ratio.promise.as_ref().map_or("", Promise::verdict).to_owned(),
                ratio.name.clone(),
                figure(&ratio.value),
                limit(ratio),
                ratio.value.reason().unwrap_or(&ratio.what).to_owned(),
            ]);
        }
        text.push('\n');
        text += &columns(&rows, &[false, false, true, false, false]);
    }
    let notes = notes(report);
    if !notes.is_empty() {
        text.push('\n');
        text.extend(notes.iter().map(|line| format!("- {line}\n")));
    }
    text
}

/// What was promised, where something was.
#[must_use]
pub fn limit(ratio: &Ratio) -> String {
    let promise = ratio.promise.as_ref();
    promise.map_or_else(String::new, |one| format!("{} {}", one.bound.symbol(), digits(one.limit)))
}

/// What is not shown, and why. The same reason for many series is said once for all of them.
#[must_use]
pub fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    for series in &report.record.series {
        let summary = Summary::of(&series.values());
        let mut note = |reason: &str| notes.push(format!("{}: {reason}", series.kind.name));
        [&summary.p95, &summary.p99].into_iter().filter_map(|figure| figure.reason()).for_each(&mut note);
        for failure in &series.failures {
            note(&format!("a sample failed: {failure}"));
        }
    }
    let skipped = report.record.skips.iter();
    notes.extend(skipped.map(|skip| format!("{}: not measured: {}", skip.scenario, skip.reason)));
    gathered(&notes)
}

/// Notes with the same words after the name, put together.
fn gathered(notes: &[String]) -> Vec<String> {
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for note in notes {
        let (name, reason) = note.split_once(": ").unwrap_or(("", note));
        match by_reason.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(name),
            None => by_reason.push((reason, vec![name])),
        }
    }
    let named = |names: &[&str]| match names.len() {
        0..=FEW => names.join(", "),
        more => format!("{} and {} others", names[..FEW].join(", "), more - FEW),
    };
    by_reason.into_iter().map(|(reason, names)| format!("{}: {reason}", named(&names))).collect()
}

/// Lays cells out in columns, some of them to the right.
fn columns(rows: &[Vec<String>], right: &[bool]) -> String {
    let widths: Vec<usize> = (0..right.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default())
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).zip(right).map(|((cell, width), right)| {
            if *right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}
