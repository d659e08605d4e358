//! The report as JSON.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;

/// Name and version of the report's format. A reader rejects reports of another version.
pub const SCHEMA: &str = "pjrt-conformance-report/1";

/// The outcomes of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// Whether the run is complete. An interrupted run can be resumed from its report.
    pub complete: bool,
    /// Version of the suite.
    pub suite_version: String,
    /// The plugin.
    pub plugin: PluginInfo,
    /// The machine.
    pub machine: Machine,
    /// The settings of the run.
    pub run: RunInfo,
    /// The cases, in the suite's order.
    pub results: Vec<CaseResult>,
    /// Processes that failed outside a case, for example while they exited, in words.
    pub faults: Vec<String>,
}

/// A plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct PluginInfo {
    /// The name or path that the user passed.
    pub name: String,
    /// The path of the library. Empty if the plugin is linked into the program.
    pub path: String,
    /// Size of the library in bytes.
    pub size: u64,
    /// SHA-256 of the library, in hexadecimal.
    pub sha256: String,
    /// Version of the C API, such as `0.114`.
    pub api_version: String,
    /// Attributes of the plugin, as text.
    pub attributes: BTreeMap<String, String>,
    /// Numbers of the extensions.
    pub extensions: Vec<u32>,
    /// Name of the client's platform.
    pub platform_name: String,
    /// Version of the platform.
    pub platform_version: String,
    /// Kind of each addressable device.
    pub device_kinds: Vec<String>,
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Operating system.
    pub os: String,
    /// Processor architecture.
    pub arch: String,
    /// Version of the kernel.
    pub kernel: String,
    /// Number of processors that the run may use.
    pub processors: usize,
    /// Bytes of main memory, if known.
    pub memory_bytes: Option<u64>,
}

/// The settings of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunInfo {
    /// Seed of the cases that choose data.
    pub seed: u64,
    /// Number of worker processes.
    pub jobs: usize,
    /// Time limit of a case, in seconds.
    pub time_limit_s: f64,
    /// Patterns that selected the cases.
    pub filter: Vec<String>,
    /// Profile that selected the cases.
    pub profile: Option<String>,
    /// Options of the client, as `NAME=VALUE`.
    pub options: Vec<String>,
    /// Start of the run, in seconds since 1970.
    pub started: u64,
    /// Duration of the run in seconds.
    pub seconds: f64,
}

/// The outcome of a case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseResult {
    /// Id of the case.
    pub id: String,
    /// The outcome of the first run of the case.
    pub outcome: Outcome,
    /// The reason for an outcome other than `pass`.
    pub reason: String,
    /// Duration in milliseconds.
    pub ms: f64,
    /// Whether repeated runs had different outcomes.
    #[serde(default)]
    pub flaky: bool,
    /// Whether the outcome is expected. Without expectations, failures are unexpected.
    pub expected: bool,
    /// Why a failure is expected.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub explanation: String,
    /// The clause that the case checks.
    pub clause: String,
    /// Why the clause matters, and to whom.
    pub why: String,
    /// The profiles that contain the case.
    pub profiles: Vec<String>,
    /// The last lines that the process wrote during the case, if the case failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<String>,
    /// Repeated runs after an unexpected failure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// A command that runs only this case.
    pub reproduce: String,
}

/// A repeated run of a case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attempt {
    /// The outcome.
    pub outcome: Outcome,
    /// The reason.
    pub reason: String,
}

impl Report {
    /// Reads a report from JSON.
    ///
    /// # Errors
    ///
    /// If the text is not a report, or a report of another [`SCHEMA`].
    pub fn from_json(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Head {
            #[serde(default)]
            schema: String,
        }
        let head: Head = serde_json::from_str(text).map_err(|error| format!("not a report: {error}"))?;
        if head.schema != SCHEMA {
            return Err(format!("the report's schema is {:?}; this version reads {SCHEMA:?}", head.schema));
        }
        serde_json::from_str(text).map_err(|error| format!("not a valid report: {error}"))
    }

    /// Reads a report from a file.
    ///
    /// # Errors
    ///
    /// The same as for [`Report::from_json`], and if the file cannot be read.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::from_json(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Writes the report as JSON.
    ///
    /// # Errors
    ///
    /// If JSON cannot represent a number.
    pub fn to_json(&self) -> Result<String, String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n").map_err(|error| error.to_string())
    }

    /// Writes the report to a file. The file is replaced as a whole.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        std::fs::write(&new, self.to_json()?).map_err(failed)?;
        std::fs::rename(&new, path).map_err(failed)
    }

    /// The result of a case.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<&CaseResult> {
        self.results.iter().find(|result| result.id == id)
    }

    /// Whether the plugin has unexpected failures or faults.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        !self.faults.is_empty() || self.results.iter().any(|result| !result.expected)
    }
}
