//! Runs the conformance suite and writes the reports.

use std::time::Duration;

use anstyle::Style;
use pjrt_conformance::runner::{Launcher, Settings, Update, run as run_suite};
use pjrt_conformance::{CaseResult, Outcome, PluginInfo, Report as Outcomes, Suite, html, junit};

use super::args::{Args, write};
use super::worker::{GUARD, target};
use crate::Report;
use crate::full::child::plan;
use crate::full::progress::Progress;
use crate::library;
use crate::paint::{Meaning, paint};
use crate::table::{Table, cut};

/// Maximum number of characters of one text in the terminal. Longer texts are truncated.
const LONGEST: usize = 300;

pub(super) fn run(args: &Args, suite: &Suite, ids: &[String]) -> Result<Report, String> {
    let name = args.plugin.as_deref().unwrap_or_default();
    let entry = library::find(name)?;
    let expectations = args.expectations()?;
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let launcher = Launcher {
        program,
        arguments: vec![GUARD.into()],
        variables: plan(&entry)?.for_child().map(|(name, value)| (name.into(), value.into())).collect(),
        target: target(&entry, &args.options)?,
    };
    let mut settings = Settings::default();
    settings.jobs = args.jobs.map_or(settings.jobs, usize::from);
    settings.time_limit = args.timeout;
    settings.seed = args.seed;
    settings.stress = args.stress.unwrap_or_default();
    settings.repeats = args.repeats;
    settings.fail_fast = args.fail_fast;
    settings.filter.clone_from(&args.filter);
    settings.profile = args.profile.map(|profile| profile.name().to_owned());
    settings.options.clone_from(&args.options);
    settings.earlier = args.resume.as_deref().map(Outcomes::read).transpose()?;
    let options: String = args.options.iter().map(|option| format!(" --option '{option}'")).collect();
    settings.reproduce = format!("pjrt conform '{name}'{options} --filter");
    let mut plugin = PluginInfo::default();
    name.clone_into(&mut plugin.name);
    plugin.path = entry.candidate().location.path().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
    let progress = Progress::of(ids.len());
    let report = run_suite(&launcher, suite, ids, plugin, &settings, &expectations, &|update| match update {
        Update::Result(result) => progress.step(result.id.clone()),
        Update::Partial(partial) => {
            if let Some(path) = &args.report {
                // Ignore an error here. If the error persists, writing the final report returns it.
                let _ = partial.write(path);
            }
        }
        _ => {}
    })?;
    drop(progress);
    if let Some(path) = &args.report {
        report.write(path)?;
    }
    if let Some(path) = &args.junit {
        write(path, &junit::to_xml(&report)?)?;
    }
    if let Some(path) = &args.html {
        write(path, &html::to_html(&report)?)?;
    }
    if args.update_expectations
        && let Some(path) = args.expectations.last()
    {
        let last = if path.exists() { pjrt_conformance::Expectations::read(path)? } else { Default::default() };
        write(path, &last.updated(&report).to_toml()?)?;
    }
    let code = u8::from(report.is_failure());
    if args.json { Ok(Report::new(report.to_json()?, code)) } else { Ok(Report::painted(text(&report), code)) }
}

/// Formats the report for the terminal: unexpected outcomes and faults, then counts.
fn text(report: &Outcomes) -> String {
    let mut out = String::new();
    for result in report.results.iter().filter(|result| !result.expected) {
        failure(&mut out, result);
    }
    for fault in &report.faults {
        line!(out, "{} {}", paint(Meaning::Bad, "FAULT"), crate::escape::one_line(fault));
    }
    let mut table = Table::new(["AREA", "CASES", "PASS", "FAIL", "CRASH", "TIMEOUT", "UNSUPPORTED", "SKIPPED"]);
    for (area, totals) in report.areas() {
        let count = |outcome| totals.of(outcome).to_string();
        table.row([
            area,
            totals.all().to_string(),
            count(Outcome::Pass),
            count(Outcome::Fail),
            count(Outcome::Crash),
            count(Outcome::Timeout),
            count(Outcome::Unsupported),
            count(Outcome::Skipped),
        ]);
    }
    out.push_str(&table.text(""));
    let mut profiles = Table::new(["PROFILE", "CASES", "PASS", "MISSING"]);
    for summary in report.profiles() {
        let (all, pass) = (summary.totals.all(), summary.totals.of(Outcome::Pass));
        profiles.row([
            summary.profile.to_owned(),
            all.to_string(),
            pass.to_string(),
            summary.missing.len().to_string(),
        ]);
    }
    out.push('\n');
    out.push_str(&profiles.text(""));
    let plugin = &report.plugin;
    let explained = report.results.iter().filter(|result| result.expected && result.outcome.is_failure()).count();
    let unexpected = report.results.iter().filter(|result| !result.expected).count();
    line!(
        out,
        "\n{}: {} in {:.1?}; {unexpected} unexpected, {explained} explained by expectations",
        crate::escape::one_line(&format!("{} (API {}, {})", plugin.name, plugin.api_version, plugin.platform_name)),
        report.totals().words(),
        Duration::from_secs_f64(report.run.seconds.max(0.0))
    );
    out
}

fn failure(out: &mut String, result: &CaseResult) {
    let bold = Style::new().bold();
    let shown = |text: &str| cut(&crate::escape::one_line(text), LONGEST);
    let outcome = if result.flaky { format!("{} (flaky)", result.outcome) } else { result.outcome.to_string() };
    line!(out, "{} {bold}{}{bold:#}", paint(Meaning::Bad, &outcome.to_uppercase()), shown(&result.id));
    if !result.reason.is_empty() {
        line!(out, "  {}", shown(&result.reason));
    }
    if !result.explanation.is_empty() {
        line!(out, "  expected: {}", shown(&result.explanation));
    }
    if !result.clause.is_empty() {
        line!(out, "  clause: {}", shown(&result.clause));
        line!(out, "  why: {}", shown(&result.why));
    }
    for line in &result.output {
        line!(out, "  | {}", shown(line));
    }
    line!(out, "  run: {}\n", shown(&result.reproduce));
}
