//! `cargo xtask check`: formats, lints and tests the crates that a change concerns.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use crate::{Error, sh, tidy};

/// Files that can change the build of every crate.
const EVERY_CRATE: [&str; 4] = ["Cargo.toml", "Cargo.lock", "clippy.toml", "rustfmt.toml"];

/// A package of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Package {
    name: String,
    /// The folder, relative to the root, with a slash at the end.
    folder: String,
    /// The packages of the workspace on which the package or its tests depend.
    dependencies: BTreeSet<String>,
}

/// Checks the named crates. A name is that of a package or of its folder. Without names, checks the crates that differ
/// from the branch `main`, and those that depend on them.
pub(crate) fn run(names: &[&str]) -> Result<(), Error> {
    let start = Instant::now();
    let packages = packages(&sh::metadata()?)?;
    let chosen = if names.is_empty() { concerned(&packages, &changed_files()?) } else { named(&packages, names)? };
    if chosen.is_empty() {
        println!("no crate differs from the branch `main`");
        return tidy::arguments(&[]);
    }
    println!("{}", chosen.iter().copied().collect::<Vec<_>>().join(" "));
    // With all packages, dependencies have the same features as in `cargo xtask test`, and are not built again.
    let selection: Vec<&str> = if chosen.len() == packages.len() {
        vec!["--workspace"]
    } else {
        chosen.iter().flat_map(|name| ["--package", name]).collect()
    };
    let format = chosen.iter().flat_map(|name| ["--package", name]);
    let step = |name: &str, outcome: Result<(), Error>| {
        println!("{name}: {} (after {} s)", if outcome.is_ok() { "ok" } else { "FAILED" }, start.elapsed().as_secs());
        outcome
    };
    step("format", sh::run(sh::cargo().args(["fmt", "--check"]).args(format)))?;
    step("tidy", tidy::arguments(&[]))?;
    let clippy = sh::run(
        sh::cargo().args(["clippy", "--quiet", "--all-targets"]).args(&selection).args(["--", "-D", "warnings"]),
    );
    step("clippy", clippy)?;
    step("tests", sh::run(sh::cargo().args(["test", "--quiet"]).args(&selection)))
}

/// Reads the packages of the workspace from the output of `cargo metadata`.
fn packages(metadata: &Value) -> Result<Vec<Package>, Error> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let root = text(&metadata["workspace_root"]).ok_or("cargo metadata names no root")?;
    let package = |package: &Value| {
        let folder = text(&package["manifest_path"])?;
        let folder = folder.strip_prefix(&root)?.replace('\\', "/");
        let folder = folder.strip_prefix('/')?.strip_suffix("Cargo.toml")?.to_owned();
        let dependencies = package["dependencies"].as_array()?.iter();
        // Only packages of the workspace have a path.
        let dependencies = dependencies.filter(|dependency| dependency["path"].is_string());
        let dependencies = dependencies.filter_map(|dependency| text(&dependency["name"])).collect();
        Some(Package { name: text(&package["name"])?, folder, dependencies })
    };
    Ok(metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?.iter().filter_map(package).collect())
}

/// Returns the packages with the given names.
fn named<'p>(packages: &'p [Package], names: &[&str]) -> Result<BTreeSet<&'p str>, Error> {
    let find = |name: &&str| {
        let folder = format!("/{}/", name.trim_end_matches('/'));
        let is_named = |package: &&Package| package.name == **name || format!("/{}", package.folder).ends_with(&folder);
        let package = packages.iter().find(is_named);
        package.map(|package| package.name.as_str()).ok_or_else(|| format!("no crate is named {name:?}").into())
    };
    names.iter().map(find).collect()
}

/// Returns the packages that contain one of the files, and those that depend on them.
fn concerned<'p>(packages: &'p [Package], files: &[String]) -> BTreeSet<&'p str> {
    let is_general = files.iter().any(|file| EVERY_CRATE.contains(&file.as_str()));
    let is_changed =
        |package: &&Package| is_general || files.iter().any(|file| file.starts_with(package.folder.as_str()));
    let mut chosen: BTreeSet<&str> = packages.iter().filter(is_changed).map(|package| package.name.as_str()).collect();
    loop {
        let known = chosen.len();
        for Package { name, dependencies, .. } in packages {
            if dependencies.iter().any(|dependency| chosen.contains(dependency.as_str())) {
                chosen.insert(name);
            }
        }
        if chosen.len() == known {
            return chosen;
        }
    }
}

/// Returns the files that differ from the commit at which this branch left `main`, and those that git does not track.
/// Without a branch `main`, returns the files that differ from the last commit.
fn changed_files() -> Result<Vec<String>, Error> {
    let git = |arguments: &[&str]| sh::output(Command::new("git").current_dir(sh::root()).args(arguments));
    let base = git(&["merge-base", "main", "HEAD"]).unwrap_or_else(|_| "HEAD".to_owned());
    let changed = git(&["diff", "--name-only", "--no-renames", base.trim()])?;
    let new = git(&["ls-files", "--others", "--exclude-standard"])?;
    Ok(changed.lines().chain(new.lines()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> Vec<Package> {
        let package = |name: &str, folder: &str, dependencies: &[&str]| {
            let on = |name: &&str| serde_json::json!({ "name": name, "path": "/w" });
            let dependencies: Vec<Value> = dependencies.iter().map(on).collect();
            serde_json::json!({
                "name": name, "manifest_path": format!("/w/{folder}/Cargo.toml"), "dependencies": dependencies
            })
        };
        let packages = [
            package("types", "crates/types", &[]),
            package("caller-rs", "crates/caller", &["types"]),
            package("caller-c", "crates/caller-c", &["caller-rs"]),
            package("other", "cpu/other", &[]),
        ];
        super::packages(&serde_json::json!({ "workspace_root": "/w", "packages": packages })).unwrap()
    }

    #[test]
    fn dependants_are_checked() {
        let packages = workspace();
        let concerned = |file: &str| concerned(&packages, &[file.to_owned()]).into_iter().collect::<Vec<_>>();
        assert_eq!(concerned("crates/caller/src/lib.rs"), ["caller-c", "caller-rs"]);
        assert_eq!(concerned("crates/types/Cargo.toml"), ["caller-c", "caller-rs", "types"]);
        assert_eq!(concerned("Cargo.lock").len(), 4);
        assert_eq!(concerned("README.md"), [""; 0]);
    }

    #[test]
    fn crates_have_names_and_folders() {
        let packages = workspace();
        let named = |name| named(&packages, &[name]).map(|names| names.into_iter().collect::<Vec<_>>());
        assert_eq!(named("caller-rs").unwrap(), ["caller-rs"]);
        assert_eq!(named("caller").unwrap(), ["caller-rs"]);
        assert_eq!(named("cpu/other/").unwrap(), ["other"]);
        assert!(named("absent").is_err());
    }
}
