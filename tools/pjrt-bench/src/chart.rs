//! Draws a report as a chart.

use std::fmt::Write;

use crate::report::{CaseReport, Report, time};

/// Height of a row, in pixels.
const ROW: f64 = 22.0;
/// Width of the column with the names, in pixels.
const NAMES: f64 = 190.0;
/// Width of the column with the bars, in pixels.
const BARS: f64 = 380.0;
/// Width of the column with the times, in pixels.
const TIMES: f64 = 190.0;
/// Height of the area above the first row, in pixels.
const HEAD: f64 = 58.0;
/// The scale shows at least the ratios from the reciprocal of this value to this value.
const WIDEST: f64 = 10.0;

/// Draws an SVG chart of the ratios of the first plugin's execution times to the second plugin's execution times. The
/// scale is logarithmic. A bar to the left of the center means that the first plugin is faster. Returns `None` if the
/// report has fewer than two plugins or no case with a ratio.
///
/// The text uses the color of its surroundings (`currentColor`), so that the chart fits pages with dark backgrounds.
#[must_use]
pub fn chart(report: &Report) -> Option<String> {
    let [first, second, ..] = report.plugins.as_slice() else { return None };
    let rows: Vec<(&CaseReport, f64)> = report.cases.iter().filter_map(|case| Some((case, case.ratio()?))).collect();
    if rows.is_empty() {
        return None;
    }
    let widest = rows.iter().fold(WIDEST, |widest, (_, ratio)| widest.max(*ratio).max(1.0 / ratio));
    let decades = widest.log10().ceil();
    let x = |ratio: f64| NAMES + BARS / 2.0 * (1.0 + ratio.log10() / decades);
    #[expect(clippy::cast_precision_loss, reason = "a number of rows is small")]
    let height = HEAD + ROW * rows.len() as f64 + 10.0;
    let width = NAMES + BARS + TIMES;
    let mut svg = String::new();
    let mut add = |line: std::fmt::Arguments<'_>| {
        let _ = svg.write_fmt(line);
        svg.push('\n');
    };
    add(format_args!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" font-family="sans-serif" font-size="12" fill="currentColor" role="img">"#
    ));
    let title = format!("Execution time of {} divided by that of {}", first.name, second.name);
    add(format_args!(r#"<title>{}</title>"#, escape(&title)));
    add(format_args!(r#"<text x="0" y="16" font-size="14">{}</text>"#, escape(&title)));
    let mut mark = -decades;
    while mark <= decades {
        let (value, at) = (10f64.powf(mark), x(10f64.powf(mark)));
        let dashes = if mark == 0.0 { "" } else { r#" stroke-dasharray="2 3""# };
        add(format_args!(
            r#"<line x1="{at:.1}" y1="{:.1}" x2="{at:.1}" y2="{height}" stroke="currentColor" stroke-opacity="0.5"{dashes}/>"#,
            HEAD - 8.0
        ));
        add(format_args!(r#"<text x="{at:.1}" y="{:.1}" text-anchor="middle">{value}</text>"#, HEAD - 14.0));
        mark += 1.0;
    }
    for (index, (case, ratio)) in rows.iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "a number of rows is small")]
        let top = HEAD + ROW * index as f64;
        add_row(&mut add, case, *ratio, top, &x);
    }
    add(format_args!("</svg>"));
    Some(svg)
}

fn add_row(
    add: &mut impl FnMut(std::fmt::Arguments<'_>),
    case: &CaseReport,
    ratio: f64,
    top: f64,
    x: &impl Fn(f64) -> f64,
) {
    let base = top + 15.0;
    let (left, right) = (x(ratio.min(1.0)), x(ratio.max(1.0)));
    let colour = if ratio <= 1.0 { "#2b8a57" } else { "#c2571a" };
    add(format_args!(r#"<text x="0" y="{base:.1}">{}</text>"#, escape(&case.name)));
    add(format_args!(
        r#"<rect x="{left:.1}" y="{:.1}" width="{:.1}" height="14" fill="{colour}"/>"#,
        top + 4.0,
        (right - left).max(1.0)
    ));
    let times: Vec<String> = case.sides.iter().take(2).map(|side| time(side.execution.median)).collect();
    add(format_args!(
        r#"<text x="{:.1}" y="{base:.1}">{ratio:.2} ({})</text>"#,
        NAMES + BARS + 8.0,
        escape(&times.join(" / "))
    ));
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
