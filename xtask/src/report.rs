//! The outcomes of tests, and the messages about those that failed or did not run.

use crate::{Error, jax, sh};

/// Counts of passed and failed tests, and messages about skipped, failed and left out ones.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: Vec<String>,
    pub(crate) left_out: Vec<&'static (Scope, &'static str)>,
    pub(crate) broken: Vec<String>,
    /// Errors of failed tests: the outputs of Rust tests without the frames of backtraces, pytest's errors, and the
    /// names of failed checks that count as tests.
    pub(crate) failures: Vec<String>,
    part: Part,
}

/// The section of a test program's output to which the current line belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// The names of the tests and their results.
    #[default]
    Tests,
    /// The output of the tests that passed.
    Successes,
    /// The output of the tests that failed.
    Failures,
}

/// The tests that run. Each scope contains the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// What needs only Rust and a C compiler, in the debug profile.
    Rust,
    /// What a change must pass, with the real plugins and JAX.
    All,
    /// What takes long and seldom finds a fault.
    Thorough,
}

impl Report {
    /// Adds the counts and messages of another report.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped.extend(other.skipped);
        self.broken.extend(other.broken);
        self.failures.extend(other.failures);
    }

    /// Returns a prerequisite of a step if it is available. Otherwise, adds a line to the list of skipped checks.
    pub(crate) fn part<T>(&mut self, name: &str, part: Result<T, Error>) -> Option<T> {
        part.map_err(|error| {
            let reason = sh::reason(&error);
            eprintln!("SKIPPED {name}: {reason}");
            self.skipped.push(format!("{name}: {reason}"));
        })
        .ok()
    }

    /// Records that a step failed, if `outcome` is an error.
    pub(crate) fn check(&mut self, name: &str, outcome: Result<(), Error>) {
        if let Err(error) = outcome {
            eprintln!("{error}");
            self.broken.push(name.to_owned());
        }
    }

    /// Counts the outcome of a check as a test.
    pub(crate) fn count(&mut self, name: &str, outcome: Result<(), Error>) {
        match outcome {
            Ok(()) => self.passed += 1,
            Err(error) => {
                eprintln!("{error}");
                self.failed += 1;
                self.failures.push(name.to_owned());
            }
        }
    }

    /// Prints and records a skipped check.
    pub(crate) fn skip(&mut self, what: String) {
        println!("SKIPPED {what}");
        self.skipped.push(what);
    }

    /// Counts the tests in `test result: ok. 3 passed; 0 failed; …`, records the check in `SKIPPED …`, and stores the
    /// output of failed tests. Returns whether to show the line. Passing tests print thousands of lines, but only the
    /// lines about skipped checks matter.
    pub(crate) fn cargo_line(&mut self, line: &str) -> bool {
        match line {
            "failures:" => self.part = Part::Failures,
            "successes:" => self.part = Part::Successes,
            _ if is_result(line) => self.part = Part::Tests,
            _ if self.part == Part::Failures && !is_frame(line) => self.failures.push(line.to_owned()),
            _ => {}
        }
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.passed += sh::number_before(counts, " passed");
            self.failed += sh::number_before(counts, " failed");
        } else if let Some(what) = line.strip_prefix("SKIPPED ") {
            self.skipped.push(what.to_owned());
            return true;
        }
        self.part != Part::Successes && !line.is_empty() && !(line.starts_with("test ") && line.ends_with(" ... ok"))
    }

    /// Counts the tests in pytest's last line, such as `5 passed, 1 skipped in 3.21s`. Records skipped and failed
    /// tests.
    pub(crate) fn pytest_line(&mut self, line: &str) {
        if let Some(counts) = jax::Counts::of(line) {
            self.passed += counts.passed;
            self.failed += counts.failed;
        } else if line.starts_with("SKIPPED ") {
            self.skipped.push(line.to_owned());
        } else if jax::is_failure(line) {
            self.failures.push(line.to_owned());
        }
    }

    /// Prints the skipped and the left out checks, the errors of failed tests, and the counts. Returns an error if a
    /// test or a step failed.
    pub(crate) fn close(&self) -> Result<(), Error> {
        println!();
        for skipped in &self.skipped {
            println!("skipped: {skipped}");
        }
        for (scope, left_out) in &self.left_out {
            let option = if *scope == Scope::All { "--all" } else { "--thorough" };
            println!("left to `cargo xtask test {option}`: {left_out}");
        }
        // The output of all tests fills thousands of lines, so repeat the errors here.
        for line in self.failures.iter().filter(|line| !line.trim().is_empty()) {
            println!("failed: {line}");
        }
        let Self { passed, failed, skipped, left_out, .. } = self;
        println!("{passed} passed, {failed} failed, {} skipped, {} left out", skipped.len(), left_out.len());
        self.verdict()
    }

    fn verdict(&self) -> Result<(), Error> {
        if self.failed == 0 && self.broken.is_empty() {
            return Ok(());
        }
        Err(format!("{} failed", if self.broken.is_empty() { "tests".to_owned() } else { self.broken.join(", ") })
            .into())
    }
}

/// Returns whether a line is the last one in the output of a test program.
pub(crate) fn is_result(line: &str) -> bool {
    line.starts_with("test result: ")
}

/// Returns whether a line belongs to a backtrace, such as `12: core::panicking::panic_fmt` or `at src/lib.rs:3:5`.
/// Ignores the indentation.
fn is_frame(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("at ") || line.split_once(": ").is_some_and(|(number, _)| number.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted() {
        let mut report = Report::default();
        report.cargo_line("test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out");
        assert!(report.cargo_line("SKIPPED layout: no headers"));
        report.pytest_line("1 failed, 7 passed in 3.21s");
        report.pytest_line("E   assert 3 < 2");
        report.pytest_line("FAILED tests/jax/test_ops.py::test_add");
        report.pytest_line("tests/jax/test_ops.py:12: AssertionError");
        assert_eq!((report.passed, report.failed), (19, 4));
        assert_eq!(report.skipped, ["layout: no headers"]);
        assert_eq!(report.failures, ["E   assert 3 < 2", "FAILED tests/jax/test_ops.py::test_add"]);
        assert!(report.verdict().is_err());
        assert!(Report::default().verdict().is_ok());
    }

    #[test]
    fn passing_tests_show_only_what_they_skip() {
        let output = "running 2 tests\ntest a ... ok\ntest b ... ok\n\nsuccesses:\n\n---- a stdout ----\nfine\n\
                      SKIPPED c: no headers\n\nsuccesses:\n    a\n    b\n\ntest result: ok. 2 passed; 0 failed; 0 ignored";
        let mut report = Report::default();
        let shown: Vec<&str> = output.lines().filter(|line| report.cargo_line(line)).collect();
        let result = "test result: ok. 2 passed; 0 failed; 0 ignored";
        assert_eq!(shown, ["running 2 tests", "SKIPPED c: no headers", result]);
    }

    #[test]
    fn failed_output_without_frames() {
        let output = "successes:\n---- a stdout ----\nfine\nfailures:\n---- b stdout ----\nthread 'b' panicked\n  \
                      12: core::panic\n         at src/lib.rs:3:5\nfailures:\n    b\ntest result: FAILED. 1 passed; 1 \
                      failed; 0 ignored\nother";
        let mut report = Report::default();
        let shown: Vec<&str> = output.lines().filter(|line| report.cargo_line(line)).collect();
        assert_eq!(shown[..2], ["failures:", "---- b stdout ----"]);
        assert_eq!(shown.last(), Some(&"other"));
        assert_eq!(report.failures, ["---- b stdout ----", "thread 'b' panicked", "    b"]);
        assert_eq!((report.passed, report.failed), (1, 1));
    }
}
