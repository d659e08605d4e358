//! The results of a measurement.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::{Side, Times};

/// Version of a report's JSON format.
const VERSION: u32 = 1;

/// The results of several cases. `Display` prints a table, and `serde` reads and writes JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// Version of the JSON format.
    pub version: u32,
    /// Time at which the report was created, in seconds since 1970.
    pub time: u64,
    /// The machine on which the cases were measured.
    pub machine: Machine,
    /// The plugins, in the order of the sides.
    pub plugins: Vec<PluginReport>,
    /// Results of the measured cases, in the order in which [`Report::new`] received them.
    pub cases: Vec<CaseReport>,
}

/// The machine on which a measurement ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Machine {
    /// Operating system.
    pub os: String,
    /// Architecture of the processor.
    pub arch: String,
    /// Name of the processor, if the system reports it.
    pub processor: Option<String>,
    /// Number of processors that the process may use.
    pub processors: usize,
}

/// A plugin that was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PluginReport {
    /// Name of the side.
    pub name: String,
    /// Name and version of the platform.
    pub platform: String,
    /// Version of the C API.
    pub api_version: String,
}

/// The results of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CaseReport {
    /// Name of the case.
    pub name: String,
    /// Results of the case on each side, in the order of [`Report::plugins`].
    pub sides: Vec<SideReport>,
}

/// The results of a case on one side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SideReport {
    /// The times from the call of `execute` until the last output is ready and freed.
    pub execution: Times,
    /// The times of one compilation.
    pub compilation: Times,
}

impl Report {
    /// Creates a report on cases that were measured on these sides.
    #[must_use]
    pub fn new(sides: &[Side], cases: Vec<CaseReport>) -> Self {
        let plugin = |side: &Side| {
            let client = side.client();
            let name = client.platform_name().unwrap_or_default();
            let version = client.platform_version().unwrap_or_default();
            PluginReport {
                name: side.name().to_owned(),
                platform: format!("{name} {version}").trim().to_owned(),
                api_version: client.plugin().api_version().to_string(),
            }
        };
        Self {
            version: VERSION,
            time: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
            machine: Machine::this(),
            plugins: sides.iter().map(plugin).collect(),
            cases,
        }
    }
}

impl Machine {
    fn this() -> Self {
        let information = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name = information.lines().find(|line| line.starts_with("model name"));
        Self {
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            processor: name.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned())),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

impl CaseReport {
    /// Returns the ratio of the first side's execution time to the second side's execution time. Returns `None` if
    /// there is only one side or if the second time is 0.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let [first, second, ..] = self.sides.as_slice() else { return None };
        ratio(first.execution.median, second.execution.median)
    }
}

pub(crate) fn ratio(time: f64, to: f64) -> Option<f64> {
    (to > 0.0).then(|| time / to)
}

/// Prints a table with a row for each case and side. A ratio is the time of the first side, divided by the time of the
/// side in this row.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widest = |names: &mut dyn Iterator<Item = usize>, head: &str| names.max().unwrap_or(0).max(head.len());
        let case_width = widest(&mut self.cases.iter().map(|case| case.name.chars().count()), "program");
        let side_width = widest(&mut self.plugins.iter().map(|plugin| plugin.name.chars().count()), "plugin");
        writeln!(
            f,
            "{:case_width$}  {:side_width$}  {:>10}  {:>7}  {:>10}  {:^23}  {:>10}  {:>7}",
            "program", "plugin", "compile", "ratio", "execute", "quartiles", "CPU time", "ratio"
        )?;
        for case in &self.cases {
            let first = case.sides.first();
            for (index, (side, plugin)) in case.sides.iter().zip(&self.plugins).enumerate() {
                let ratio = |time: fn(&SideReport) -> f64| {
                    let ratio = first.filter(|_| index > 0).and_then(|first| ratio(time(first), time(side)));
                    ratio.map(|ratio| format!("{ratio:.3}")).unwrap_or_default()
                };
                let execution = &side.execution;
                let quartiles = format!("{} - {}", time(execution.lower_quartile), time(execution.upper_quartile));
                writeln!(
                    f,
                    "{:case_width$}  {:side_width$}  {:>10}  {:>7}  {:>10}  {quartiles:^23}  {:>10}  {:>7}",
                    if index == 0 { case.name.as_str() } else { "" },
                    plugin.name,
                    time(side.compilation.median),
                    ratio(|side| side.compilation.median),
                    time(execution.median),
                    execution.processor_time.map(time).unwrap_or_default(),
                    ratio(|side| side.execution.median),
                )?;
            }
        }
        Ok(())
    }
}

/// Formats a time with its unit.
pub(crate) fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.2} us", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}
