//! Plots as inline SVG: where the time of a start goes, how samples are distributed, and what happens when many start
//! at once. A library draws them; one without anything to show is empty.

use anyhow::Result;
use plotters::coord::Shift;
use plotters::coord::ranged1d::SegmentValue;
use plotters::prelude::*;

use super::number::digits;
use crate::record::{Series, Stage};
use crate::stats::Summary;

const WIDTH: u32 = 960;
/// The height of a row with a name, of what is around all of them, and of a plot without rows.
const ROW: u32 = 34;
const AROUND: u32 = 90;
const HEIGHT: u32 = 380;
/// Room for names beside the rows.
const NAMES: u32 = 210;
const ACCENT: RGBColor = RGBColor(194, 65, 12);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn drawn(height: u32, draw: impl FnOnce(&Area<'_>) -> Result<()>) -> Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        area.fill(&WHITE)?;
        draw(&area)?;
        area.present()?;
    }
    Ok(svg)
}

/// The name of a row by its number.
fn name_of(row: &SegmentValue<usize>, rows: &[&Series]) -> String {
    match row {
        SegmentValue::CenterOf(row) => {
            rows.get(*row).map_or_else(String::new, |series| series.kind.name.clone())
        }
        _ => String::new(),
    }
}

/// The mean of each stage, side by side, which add up to the mean of the whole.
///
/// # Errors
/// When it cannot be drawn.
pub fn waterfall(title: &str, rows: &[&Series]) -> Result<String> {
    let stages: Vec<Vec<Stage>> = rows.iter().map(|series| series.stage_means()).collect();
    let mut names: Vec<&str> = Vec::new();
    for stage in stages.iter().flatten().filter(|stage| stage.millis > 0.0) {
        if !names.contains(&stage.name.as_str()) {
            names.push(&stage.name);
        }
    }
    let total = |stages: &Vec<Stage>| stages.iter().map(|stage| stage.millis).sum::<f64>();
    let longest = stages.iter().map(total).fold(0.0, f64::max);
    if longest <= 0.0 {
        return Ok(String::new());
    }
    // The legend stands below the rows.
    let height = ROW * (rows.len() + names.len().div_ceil(2)) as u32 + AROUND;
    drawn(height, |area| {
        let mut chart = ChartBuilder::on(area)
            .caption(title, ("sans-serif", 18))
            .set_label_area_size(LabelAreaPosition::Left, NAMES)
            .set_label_area_size(LabelAreaPosition::Bottom, 30)
            .margin(12)
            .build_cartesian_2d(0.0..longest * 1.2, (0..rows.len() - 1).into_segmented())?;
        let labels = |row: &SegmentValue<usize>| name_of(row, rows);
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(TRANSPARENT)
            .y_labels(rows.len())
            .y_label_formatter(&labels)
            .draw()?;
        for (index, name) in names.iter().enumerate() {
            let colour = Palette99::pick(index).to_rgba();
            let bars = stages.iter().enumerate().filter_map(|(row, stages)| {
                let at = stages.iter().position(|stage| stage.name == *name)?;
                let before: f64 = stages[..at].iter().map(|stage| stage.millis).sum();
                let corner = (before + stages[at].millis, SegmentValue::Exact(row + 1));
                let mut bar = Rectangle::new([(before, SegmentValue::Exact(row)), corner], colour.filled());
                bar.set_margin(5, 5, 0, 0);
                Some(bar)
            });
            chart
                .draw_series(bars)?
                .label(*name)
                .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled()));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::MiddleRight)
            .border_style(BLACK)
            .draw()?;
        Ok(())
    })
}

/// The middle half of all samples of each, on a scale where twice as long is always the same step.
///
/// # Errors
/// When it cannot be drawn.
pub fn boxes(title: &str, rows: &[&Series]) -> Result<String> {
    let all = || rows.iter().flat_map(|series| series.values());
    let (low, high) = (all().fold(f64::MAX, f64::min).max(1e-3), all().fold(0.0, f64::max));
    if high <= 0.0 {
        return Ok(String::new());
    }
    let scale = ((low / 1.2) as f32..(high * 1.2) as f32).log_scale();
    drawn(ROW * rows.len() as u32 + AROUND, |area| {
        let mut chart = ChartBuilder::on(area)
            .caption(title, ("sans-serif", 18))
            .set_label_area_size(LabelAreaPosition::Left, NAMES)
            .set_label_area_size(LabelAreaPosition::Bottom, 30)
            .margin(12)
            .build_cartesian_2d(scale, (0..rows.len() - 1).into_segmented())?;
        let labels = |row: &SegmentValue<usize>| name_of(row, rows);
        let times = |millis: &f32| digits(f64::from(*millis));
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(TRANSPARENT)
            .y_labels(rows.len())
            .y_label_formatter(&labels)
            .x_label_formatter(&times)
            .draw()?;
        chart.draw_series(rows.iter().enumerate().map(|(row, series)| {
            let quartiles = Quartiles::new(&series.values());
            Boxplot::new_horizontal(SegmentValue::CenterOf(row), &quartiles).width(16).style(ACCENT)
        }))?;
        chart.draw_series(rows.iter().enumerate().flat_map(|(row, series)| {
            let at = move |value: f64| (value.max(1e-3) as f32, SegmentValue::CenterOf(row));
            series.values().into_iter().map(move |value| Circle::new(at(value), 2, ACCENT.mix(0.4).filled()))
        }))?;
        Ok(())
    })
}

/// How long until all of so many are usable, up to the slowest, against as many one after the other.
///
/// # Errors
/// When it cannot be drawn.
pub fn curve(title: &str, points: &[(usize, &Series)]) -> Result<String> {
    let medians: Vec<(f64, Summary)> =
        points.iter().map(|(count, series)| (*count as f64, Summary::of(&series.values()))).collect();
    let known = medians
        .iter()
        .filter_map(|(count, summary)| Some((*count, summary.p50.value()?, summary.max.value()?)));
    let known: Vec<(f64, f64, f64)> = known.collect();
    let [first, .., last] = known[..] else { return Ok(String::new()) };
    let one_by_one = |count: f64| first.1 / first.0 * count;
    let most = known.iter().map(|point| point.2).fold(one_by_one(last.0), f64::max) * 1.05;
    drawn(HEIGHT, |area| {
        let mut chart = ChartBuilder::on(area)
            .caption(title, ("sans-serif", 18))
            .set_label_area_size(LabelAreaPosition::Left, 70)
            .set_label_area_size(LabelAreaPosition::Bottom, 40)
            .margin(12)
            .build_cartesian_2d(0.0..last.0 + 1.0, 0.0..most)?;
        chart.configure_mesh().light_line_style(TRANSPARENT).x_desc("starts at once").draw()?;
        let serial = [first.0, last.0].map(|count| (count, one_by_one(count)));
        chart
            .draw_series(LineSeries::new(serial, BLACK.mix(0.5)))?
            .label("one after the other")
            .legend(|(x, y)| PathElement::new([(x, y), (x + 12, y)], BLACK.mix(0.5)));
        chart
            .draw_series(LineSeries::new(
                known.iter().map(|point| (point.0, point.1)),
                ACCENT.stroke_width(2),
            ))?
            .label("at once")
            .legend(|(x, y)| PathElement::new([(x, y), (x + 12, y)], ACCENT.stroke_width(2)));
        chart.draw_series(known.iter().map(|(count, middle, worst)| {
            ErrorBar::new_vertical(*count, *middle, *middle, *worst, ACCENT.filled(), 8)
        }))?;
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .border_style(BLACK)
            .draw()?;
        Ok(())
    })
}
