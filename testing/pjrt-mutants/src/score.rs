//! Runs the suite against the mutants, and prints the score.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use pjrt_conformance::runner::{Launcher, Settings, run as run_suite};
use pjrt_conformance::{Expectations, Filter, PluginInfo, Report, Suite};
use serde_json::Value;

use crate::GUARD;
use crate::mutant::Mutant;
use crate::mutants::all;

/// Minimum percentage of mutants that the suite must find.
const LEAST: usize = 95;
/// Number of processes that run the cases on the device without a fault.
const JOBS: usize = 2;
/// Number of mutants that run at the same time. Many of them only wait for a time limit.
const MUTANTS: usize = 4;
/// Time limit of a case. The cases of the device without a fault take at most a few seconds each.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Maximum number of characters of a failure's reason in the output.
const LONGEST: usize = 160;

const USAGE: &str = "usage: cargo xtask mutants [OPTION]... [NAME]...

Runs the conformance suite against the mutants whose name contains NAME, or against all.

  --list             list the mutants with the clauses that they break
  --good             run only the device without a fault
  --filter PATTERN   run only the cases that match, as in `pjrt conform`; can be given several times
  --own-area         run only the cases of the area of each mutant
  --all-cases        do not stop at the first failure of a mutant, and show all failures
";

/// The command-line options.
#[derive(Default)]
struct Options {
    names: Vec<String>,
    filter: Vec<String>,
    list: bool,
    good: bool,
    own_area: bool,
    all_cases: bool,
}

impl Options {
    fn parse(arguments: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match *argument {
                "--list" => options.list = true,
                "--good" => options.good = true,
                "--own-area" => options.own_area = true,
                "--all-cases" => options.all_cases = true,
                "--filter" => options.filter.push((*arguments.next().ok_or(USAGE)?).to_owned()),
                option if option.starts_with('-') => return Err(USAGE.to_owned()),
                name => options.names.push(name.to_owned()),
            }
        }
        Ok(options)
    }
}

/// Runs the command. Returns whether the score is high enough and no case fails on the device without a fault. Ignores
/// the score if only some mutants or cases run.
pub(crate) fn run(arguments: &[&str]) -> Result<bool, String> {
    let options = Options::parse(arguments)?;
    let chosen = |mutant: &Mutant| {
        options.names.is_empty() || options.names.iter().any(|name| mutant.name.contains(name.as_str()))
    };
    let mutants: Vec<Mutant> = all().into_iter().filter(chosen).collect();
    if mutants.is_empty() {
        return Err("no mutant has such a name; `cargo xtask mutants --list` lists the mutants".to_owned());
    }
    if options.list {
        for mutant in &mutants {
            println!("{}\n  {}", mutant.name, mutant.clause);
        }
        return Ok(true);
    }
    let bench = Bench::new(&options)?;
    let start = Instant::now();
    let mut good = true;
    if options.names.is_empty() && !options.own_area {
        good = bench.good()?;
    }
    if options.good {
        return Ok(good);
    }
    let outcomes = bench.all(&mutants)?;
    let enough = summary(&mutants, &outcomes, start.elapsed());
    // The score of only some mutants or cases is not meaningful, so it does not fail the command.
    Ok(good && (enough || !options.names.is_empty() || !options.filter.is_empty() || options.own_area))
}

/// The first case that failed for a mutant, and the reason. `None` if no case failed.
type Found = Option<(String, String)>;

/// The suite, and the settings of its runs.
struct Bench {
    suite: Suite,
    filter: Filter,
    own_area: bool,
    all_cases: bool,
    launcher: Launcher,
}

impl Bench {
    fn new(options: &Options) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        Ok(Self {
            suite: Suite::new(),
            filter: Filter::new(&options.filter),
            own_area: options.own_area,
            all_cases: options.all_cases,
            launcher: Launcher { program, arguments: vec![GUARD.into()], variables: Vec::new(), target: Value::Null },
        })
    }

    /// Returns the ids of the selected cases in the areas for which `in_area` returns `true`.
    fn ids(&self, in_area: impl Fn(&str) -> bool) -> Vec<String> {
        let cases = self.suite.cases().iter().filter(|case| in_area(case.area()) && self.filter.matches(case.id()));
        cases.map(|case| case.id().to_owned()).collect()
    }

    fn report(&self, target: Value, ids: &[String], jobs: usize, fail_fast: bool) -> Result<Report, String> {
        let mut settings = Settings::default();
        settings.jobs = jobs;
        settings.time_limit = TIME_LIMIT;
        settings.repeats = 0;
        settings.fail_fast = fail_fast;
        let launcher = Launcher { target, ..self.launcher.clone() };
        run_suite(&launcher, &self.suite, ids, PluginInfo::default(), &settings, &Expectations::default(), &|_| ())
    }

    /// Runs all selected cases on the device without a fault. Returns whether no case failed.
    fn good(&self) -> Result<bool, String> {
        let report = self.report(Value::Null, &self.ids(|_| true), JOBS, false)?;
        for (id, reason) in failures(&report) {
            println!("FALSE ALARM  {id}: {reason}");
        }
        println!("device without a fault: {} in {:.0} s", report.totals().words(), report.run.seconds);
        Ok(!report.is_failure())
    }

    /// Runs the suite against each mutant. Returns the results in the order of the mutants.
    fn all(&self, mutants: &[Mutant]) -> Result<Vec<Found>, String> {
        let left: Mutex<VecDeque<usize>> = Mutex::new((0..mutants.len()).collect());
        let outcomes: Mutex<BTreeMap<usize, Found>> = Mutex::default();
        let work = |worker: usize| -> Result<(), String> {
            loop {
                // The mutants at the end of the list take the longest, because they leak or their processes do not end.
                // Only worker 0 starts at the end, so that mutants with leaks rarely run at the same time.
                let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
                let next = if worker == 0 { left.pop_back() } else { left.pop_front() };
                drop(left);
                let Some(at) = next else { return Ok(()) };
                let mutant = &mutants[at];
                let start = Instant::now();
                let found = self.mutant(mutant)?;
                let seconds = start.elapsed().as_secs_f64();
                match &found {
                    Some((id, reason)) => println!("caught    {seconds:5.1} s  {}  by {id}: {reason}", mutant.name),
                    None => println!("SURVIVED  {seconds:5.1} s  {}", mutant.name),
                }
                outcomes.lock().unwrap_or_else(PoisonError::into_inner).insert(at, found);
            }
        };
        let work = &work;
        let results: Vec<Result<(), String>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..MUTANTS).map(|worker| scope.spawn(move || work(worker))).collect();
            let panicked = || Err("a thread panicked".to_owned());
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| panicked())).collect()
        });
        results.into_iter().collect::<Result<(), String>>()?;
        Ok(outcomes.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect())
    }

    /// Runs the cases of the mutant's area. If none of them fails and `own_area` is not set, also runs all other cases.
    /// Returns the first failure, or `None` if no case failed.
    fn mutant(&self, mutant: &Mutant) -> Result<Found, String> {
        let area = mutant.area();
        let others = if self.own_area { Vec::new() } else { self.ids(|found| found != area) };
        for ids in [self.ids(|found| found == area), others] {
            let report = self.report(Value::from(mutant.name), &ids, 1, !self.all_cases)?;
            let failures = failures(&report);
            if self.all_cases {
                for (id, reason) in &failures {
                    println!("  {}  {id}: {reason}", mutant.name);
                }
            }
            if let Some(first) = failures.into_iter().next() {
                return Ok(Some(first));
            }
        }
        Ok(None)
    }
}

/// Returns the failures in a report, each with its reason.
fn failures(report: &Report) -> Vec<(String, String)> {
    let short = |text: &str| -> String { text.replace('\n', " ").chars().take(LONGEST).collect() };
    let failed = report.results.iter().filter(|result| !result.expected);
    let failed = failed.map(|result| (result.id.clone(), short(&format!("{}: {}", result.outcome, result.reason))));
    failed.chain(report.faults.iter().map(|fault| ("the run".to_owned(), short(fault)))).collect()
}

/// Prints the score by area, and the mutants that the suite did not find. Returns whether the score is high enough.
fn summary(mutants: &[Mutant], outcomes: &[Found], time: Duration) -> bool {
    let mut areas: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (mutant, found) in mutants.iter().zip(outcomes) {
        let area = areas.entry(mutant.area()).or_default();
        area.0 += 1;
        area.1 += usize::from(found.is_some());
    }
    println!("\n{:<14} {:>7} {:>7}", "AREA", "MUTANTS", "CAUGHT");
    for (area, (count, caught)) in &areas {
        println!("{area:<14} {count:>7} {caught:>7}");
    }
    for (mutant, _) in mutants.iter().zip(outcomes).filter(|(_, found)| found.is_none()) {
        println!("\nsurvivor {}\n  breaks: {}", mutant.name, mutant.clause);
    }
    let caught = outcomes.iter().filter(|found| found.is_some()).count();
    let score =
        100.0 * f64::from(u32::try_from(caught).unwrap_or(0)) / f64::from(u32::try_from(outcomes.len()).unwrap_or(1));
    println!("\nmutation score: {caught} of {} mutants, {score:.1} %, in {:.0} s", outcomes.len(), time.as_secs_f64());
    let enough = caught * 100 >= LEAST * outcomes.len();
    if !enough {
        println!("the suite must find {LEAST} %: add a case for each survivor");
    }
    enough
}
