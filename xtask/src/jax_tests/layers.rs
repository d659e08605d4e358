//! The option `--layers`: puts layers between JAX and the plugin, and summarizes the reports of the layer `validate`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::{Error, sh};

/// Returns the folder for the files that the layers write.
pub(super) fn output() -> PathBuf {
    sh::target().join("jax-tests/layers")
}

/// Changes the unpacked wheel from `pjrt package --compat` so that its library loads `layers`, and empties the folder
/// for the layers' files.
pub(super) fn select(package: &Path, layers: &str) -> Result<(), Error> {
    let folder = output();
    sh::remove(&folder)?;
    fs::create_dir_all(&folder)?;
    let file = settings(package)?.ok_or("the wheel's package has no pjrt_layers.json")?;
    let mut settings: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
    settings["PJRT_LAYERS"] = json!(layers);
    settings["PJRT_LAYERS_OUTPUT"] = json!(folder);
    fs::write(file, format!("{settings:#}\n"))?;
    Ok(())
}

/// Returns the path of the layers' settings. Only the package's folder in `content` contains such a file.
fn settings(content: &Path) -> Result<Option<PathBuf>, Error> {
    for folder in fs::read_dir(content)? {
        let file = folder?.path().join("pjrt_layers.json");
        if file.is_file() {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

/// Prints the findings of `validate` in all processes, and returns the total number of reports. A finding is a broken
/// rule, together with the function that broke it.
pub(super) fn summarize() -> Result<usize, Error> {
    let (mut processes, mut all) = (0, BTreeMap::new());
    for file in fs::read_dir(output())? {
        let path = file?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("validate-")) {
            processes += 1;
            for (finding, count) in findings(&fs::read_to_string(&path)?) {
                *all.entry(finding).or_insert(0) += count;
            }
        }
    }
    if processes == 0 {
        return Err("validate: no process wrote a report, so the layer did not run".into());
    }
    let total = all.values().sum();
    println!("validate: {total} reports in {processes} processes; see {}", output().display());
    for (finding, count) in all {
        println!("  {count:>8}  {finding}");
    }
    Ok(total)
}

/// Returns the findings of a process, with the number of reports of each. The last summary in the file contains them. A
/// process that ended without a summary wrote only its first reports, each of which begins with the rule in brackets.
fn findings(text: &str) -> BTreeMap<String, usize> {
    let mut findings = BTreeMap::new();
    if let Some((_, summary)) = text.rsplit_once("validate: ") {
        for line in summary.lines().skip(1).map(str::trim_start) {
            if let Some((count, finding)) = line.split_once("  [")
                && let Ok(count) = count.parse()
            {
                findings.insert(format!("[{finding}"), count);
            }
        }
    } else {
        for line in text.lines().filter(|line| line.starts_with('[')) {
            let finding = line.split_once(": ").map_or(line, |(finding, _)| finding);
            *findings.entry(finding.to_owned()).or_insert(0) += 1;
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "[buffer.deleted] PJRT_Buffer_Dimensions: the buffer 0x1 was deleted\n  rule: x\n";

    #[test]
    fn findings_come_from_the_last_summary() {
        let summary = "validate: 2 reports in process 7\n         2  [buffer.deleted] PJRT_Buffer_Dimensions\n\
                       Objects that were not destroyed, by the function that created them:\n         3  client of f\n";
        let text = format!("{REPORT}validate: 0 reports in process 7\n{REPORT}{summary}");
        let expected = BTreeMap::from([("[buffer.deleted] PJRT_Buffer_Dimensions".to_owned(), 2)]);
        assert_eq!(findings(&text), expected);
    }

    #[test]
    fn findings_without_summary_are_counted() {
        let expected = BTreeMap::from([("[buffer.deleted] PJRT_Buffer_Dimensions".to_owned(), 2)]);
        assert_eq!(findings(&REPORT.repeat(2)), expected);
        assert_eq!(findings("validate: 0 reports in process 7\n"), BTreeMap::new());
    }
}
