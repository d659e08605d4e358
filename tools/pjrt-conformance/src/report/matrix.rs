//! A table that compares several reports.

use minijinja::context;
use minijinja::value::Serde;
use serde::Serialize;

use crate::outcome::Outcome;
use crate::report::Report;
use crate::report::html::environment;

const PAGE: &str = include_str!("matrix.html");

/// Table of the outcomes of several plugins, or of several versions of one plugin.
#[derive(Clone, Debug, Serialize)]
pub struct Matrix {
    /// Heading for each report.
    columns: Vec<String>,
    /// A summary of each report, such as `5 pass, 1 fail`.
    totals: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    id: String,
    /// Outcome in each report, or `-` if the report does not contain the case.
    outcomes: Vec<&'static str>,
    /// Whether the reports have different outcomes for this case.
    differs: bool,
}

impl Matrix {
    /// Creates a table with one column for each report, and one row for each case that a report contains.
    #[must_use]
    pub fn of(reports: &[Report]) -> Self {
        let heading = |report: &Report| {
            let file = report.plugin.path.rsplit('/').next().filter(|file| !file.is_empty());
            format!("{} {}", file.unwrap_or(&report.plugin.name), report.plugin.api_version)
        };
        let mut ids: Vec<&str> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for result in reports.iter().flat_map(|report| &report.results) {
            if seen.insert(result.id.as_str()) {
                ids.push(&result.id);
            }
        }
        let rows = ids.into_iter().map(|id| {
            let outcomes: Vec<&'static str> =
                reports.iter().map(|report| report.find(id).map_or("-", |result| result.outcome.name())).collect();
            Row { id: id.to_owned(), differs: outcomes.windows(2).any(|pair| pair[0] != pair[1]), outcomes }
        });
        Self {
            columns: reports.iter().map(heading).collect(),
            totals: reports.iter().map(|report| report.totals().words()).collect(),
            rows: rows.collect(),
        }
    }

    /// Lists the cases that fail in any report or whose outcomes differ, one line per case. The first lines contain the
    /// heading and the totals of each report.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (number, (column, totals)) in self.columns.iter().zip(&self.totals).enumerate() {
            text += &format!("{}: {column}: {totals}\n", number + 1);
        }
        let fails = |name: &str| name.parse().is_ok_and(Outcome::is_failure);
        for row in self.rows.iter().filter(|row| row.differs || row.outcomes.iter().any(|name| fails(name))) {
            let cells: String = row.outcomes.iter().map(|outcome| format!("{outcome:<12}")).collect();
            text += &format!("{cells}{}\n", row.id);
        }
        text
    }

    /// Returns the table as a self-contained HTML page.
    ///
    /// # Errors
    ///
    /// Returns an error if the template cannot be rendered, which is a bug in this crate.
    pub fn to_html(&self) -> Result<String, String> {
        environment().render_str(PAGE, context! { matrix => Serde(self) }).map_err(|error| error.to_string())
    }
}
