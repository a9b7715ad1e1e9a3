//! `report.html`: one page that needs nothing else, with plots, for a person who would rather look.

use std::fmt::Write;

use super::isolation::WAYS;
use super::number::{date, digits, figure, with_unit};
use super::plot::{self, STAGES, escape, prose};
use super::{Report, table};
use crate::record::Series;
use crate::scenario::{Scenario, burst};
use crate::stats::Summary;

/// The page's look.
const STYLE: &str = include_str!("page.css");

/// Starts that are drawn, by the series that goes all the way to the first output.
const STARTS: &[(&str, &str)] = &[
    ("floor_usable", "floor"),
    ("restore_prespawned_output", "monitor waiting"),
    ("claim_parked_output", "claimed from the pool"),
    ("restore_output", "restore"),
    ("restore_cold_output", "restore, cold cache"),
    ("cold_boot_output", "cold boot"),
    ("restore_python", "restore to Python"),
    ("cold_boot_python", "cold boot to Python"),
];

/// Series whose samples are drawn.
const DISTRIBUTIONS: &[(&str, &str)] = &[
    ("bubblewrap_output", "bubblewrap"),
    ("container_output", "container"),
    ("floor", "floor"),
    ("restore_prespawned", "monitor waiting"),
    ("claim_parked", "claimed from the pool"),
    ("restore", "restore"),
    ("restore_cold", "restore, cold cache"),
    ("cold_boot", "cold boot"),
    ("first_python", "first Python"),
    ("first_python_plain", "first Python, plain"),
    ("python_data", "first numpy, pandas"),
    ("python_data_plain", "the same, plain"),
    ("first_node", "first Node"),
    ("first_node_plain", "first Node, plain"),
    ("exec_roundtrip", "execution overhead"),
    ("ping", "bare round trip"),
];

/// The whole page.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>Rekindle, measured</title><style>{STYLE}</style></head><body><main>\
         <h1>Rekindle, measured</h1><p class=\"soft\">{} · engine {} {} ({}) · template {}, {} vCPUs, {} MiB · \
         the run took {:.0} s</p>",
        date(report.unix_seconds),
        escape(&report.host.engine),
        escape(report.host.monitor.split(' ').next().unwrap_or_default()),
        escape(&report.host.accelerator),
        escape(&report.template),
        report.vcpus,
        report.memory_mib,
        report.took_seconds
    );
    page += &tiles(report);
    page += &promises(report);
    page += &starts(report);
    page += &distribution(report);
    page += &concurrency(report);
    page += &instead(report);
    page += &figures(report);
    page += &missing(report);
    page += &machine(report);
    page + "</main></body></html>\n"
}

fn middle(report: &Report, name: &str) -> Option<f64> {
    Summary::of(&report.record.find(name)?.values()).p50.value()
}

/// The few numbers a person asks for first.
fn tiles(report: &Report) -> String {
    let mut page = String::new();
    let mut tile = |value: Option<String>, unit: &str, what: &str| {
        if let Some(value) = value {
            let _ = write!(
                page,
                "<div class=\"tile\"><b>{value} <small>{unit}</small></b><span>{what}</span></div>"
            );
        }
    };
    let median = |name| middle(report, name).map(digits);
    let ratio = |name: &str| {
        let ratio = report.ratios.iter().find(|ratio| ratio.name == name)?;
        ratio.value.value().map(digits)
    };
    tile(median("restore"), "ms", "snapshot to the agent's first answer, median");
    tile(ratio("boot_over_restore"), "×", "faster than booting");
    tile(ratio("restore_over_floor"), "×", "of the least it can cost");
    tile(median("first_python"), "ms", "first Python program, median");
    tile(median("private"), "MiB", "private memory of an idle clone");
    format!("<div class=\"tiles\">{page}</div>")
}

fn promises(report: &Report) -> String {
    let rows: String = report
        .ratios
        .iter()
        .map(|ratio| {
            let (limit, verdict) = match &ratio.promise {
                None => (String::new(), String::new()),
                Some(promise) => {
                    let (class, word) = match promise.kept {
                        Some(true) => ("kept", "kept"),
                        Some(false) => ("broken", "broken"),
                        None => ("unknown", "unknown"),
                    };
                    (
                        format!("{} {}", promise.bound.symbol(), digits(promise.limit)),
                        format!("<span class=\"pill {class}\">{word}</span>"),
                    )
                }
            };
            let reason = ratio
                .value
                .reason()
                .map(|reason| format!("<br><span class=\"soft\">{}</span>", escape(reason)));
            format!(
                "<tr><td>{}{}</td><td class=\"n\">{}</td><td class=\"n\">{limit}</td><td>{verdict}</td></tr>",
                prose(&ratio.what),
                reason.unwrap_or_default(),
                figure(&ratio.value)
            )
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "<h2>Promises and ratios</h2><p class=\"soft\">Measured side by side in this run: of what took turns the \
         median of every round's ratio, of the rest the ratio of medians. A promise needs \
         thirty samples; what has fewer is not judged.</p><div class=\"card\"><table><tr><th>what</th>\
         <th class=\"n\">measured</th><th class=\"n\">promised</th><th></th></tr>{rows}</table></div>"
    )
}

fn chosen<'a>(report: &'a Report, names: &[(&str, &'a str)]) -> Vec<(&'a str, &'a Series)> {
    let find = |(name, label): &(&str, &'a str)| {
        report.record.find(name).filter(|series| !series.samples.is_empty()).map(|series| (*label, series))
    };
    names.iter().filter_map(find).collect()
}

fn starts(report: &Report) -> String {
    let rows = chosen(report, STARTS);
    if rows.is_empty() {
        return String::new();
    }
    // A boot is so much longer that nothing else could be read beside it.
    let (quick, slow): (Vec<_>, Vec<_>) =
        rows.into_iter().partition(|(name, _)| !name.starts_with("cold boot"));
    let used = |stage: &str| {
        let has = |(_, series): &(&str, &Series)| series.stage_means().iter().any(|one| one.name == stage);
        quick.iter().any(has) || slow.iter().any(has)
    };
    let legend: String = STAGES
        .iter()
        .enumerate()
        .filter(|(_, (name, _))| used(name))
        .map(|(index, (name, what))| {
            format!("<span><i style=\"background:var(--c{index})\"></i>{name}: {what}</span>")
        })
        .collect();
    let mut page = "<h2>Where the time of a start goes</h2><p class=\"soft\">Means of each stage, which add up to \
                    the mean of the whole, from nothing to the first output of a program. The floor runs none: it \
                    is the bare monitor and the shortest conversation with it.</p><div class=\"card\">"
        .to_owned();
    if !quick.is_empty() {
        page += &plot::waterfall(&quick);
    }
    if !slow.is_empty() {
        page += &plot::waterfall(&slow);
    }
    page + &format!("<div class=\"legend\">{legend}</div></div>")
}

fn distribution(report: &Report) -> String {
    let rows = chosen(report, DISTRIBUTIONS);
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "<h2>Every sample</h2><p class=\"soft\">Each dot is one sample; the bar is the middle half, the line the \
         median, which is also on the right. Starts are to the agent's first answer. The scale is \
         logarithmic.</p><div class=\"card\">{}</div>",
        plot::strips(&rows)
    )
}

fn concurrency(report: &Report) -> String {
    let mut points: Vec<(usize, &Series)> = report
        .record
        .series
        .iter()
        .filter(|series| series.kind.scenario == Scenario::Burst && !series.samples.is_empty())
        .filter_map(|series| {
            let count: usize = series.kind.name.rsplit('_').next()?.parse().ok()?;
            (series.kind.name == burst::name(count)).then_some((count, series))
        })
        .collect();
    points.sort_by_key(|(count, _)| *count);
    if points.len() < 2 {
        return String::new();
    }
    format!(
        "<h2>Many at once</h2><p class=\"soft\">Until the last of them is usable: the median, and up to the \
         slowest. Below the dashed line starting together is faster than one after the other.</p>\
         <div class=\"card\">{}</div>",
        plot::curve(&points)
    )
}

fn instead(report: &Report) -> String {
    let measured: Vec<_> = WAYS.iter().filter_map(|way| Some((way, middle(report, way.output)?))).collect();
    if measured.len() < 2 {
        return String::new();
    }
    let ours = middle(report, "restore_output");
    let longest = measured.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let rows: String = measured
        .iter()
        .map(|(way, value)| {
            let times = ours.map_or_else(|| "–".to_owned(), |ours| format!("{} ×", digits(value / ours)));
            format!(
                "<tr><td><b>{}</b><div class=\"bar\" style=\"width:{:.1}%\"></div></td><td class=\"n\">{} ms</td>\
                 <td class=\"n\">{times}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                way.name,
                100.0 * value / longest,
                digits(*value),
                way.kernel,
                way.surface,
                way.state
            )
        })
        .collect();
    let emulated = if report.host.accelerator == "tcg" {
        " On this machine guest code is emulated, which costs a virtual machine tens of times what it costs a \
         process of the host: the order of the rows is not that of a machine with KVM."
    } else {
        ""
    };
    format!(
        "<h2>What one would pick instead</h2><p class=\"soft\">From nothing to the first output of \
         <code>echo</code>, in the same run and on the same root file system.{emulated}</p><div class=\"card\">\
         <table><tr><th style=\"width:24%\"></th><th class=\"n\">p50</th><th class=\"n\">against a restore</th>\
         <th>kernel</th><th>reach into the host's kernel</th><th>found done</th></tr>{rows}</table></div>"
    )
}

fn figures(report: &Report) -> String {
    let rows: String = report
        .record
        .series
        .iter()
        .map(|series| {
            let summary = Summary::of(&series.values());
            let range = match (summary.min.value(), summary.max.value()) {
                (Some(min), Some(max)) => format!("{} – {}", digits(min), digits(max)),
                _ => "–".to_owned(),
            };
            let middle = summary.p50.value().map_or_else(|| "–".to_owned(), |value| with_unit(value, series.kind.unit));
            format!(
                "<tr><td><code>{}</code><br><span class=\"soft\">{}</span></td><td>{}</td><td class=\"n\">{}</td>\
                 <td class=\"n\">{middle}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">±{}</td>\
                 <td class=\"n\">{range}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
                escape(&series.kind.name),
                prose(&series.kind.what),
                series.kind.cache.label(),
                summary.n,
                figure(&summary.p95),
                figure(&summary.p99),
                figure(&summary.mad),
                summary.outliers,
                series.failures.len()
            )
        })
        .collect();
    format!(
        "<h2>All figures</h2><p class=\"soft\">The spread is the median distance from the median. Outliers lie \
         beyond one and a half times the range of the middle half; they are counted, never removed. A dash is a \
         number that too few samples support.</p><div class=\"card\"><table><tr><th>series</th><th>cache</th>\
         <th class=\"n\">n</th><th class=\"n\">p50</th><th class=\"n\">p95</th><th class=\"n\">p99</th>\
         <th class=\"n\">spread</th><th class=\"n\">range</th><th class=\"n\">outliers</th>\
         <th class=\"n\">failed</th></tr>{rows}</table></div>"
    )
}

fn missing(report: &Report) -> String {
    let mut notes: Vec<String> = report
        .record
        .series
        .iter()
        .flat_map(|series| {
            series.failures.iter().map(|failure| format!("{}: a sample failed: {failure}", series.kind.name))
        })
        .collect();
    notes.extend(report.record.skips.iter().map(|skip| format!("{}: {}", skip.scenario, skip.reason)));
    if notes.is_empty() {
        return String::new();
    }
    let list: String =
        table::gathered(&notes).iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
    format!("<h2>Not measured, and why</h2><div class=\"card\"><ul>{list}</ul></div>")
}

fn machine(report: &Report) -> String {
    let rows: String = report
        .host
        .rows()
        .iter()
        .map(|(name, value)| format!("<tr><th>{name}</th><td>{}</td></tr>", escape(value)))
        .collect();
    format!(
        "<h2>The machine</h2><p class=\"soft\">Compare ratios between machines, never times. {}, \
         <code>report.json</code> beside this page holds every sample.</p><div class=\"card\">\
         <table>{rows}</table></div>",
        escape(&report.tool)
    )
}
