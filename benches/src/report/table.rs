//! The table on the terminal. Readable without colour, because it has none.

use super::Report;
use super::number::{digits, figure};
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
    let mut notes = Vec::new();
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
        if !series.failures.is_empty() {
            notes.push(format!(
                "{}: {} samples failed, the last because {}",
                series.kind.name,
                series.failures.len(),
                series.failures.last().map_or("", String::as_str)
            ));
        }
        let reasons = [&summary.p95, &summary.p99].into_iter().filter_map(|figure| figure.reason());
        notes.extend(reasons.map(|reason| format!("{}: {reason}", series.kind.name)));
    }
    text += &columns(&rows, &[false, false, true, true, true, true, true, true, false]);
    if !report.ratios.is_empty() {
        let mut rows = Vec::new();
        for ratio in &report.ratios {
            let promise = ratio.promise.as_ref();
            rows.push(
                vec![
                    promise.map_or("", |promise| match promise.kept {
                        Some(true) => "kept",
                        Some(false) => "BROKEN",
                        None => "unknown",
                    }),
                    &ratio.name,
                ]
                .into_iter()
                .map(str::to_owned)
                .chain([
                    figure(&ratio.value),
                    promise.map_or_else(String::new, |one| {
                        format!("{} {}", one.bound.symbol(), digits(one.limit))
                    }),
                    ratio.value.reason().unwrap_or(&ratio.what).to_owned(),
                ])
                .collect(),
            );
        }
        text.push('\n');
        text += &columns(&rows, &[false, false, true, false, false]);
    }
    for skip in &report.record.skips {
        notes.push(format!("{}: not measured: {}", skip.scenario, skip.reason));
    }
    if !notes.is_empty() {
        text.push('\n');
        // The same reason for many series is said once for all of them.
        for line in gathered(&notes) {
            text += &format!("- {line}\n");
        }
    }
    text
}

/// Notes with the same words after the name, put together.
#[must_use]
pub fn gathered(notes: &[String]) -> Vec<String> {
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
