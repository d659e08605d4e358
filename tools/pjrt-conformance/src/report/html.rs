//! Writes a report as a self-contained HTML page.

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, context};
use serde::Serialize;

use crate::outcome::Outcome;
use crate::report::Report;

const PAGE: &str = include_str!("report.html");

/// A row of the page's tables: the number of cases with each outcome in an area or in a profile.
#[derive(Serialize)]
struct Row {
    name: String,
    counts: Vec<usize>,
    all: usize,
}

/// Creates the template environment, which escapes all values for HTML.
pub(super) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment
}

/// Writes a report as an HTML page. The page needs no other files and no network.
///
/// # Errors
///
/// Returns an error if the template cannot be rendered, which is a bug in this crate.
pub fn to_html(report: &Report) -> Result<String, String> {
    let counts = |totals: &crate::report::Totals| Outcome::ALL.iter().map(|outcome| totals.of(*outcome)).collect();
    let areas: Vec<Row> = report
        .areas()
        .into_iter()
        .map(|(name, totals)| Row { name, counts: counts(&totals), all: totals.all() })
        .collect();
    let profiles: Vec<Row> = report
        .profiles()
        .into_iter()
        .map(|summary| Row {
            name: summary.profile.to_owned(),
            counts: counts(&summary.totals),
            all: summary.totals.all(),
        })
        .collect();
    let outcomes: Vec<&str> = Outcome::ALL.iter().map(|outcome| outcome.name()).collect();
    let environment = environment();
    let page = context! {
        report => Serde(report),
        areas => Serde(&areas),
        profiles => Serde(&profiles),
        outcomes => Serde(&outcomes),
        totals => report.totals().words(),
    };
    environment.render_str(PAGE, page).map_err(|error| error.to_string())
}
