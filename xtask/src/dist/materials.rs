//! What a build contains: its crates, as a software bill of materials in the format CycloneDX, and their licenses.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{Error, sh};

/// Beginnings of the names of files with licenses, in capitals.
const LICENSES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

/// The source of a crate.
struct Folder {
    path: PathBuf,
    authors: String,
}

/// The crates of a build.
pub(crate) struct Materials {
    crates: Vec<Crate>,
    /// Whether the build contains the C library musl.
    has_musl: bool,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Crate {
    name: String,
    version: String,
    /// An SPDX expression. Empty if the manifest names a file instead.
    license: String,
}

impl Materials {
    /// Lists the crates that packages contain with these features. `cargo metadata`, which the existing tools for bills
    /// of materials read, does not know them: it lists the crates of the whole workspace.
    pub(crate) fn of(packages: &[&str], features: &str, target: &str) -> Result<Self, Error> {
        let mut tree = sh::cargo();
        tree.args(["tree", "--locked", "--features", features, "--target", target]);
        tree.args(packages.iter().flat_map(|package| ["--package", package]));
        tree.args(["--edges", "normal,no-proc-macro", "--prefix", "none", "--no-dedupe", "--format", "{p}|{l}"]);
        let lines = sh::output(&mut tree)?;
        let lines = lines.lines().filter(|line| !line.is_empty());
        let mut crates = lines.map(Crate::of_line).collect::<Result<Vec<_>, _>>()?;
        crates.sort_unstable();
        crates.dedup();
        Ok(Self { crates, has_musl: target.ends_with("-musl") })
    }

    /// Returns the bill of materials of a file.
    pub(crate) fn bill(&self, file: &str) -> Result<Value, Error> {
        let hashes = hashes(&fs::read_to_string(sh::root().join("Cargo.lock"))?);
        let component = |krate: &Crate| {
            let Crate { name, version, license } = krate;
            let purl = format!("pkg:cargo/{name}@{version}");
            let mut component = json!({ "type": "library", "name": name, "version": version, "purl": purl });
            if !license.is_empty() {
                component["licenses"] = json!([{ "expression": license }]);
            }
            if let Some(hash) = hashes.get(&(name.clone(), version.clone())) {
                component["hashes"] = json!([{ "alg": "SHA-256", "content": hash }]);
            }
            component
        };
        Ok(json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "version": 1,
            "metadata": { "component": {
                "type": "application", "name": file, "version": env!("CARGO_PKG_VERSION"),
            } },
            "components": self.crates.iter().map(component).collect::<Vec<_>>(),
        }))
    }

    /// Returns the texts of the licenses of all crates. Crates with the same text share it.
    pub(crate) fn licenses(&self) -> Result<String, Error> {
        let metadata = sh::output(sh::cargo().args(["metadata", "--locked", "--format-version", "1"]))?;
        let metadata: Value = serde_json::from_str(&metadata)?;
        let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
        let folders: HashMap<(&str, &str), Folder> = packages
            .iter()
            .filter_map(|package| {
                let path = Path::new(package["manifest_path"].as_str()?).parent()?.to_path_buf();
                let authors = package["authors"].as_array()?.iter().filter_map(Value::as_str).collect::<Vec<_>>();
                let folder = Folder { path, authors: authors.join(", ") };
                Some(((package["name"].as_str()?, package["version"].as_str()?), folder))
            })
            .collect();
        let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for krate in &self.crates {
            let folder = folders.get(&(&krate.name, &krate.version));
            let folder = folder.ok_or_else(|| format!("cargo metadata lists no {} {}", krate.name, krate.version))?;
            let title = format!("{} {} ({})", krate.name, krate.version, krate.license);
            let own = license_texts(&folder.path)?;
            // The crates of this workspace have the licenses beside this file.
            if own.is_empty() && !folder.path.starts_with(sh::root()) {
                texts.entry(krate.standard_text(&folder.authors)?).or_default().push(title.clone());
            }
            for text in own {
                texts.entry(text).or_default().push(title.clone());
            }
        }
        if self.has_musl {
            let musl = Crate { name: "musl".to_owned(), version: String::new(), license: "MIT".to_owned() };
            let text = musl.standard_text("2005 to 2020 Rich Felker and others")?;
            texts.entry(text).or_default().push("musl, the C library (MIT)".to_owned());
        }
        let sections = texts.iter().map(|(text, crates)| format!("{}\n\n{}\n", crates.join("\n"), text.trim()));
        Ok(sections.collect::<Vec<_>>().join(&format!("\n{}\n\n", "-".repeat(80))))
    }
}

impl Crate {
    /// Parses a line such as `half v2.7.1|MIT OR Apache-2.0`. Crates of this workspace also have a path.
    fn of_line(line: &str) -> Result<Self, Error> {
        let unexpected = || format!("an unexpected line of `cargo tree`: {line}");
        let (package, license) = line.split_once('|').ok_or_else(unexpected)?;
        let mut words = package.split(' ');
        let (name, version) = words.next().zip(words.next()).ok_or_else(unexpected)?;
        let version = version.strip_prefix('v').ok_or_else(unexpected)?;
        // Old manifests separate licenses by slashes, which SPDX does not allow.
        Ok(Self { name: name.to_owned(), version: version.to_owned(), license: license.replace('/', " OR ") })
    }
}

impl Crate {
    /// Returns the text of the license for a crate whose archive contains none.
    fn standard_text(&self, authors: &str) -> Result<String, Error> {
        let holders = if authors.is_empty() { format!("the authors of {}", self.name) } else { authors.to_owned() };
        let is_free = |license: &str| self.license.split([' ', '(', ')']).any(|word| word == license);
        if is_free("MIT") {
            // The text after the copyright line.
            let text = fs::read_to_string(sh::root().join("LICENSE-MIT"))?;
            let (_, permission) = text.split_once("Permission is").ok_or("LICENSE-MIT has no permission")?;
            return Ok(format!("Copyright (c) {holders}\n\nPermission is{permission}"));
        }
        if is_free("Apache-2.0") {
            return Ok(format!("Copyright {holders}. The text is in LICENSE-APACHE beside this file."));
        }
        Err(format!("{} {} contains no text of its license, {}", self.name, self.version, self.license).into())
    }
}

fn license_texts(folder: &Path) -> Result<Vec<String>, Error> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        if entry.file_type()?.is_file() && LICENSES.iter().any(|start| name.starts_with(start)) {
            texts.push(String::from_utf8_lossy(&fs::read(entry.path())?).into_owned());
        }
    }
    texts.sort_unstable();
    Ok(texts)
}

/// Returns the hashes in the text of a `Cargo.lock`, by name and version. Crates of the workspace have none.
fn hashes(lock: &str) -> HashMap<(String, String), String> {
    let value = |package: &str, key: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(key));
        line.map(|value| value.trim_start_matches(" = ").trim_matches('"').to_owned())
    };
    let packages = lock.split("[[package]]").skip(1);
    packages
        .filter_map(|package| {
            Some(((value(package, "name")?, value(package, "version")?), value(package, "checksum")?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_each_crate_once_with_license_and_hash() {
        let target = "x86_64-unknown-linux-gnu";
        let materials = Materials::of(&["plugin-manifest", "pjrt-types"], "text", target).unwrap();
        let bill = materials.bill("a file").unwrap();
        assert_eq!(bill["metadata"]["component"]["name"], "a file");
        let crates = bill["components"].as_array().unwrap();
        let of = |name: &str| crates.iter().filter(|one| one["name"] == name).collect::<Vec<_>>();
        let [serde_json] = of("serde_json")[..] else { panic!("{crates:?}") };
        assert_eq!(serde_json["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(serde_json["hashes"][0]["content"].as_str().unwrap().len(), 64);
        let [own] = of("pjrt-rs-sys")[..] else { panic!("{crates:?}") };
        assert_eq!(own["purl"], format!("pkg:cargo/pjrt-rs-sys@{}", env!("CARGO_PKG_VERSION")));
        // Nothing of the machine, and no dependency of builds or tests.
        assert!(!bill.to_string().contains(&sh::root().display().to_string()));
        assert!(of("expect-test").is_empty() && of("syn").is_empty());
        let licenses = materials.licenses().unwrap();
        assert!(licenses.contains("serde_json ") && licenses.contains("Permission is hereby granted"));
        assert!(!licenses.contains("musl"));
        let fixed = Materials::of(&["pjrt-types"], "stablehlo", "x86_64-unknown-linux-musl").unwrap();
        assert!(fixed.licenses().unwrap().contains("Copyright (c) 2005 to 2020 Rich Felker and others"));
        let unknown = Crate::of_line("no license").err().unwrap();
        assert_eq!(unknown.to_string(), "an unexpected line of `cargo tree`: no license");
    }
}
