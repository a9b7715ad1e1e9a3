//! `report.html`: the text of `report.md` with plots before it, on one page that needs nothing else.

use anyhow::Result;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, html};

use super::{Report, markdown, plot};
use crate::record::Series;
use crate::scenario::{Scenario, crowd};

/// The page's look.
const STYLE: &str = include_str!("page.css");

/// Starts that are drawn, from below, by the series that goes all the way to the first output.
const STARTS: &[&str] = &[
    "floor_usable",
    "restore_prespawned_output",
    "claim_parked_output",
    "restore_output",
    "restore_cold_output",
    "restore_python",
];
/// The same of starts that are so much longer that nothing else could be read beside them.
const BOOTS: &[&str] = &["cold_boot_output", "cold_boot_python"];

/// Series whose samples are drawn, from below.
const DISTRIBUTIONS: &[&str] = &[
    "bubblewrap_output",
    "container_output",
    "floor",
    "restore_prespawned",
    "claim_parked",
    "restore",
    "restore_cold",
    "cold_boot",
    "first_python",
    "first_python_plain",
    "python_data",
    "python_data_plain",
    "first_node",
    "first_node_plain",
    "exec_roundtrip",
    "ping",
];

/// The whole page.
///
/// # Errors
/// When a plot cannot be drawn.
pub fn render(report: &Report) -> Result<String> {
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>Rekindle, measured</title><style>{STYLE}</style></head><body>"
    );
    for starts in [STARTS, BOOTS] {
        page += &plot::waterfall(
            "Where the time of a start goes: the mean of each stage, in ms",
            &chosen(report, starts),
        )?;
    }
    page += &plot::boxes(
        "Every sample, in ms: the middle half, the median, and the reach of the rest",
        &chosen(report, DISTRIBUTIONS),
    )?;
    page += &plot::curve("Starts at once, in ms until the last of them is usable", &bursts(report))?;
    // What a guest said is in the text: it is shown, and never part of the page.
    let text = markdown::render(report);
    let harmless = Parser::new_ext(&text, Options::ENABLE_TABLES).filter_map(|event| match event {
        Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
        Event::Start(Tag::Link { .. } | Tag::Image { .. }) | Event::End(TagEnd::Link | TagEnd::Image) => None,
        other => Some(other),
    });
    html::push_html(&mut page, harmless);
    Ok(page + "</body></html>\n")
}

fn chosen<'a>(report: &'a Report, names: &[&str]) -> Vec<&'a Series> {
    let found = names.iter().filter_map(|name| report.record.find(name));
    found.filter(|series| !series.samples.is_empty()).collect()
}

/// Series of many at once, by how many.
fn bursts(report: &Report) -> Vec<(usize, &Series)> {
    let of = |series: &Series| -> Option<usize> {
        let count = series.kind.name.rsplit('_').next()?.parse().ok()?;
        (series.kind.name == crowd::name(count) && !series.samples.is_empty()).then_some(count)
    };
    let all = report.record.series.iter().filter(|series| series.kind.scenario == Scenario::Burst);
    let mut points: Vec<_> = all.filter_map(|series| Some((of(series)?, series))).collect();
    points.sort_by_key(|(count, _)| *count);
    points
}
