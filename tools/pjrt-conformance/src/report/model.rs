//! The data of a report, and its conversion to and from JSON.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;

/// Name and version of the report's format. [`Report::from_json`] rejects reports in another format.
pub const SCHEMA: &str = "pjrt-conformance-report/1";

/// The report of a run, with the outcomes of its cases.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// Format of the report, which is [`SCHEMA`].
    pub schema: String,
    /// Whether the run is complete. If it is not, the report contains the results so far, and a later run can continue
    /// it.
    pub complete: bool,
    /// Version of the conformance suite.
    pub suite_version: String,
    /// The plugin under test.
    pub plugin: PluginInfo,
    /// The machine that ran the suite.
    pub machine: Machine,
    /// The settings of the run.
    pub run: RunInfo,
    /// Results of the cases, in the suite's order.
    pub results: Vec<CaseResult>,
    /// Descriptions of process failures outside of any case, for example during exit.
    pub faults: Vec<String>,
}

/// Description of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct PluginInfo {
    /// Name or path of the plugin, as the user passed it.
    pub name: String,
    /// Path of the library. Empty if the plugin is linked into the program.
    pub path: String,
    /// Size of the library in bytes.
    pub size: u64,
    /// SHA-256 of the library, in hexadecimal.
    pub sha256: String,
    /// Version of the C API, such as `0.114`.
    pub api_version: String,
    /// Attributes of the plugin, with their values as strings.
    pub attributes: BTreeMap<String, String>,
    /// Extensions of the plugin, as values of `PJRT_Extension_Type`.
    pub extensions: Vec<u32>,
    /// Platform name of the client.
    pub platform_name: String,
    /// Platform version of the client.
    pub platform_version: String,
    /// Kind of each addressable device.
    pub device_kinds: Vec<String>,
}

/// Description of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Operating system.
    pub os: String,
    /// Processor architecture.
    pub arch: String,
    /// Version of the operating system's kernel. Empty if it is unknown.
    pub kernel: String,
    /// Number of processors that the run may use.
    pub processors: usize,
    /// Size of the main memory in bytes, if known.
    pub memory_bytes: Option<u64>,
}

/// The settings of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunInfo {
    /// Seed for the pseudo-random data of cases.
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
    /// Start of the run, as a Unix time in seconds.
    pub started: u64,
    /// Duration of the run in seconds.
    pub seconds: f64,
}

/// The result of a case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseResult {
    /// Id of the case.
    pub id: String,
    /// The outcome of the first run of the case.
    pub outcome: Outcome,
    /// The reason for an outcome other than `pass`.
    pub reason: String,
    /// Duration of the first run in milliseconds.
    pub ms: f64,
    /// Whether a repeated run had another outcome than the first run.
    #[serde(default)]
    pub flaky: bool,
    /// Whether the outcome is expected. If no expectation applies to the case, only failures are unexpected.
    pub expected: bool,
    /// Reason from the expectation that applies to the case. Empty if no expectation applies or if the case was
    /// skipped.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub explanation: String,
    /// The clause (requirement) that the case checks.
    pub clause: String,
    /// The reason why the clause matters, such as the framework code that relies on it.
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
    /// Outcome of the repeated run.
    pub outcome: Outcome,
    /// Reason for an outcome other than `pass`.
    pub reason: String,
}

impl Report {
    /// Parses a report from JSON.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a report, or if the report's schema is not [`SCHEMA`].
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
    /// Returns an error if the file cannot be read, or if [`Report::from_json`] rejects its contents.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::from_json(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Serializes the report as JSON.
    ///
    /// # Errors
    ///
    /// Returns an error if the report cannot be serialized.
    pub fn to_json(&self) -> Result<String, String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n").map_err(|error| error.to_string())
    }

    /// Writes the report to a file as JSON. Writes a file with another name and then renames this file, so that readers
    /// never see a partial report.
    ///
    /// # Errors
    ///
    /// Returns an error if the report cannot be serialized, or if the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let text = self.to_json()?;
        // Remove the file of a process that ended early. If another user prepared a link, this removes the link, and
        // `create_new` rejects a new one.
        let _ = std::fs::remove_file(&new);
        let written = std::fs::File::create_new(&new).and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(failed)?;
        std::fs::rename(&new, path).map_err(failed)
    }

    /// Returns the result of the case with this id.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<&CaseResult> {
        self.results.iter().find(|result| result.id == id)
    }

    /// Returns whether the report contains an unexpected outcome or a fault.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        !self.faults.is_empty() || self.results.iter().any(|result| !result.expected)
    }
}
