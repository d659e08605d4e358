//! The arguments of `pjrt conform`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pjrt_conformance::{Expectations, Filter, Profile, Suite};

use crate::full::time_limit::duration;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  pjrt conform libacme.so                              run all cases
  pjrt conform libacme.so --profile jax --jobs 4       run the cases that JAX depends on
  pjrt conform libacme.so --filter 'events.*'          run one area
  pjrt conform libacme.so --report report.json --html report.html
  pjrt conform --list --filter data
  pjrt conform --diff old.json new.json

The exit code is 1 if a case fails unexpectedly, and 2 if the suite cannot run.")]
pub(crate) struct Args {
    /// `cpu` for the embedded device, the name of an installed plugin, or the path of a plugin's library.
    #[arg(value_name = "PLUGIN", required_unless_present_any = ["list", "diff", "matrix"])]
    pub(super) plugin: Option<String>,
    /// Run only cases whose id contains this text. A pattern with `*` must match the whole id. A pattern that starts
    /// with `-` excludes cases. Can be given several times.
    #[arg(long, short, value_name = "PATTERN", allow_hyphen_values = true)]
    pub(super) filter: Vec<String>,
    /// Run only the cases of a profile: minimal, jax, torch_xla, exla or full.
    #[arg(long, value_name = "PROFILE", value_parser = profile)]
    pub(super) profile: Option<Profile>,
    /// List the cases instead of running them.
    #[arg(long)]
    pub(super) list: bool,
    /// Number of processes that run cases. The default is the number of processors.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(super) jobs: Option<u16>,
    /// Time limit of a case, such as 10s.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    pub(super) timeout: Duration,
    /// Seed of the cases that choose data.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(super) seed: u64,
    /// Minimum time, such as 60s, for each case that calls functions from several threads in random order. A longer
    /// time finds rarer races.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) stress: Option<Duration>,
    /// How often an unexpected failure is repeated, to detect flaky cases.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) repeats: usize,
    /// Stop at the first unexpected outcome.
    #[arg(long)]
    pub(super) fail_fast: bool,
    /// An option of the plugin's client, in the form of `pjrt run --option`.
    #[arg(long = "option", short = 'O', value_name = "NAME=VALUE")]
    pub(super) options: Vec<String>,
    /// A file with expected outcomes. Can be given several times: the last entry that names a case decides.
    #[arg(long, value_name = "FILE")]
    pub(super) expectations: Vec<PathBuf>,
    /// Update the last file of expectations, so that every outcome of this run is expected.
    #[arg(long, requires = "expectations")]
    pub(super) update_expectations: bool,
    /// Write the report as JSON. The file is updated while the suite runs.
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    /// Write the report as JUnit XML, which continuous integration systems read.
    #[arg(long, value_name = "FILE")]
    pub(super) junit: Option<PathBuf>,
    /// Write the report as one HTML page.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Keep the outcomes of this report, and run only the remaining cases.
    #[arg(long, value_name = "REPORT")]
    pub(super) resume: Option<PathBuf>,
    /// Compare two reports. Returns 1 if a case fails that did not fail before.
    #[arg(long, num_args = 2, value_names = ["OLD", "NEW"], conflicts_with = "plugin")]
    pub(super) diff: Option<Vec<PathBuf>>,
    /// Show the outcomes of several reports side by side. With --html, also write them as an HTML page.
    #[arg(long, num_args = 1.., value_name = "REPORT", conflicts_with = "plugin")]
    pub(super) matrix: Option<Vec<PathBuf>>,
    /// Print the report as JSON, or the list of cases.
    #[arg(long)]
    pub(crate) json: bool,
}

fn profile(text: &str) -> Result<Profile, String> {
    Profile::ALL.iter().find(|profile| profile.name() == text).copied().ok_or_else(|| {
        let known: Vec<&str> = Profile::ALL.iter().map(|profile| profile.name()).collect();
        format!("the profiles are {}", known.join(", "))
    })
}

impl Args {
    /// Returns the ids of the cases that the filters and the profile select, in the order of the suite.
    pub(super) fn selected(&self, suite: &Suite) -> Vec<String> {
        let filter = Filter::new(&self.filter);
        let in_profile =
            |case: &&pjrt_conformance::Case| self.profile.is_none_or(|profile| case.profiles().contains(profile));
        let cases = suite.cases().iter().filter(in_profile).filter(|case| filter.matches(case.id()));
        cases.map(|case| case.id().to_owned()).collect()
    }

    pub(super) fn expectations(&self) -> Result<Expectations, String> {
        let mut all = Expectations::default();
        for file in &self.expectations {
            // `--update-expectations` creates the last file if it does not exist.
            if self.update_expectations && !file.exists() && self.expectations.last() == Some(file) {
                continue;
            }
            all.extend(Expectations::read(file)?);
        }
        Ok(all)
    }
}

/// Writes a text file. The error names the path.
pub(super) fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
