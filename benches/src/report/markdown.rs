//! `report.md`: the same as the page, for places that show text.

use super::isolation::WAYS;
use super::number::{date, digits, figure};
use super::{Report, table};
use crate::ratio::Promise;
use crate::record::Series;
use crate::stats::Summary;

/// The whole report.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut text = format!(
        "# Rekindle, measured\n\n{}, {} with template `{}` ({} vCPUs, {} MiB); the run took {:.0} s.\n\n",
        date(report.unix_seconds),
        report.host.engine,
        report.template,
        report.vcpus,
        report.memory_mib,
        report.took_seconds
    );
    text += "Scenarios took turns, so ratios count; absolute times are of this machine alone.\n\n## Machine\n\n| | |\n|---|---|\n";
    for (name, value) in report.host.rows() {
        text += &format!("| {name} | {value} |\n");
    }
    text += &promises(report);
    text += &instead(report);
    text += &figures(report);
    text += &stages(report);
    text += &missing(report);
    text
}

fn promises(report: &Report) -> String {
    if report.ratios.is_empty() {
        return String::new();
    }
    let mut text = "\n## Ratios\n\n| ratio | measured | promised | |\n|---|---:|---:|---|\n".to_owned();
    for ratio in &report.ratios {
        let (limit, verdict) = (table::limit(ratio), ratio.promise.as_ref().map_or("", Promise::verdict));
        let note = ratio.value.reason().map(|reason| format!(" ({reason})")).unwrap_or_default();
        text += &format!("| {}{note} | {} | {limit} | {verdict} |\n", ratio.what, figure(&ratio.value));
    }
    text
}

fn instead(report: &Report) -> String {
    let middle = |name: &str| Summary::of(&report.record.find(name)?.values()).p50.value();
    let measured: Vec<_> = WAYS.iter().filter_map(|way| Some((way, middle(way.output)?))).collect();
    if measured.len() < 2 {
        return String::new();
    }
    let ours = middle("restore_output");
    let mut text = "\n## What one would pick instead\n\nFrom nothing to the first output of `echo`, on the same root file system.\n\n| | p50 ms | against a restore | kernel | reach into the host's kernel | found done |\n|---|---:|---:|---|---|---|\n".to_owned();
    for (way, value) in measured {
        let times = ours.map_or_else(|| "–".to_owned(), |ours| format!("{} ×", digits(value / ours)));
        text += &format!(
            "| {} | {} | {times} | {} | {} | {} |\n",
            way.name,
            digits(value),
            way.kernel,
            way.surface,
            way.state
        );
    }
    text
}

fn figures(report: &Report) -> String {
    let mut text =
        "\n## Figures\n\n| series | what | cache | n | p50 | p95 | p99 | spread | outliers | failed | unit |\n|---|---|---|---:|---:|---:|---:|---:|---:|---:|---|\n".to_owned();
    for series in &report.record.series {
        let Series { kind, failures, .. } = series;
        let summary = Summary::of(&series.values());
        text += &format!(
            "| `{}` | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
            kind.name,
            kind.what,
            kind.cache.label(),
            summary.n,
            figure(&summary.p50),
            figure(&summary.p95),
            figure(&summary.p99),
            figure(&summary.mad),
            summary.outliers,
            failures.len(),
            kind.unit.symbol()
        );
    }
    text + "\nSpread is the median distance from the median. Outliers lie beyond one and a half times the range of the middle half; they are counted, never removed.\n"
}

fn stages(report: &Report) -> String {
    let staged: Vec<&Series> =
        report.record.series.iter().filter(|series| !series.stage_means().is_empty()).collect();
    if staged.is_empty() {
        return String::new();
    }
    let mut text =
        "\n## Where the time of a start goes\n\nMeans in ms, which add up to the mean.\n".to_owned();
    for series in staged {
        let parts = series.stage_means();
        let list: Vec<String> =
            parts.iter().map(|one| format!("{} {}", one.name, digits(one.millis))).collect();
        let sum: f64 = parts.iter().map(|one| one.millis).sum();
        text += &format!("\n- `{}`: {} = {}", series.kind.name, list.join(" + "), digits(sum));
    }
    text + "\n"
}

fn missing(report: &Report) -> String {
    let notes = table::notes(report);
    if notes.is_empty() {
        return String::new();
    }
    let list: String = notes.iter().map(|line| format!("- {line}\n")).collect();
    format!("\n## What is not shown, and why\n\n{list}")
}
