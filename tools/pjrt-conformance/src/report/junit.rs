//! Reports as JUnit XML, which continuous integration systems read.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report as Junit, TestCase, TestCaseStatus, TestRerun, TestSuite};

use crate::outcome::Outcome;
use crate::report::{CaseResult, Report};

/// Writes a report as JUnit XML. Each area is a test suite. A case with an expected outcome other than `pass` is a
/// skipped test. A case with an unexpected outcome is a test with an error (`crash` and `timeout`) or a failure.
///
/// # Errors
///
/// Returns an error if XML cannot represent a string of the report.
pub fn to_xml(report: &Report) -> Result<String, String> {
    let mut junit = Junit::new(format!("pjrt-conformance {}", report.plugin.name));
    junit.set_time(seconds(report.run.seconds));
    for (area, _) in report.areas() {
        let mut suite = TestSuite::new(area.clone());
        let prefix = format!("{area}.");
        for result in report.results.iter().filter(|result| result.id.starts_with(&prefix)) {
            suite.add_test_case(case(result));
        }
        junit.add_test_suite(suite);
    }
    junit.to_string().map_err(|error| error.to_string())
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

fn case(result: &CaseResult) -> TestCase {
    let text = format!("{}\nclause: {}\nwhy: {}\nrun: {}", result.reason, result.clause, result.why, result.reproduce);
    let status = if !result.expected {
        let kind = match result.outcome {
            Outcome::Crash | Outcome::Timeout => NonSuccessKind::Error,
            _ => NonSuccessKind::Failure,
        };
        let mut status = TestCaseStatus::non_success(kind);
        status.set_message(format!("{}: {}", result.outcome, result.reason)).set_description(text);
        for attempt in &result.attempts {
            let mut rerun = TestRerun::new(kind);
            rerun.set_message(format!("{}: {}", attempt.outcome, attempt.reason));
            status.add_rerun(rerun);
        }
        status
    } else if result.outcome == Outcome::Pass {
        TestCaseStatus::success()
    } else {
        let mut status = TestCaseStatus::skipped();
        let explanation = if result.explanation.is_empty() { &result.reason } else { &result.explanation };
        status.set_message(format!("{}: {explanation}", result.outcome));
        status
    };
    let mut case = TestCase::new(result.id.clone(), status);
    case.set_time(seconds(result.ms / 1e3));
    if !result.output.is_empty() {
        case.set_system_err(result.output.join("\n"));
    }
    case
}
