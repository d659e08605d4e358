//! An installed Python distribution, described by the files in `*.dist-info` or `*.egg-info`.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use crate::discovery::folder;

/// Maximum size in bytes of a metadata file that is read. The `RECORD` of the largest packages has about a megabyte.
const LARGEST: u64 = 16 << 20;

/// Maximum number of requirements that are read from one distribution. The limit bounds the cost of a malicious
/// distribution.
const MOST_REQUIRED: usize = 4096;

/// An installed Python distribution.
#[derive(Clone, Debug)]
pub(super) struct Distribution {
    /// Name, spelled as in the metadata folder's name.
    pub(super) name: String,
    /// The name for comparison: in lower case, with one `-` for each run of `-`, `_` and `.`.
    pub(super) normalized: String,
    /// Version, if the name of the metadata folder contains it.
    pub(super) version: Option<String>,
    /// Path of the metadata folder, or of a metadata file in the old format.
    pub(super) metadata: PathBuf,
    /// The folder of the module search path that contains the distribution.
    pub(super) site: PathBuf,
    /// Cached contents of the metadata. Each entry point of the distribution needs them, and `RECORD` may be long.
    read: Read,
}

#[derive(Clone, Debug, Default)]
struct Read {
    libraries: OnceCell<Vec<PathBuf>>,
    requires: OnceCell<Vec<String>>,
}

/// An entry point in `entry_points.txt`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EntryPoint {
    pub(super) group: String,
    pub(super) name: String,
    /// The value without extras in brackets.
    pub(super) value: String,
}

impl EntryPoint {
    /// Returns the dotted name of the module in the value, which has the form `module` or `module:attribute`.
    pub(super) fn module(&self) -> &str {
        self.value.split(':').next().unwrap_or_default().trim()
    }
}

/// Normalizes the name of a distribution for comparison.
pub(crate) fn normalize(name: &str) -> String {
    let mut normalized = String::with_capacity(name.len());
    for c in name.trim().chars() {
        if matches!(c, '-' | '_' | '.') {
            if !normalized.ends_with('-') {
                normalized.push('-');
            }
        } else {
            normalized.extend(c.to_lowercase());
        }
    }
    normalized
}

fn read(path: &Path) -> Option<String> {
    folder::read_text(path, LARGEST)
}

impl Distribution {
    /// Returns the distribution whose metadata folder or file is `entry` in `site`, or `None` if `entry` is not the
    /// metadata of an installed distribution.
    pub(super) fn of(site: &Path, entry: &str) -> Option<Self> {
        let (stem, egg) = match entry.strip_suffix(".dist-info") {
            Some(stem) => (stem, false),
            None => (entry.strip_suffix(".egg-info")?, true),
        };
        let (name, version) = if egg {
            // `name-version-pyX.Y`, or only the name in a development folder.
            let mut parts = stem.split('-');
            (parts.next()?, parts.next())
        } else {
            stem.rsplit_once('-').map_or((stem, None), |(name, version)| (name, Some(version)))
        };
        if name.is_empty() || name.starts_with('~') {
            // If pip cannot delete a folder, it renames the folder so that the name starts with a tilde. Such a
            // distribution is no longer installed.
            return None;
        }
        Some(Self {
            name: name.to_owned(),
            normalized: normalize(name),
            version: version.map(str::to_owned),
            metadata: site.join(entry),
            site: site.to_owned(),
            read: Read::default(),
        })
    }

    /// Returns the distribution's entry points in the given groups.
    pub(super) fn entry_points(&self, groups: &[&str]) -> Vec<EntryPoint> {
        match read(&self.metadata.join("entry_points.txt")) {
            Some(text) if groups.iter().any(|group| text.contains(group)) => parse_entry_points(&text, groups),
            _ => Vec::new(),
        }
    }

    /// Returns the absolute paths of the files that the distribution installed, or an empty list if the metadata lists
    /// no files.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        if let Some(record) = read(&self.metadata.join("RECORD")) {
            return record
                .lines()
                .map(first_field)
                .filter(|path| !path.is_empty())
                .map(|path| self.site.join(path))
                .collect();
        }
        let list = read(&self.metadata.join("installed-files.txt")).unwrap_or_default();
        list.lines().filter(|line| !line.is_empty()).map(|line| plain(&self.metadata.join(line))).collect()
    }

    /// Returns the shared libraries of the distribution, sorted and without duplicates. Reads the list of files only
    /// once.
    pub(super) fn libraries(&self) -> &[PathBuf] {
        self.read.libraries.get_or_init(|| {
            let mut files: Vec<PathBuf> = self.files();
            files.retain(|file| folder::is_library_name(folder::name(file)));
            let mut files: Vec<PathBuf> = files.iter().map(|file| plain(file)).collect();
            files.sort();
            files.dedup();
            files
        })
    }

    /// Returns the normalized names of the distributions that this distribution requires. Ignores environment markers,
    /// because only installed distributions matter.
    pub(super) fn requires(&self) -> &[String] {
        self.read.requires.get_or_init(|| self.read_requires())
    }

    fn read_requires(&self) -> Vec<String> {
        let metadata = ["METADATA", "PKG-INFO"].iter().find_map(|file| read(&self.metadata.join(file)));
        let mut names = Vec::new();
        // The headers end at the first empty line.
        for line in metadata.unwrap_or_default().lines().take_while(|line| !line.trim().is_empty()) {
            if let Some(requirement) = line.strip_prefix("Requires-Dist:") {
                add_requirement(&mut names, requirement);
            }
        }
        for line in read(&self.metadata.join("requires.txt")).unwrap_or_default().lines() {
            if !line.starts_with('[') {
                add_requirement(&mut names, line);
            }
        }
        names
    }

    /// Returns the URL of the source folder, or `None` if the distribution is not an editable installation.
    pub(super) fn editable(&self) -> Option<String> {
        let text = read(&self.metadata.join("direct_url.json"))?;
        let json: serde_json::Value = serde_json::from_str(&text).ok()?;
        let editable = json.get("dir_info")?.get("editable")?.as_bool()?;
        editable.then(|| json.get("url").and_then(|url| url.as_str()).unwrap_or_default().to_owned())
    }

    /// Describes the distribution for the provenance of a candidate.
    pub(super) fn describe(&self) -> String {
        format!("{} {} in {}", self.name, self.version.as_deref().unwrap_or("(no version)"), self.site.display())
    }
}

fn add_requirement(names: &mut Vec<String>, requirement: &str) {
    let requirement = requirement.trim();
    let end = requirement.find(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '.')));
    let name = normalize(&requirement[..end.unwrap_or(requirement.len())]);
    if names.len() < MOST_REQUIRED && !name.is_empty() && !names.contains(&name) {
        names.push(name);
    }
}

/// Returns the first field of a line of comma-separated values.
fn first_field(line: &str) -> &str {
    match line.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().unwrap_or_default(),
        None => line.split(',').next().unwrap_or_default(),
    }
}

/// Removes `.` and `..` from a path, so that two paths of the same file are equal.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

fn parse_entry_points(text: &str, groups: &[&str]) -> Vec<EntryPoint> {
    let mut group = None;
    let mut points = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            group = groups.iter().find(|known| **known == name.trim());
        } else if let (Some(group), Some((name, value))) = (group, line.split_once('=')) {
            // The value may end with extras in brackets, which are not part of the module name.
            let value = value.split('[').next().unwrap_or_default().trim();
            points.push(EntryPoint {
                group: (*group).to_owned(),
                name: name.trim().to_owned(),
                value: value.to_owned(),
            });
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_metadata_folders() {
        let site = Path::new("/s");
        let of = |entry| Distribution::of(site, entry).map(|d| (d.name, d.normalized, d.version));
        let some = |name: &str, normalized: &str, version: Option<&str>| {
            Some((name.to_owned(), normalized.to_owned(), version.map(str::to_owned)))
        };
        assert_eq!(
            of("Jax_cuda13.plugin-0.12.0.dist-info"),
            some("Jax_cuda13.plugin", "jax-cuda13-plugin", Some("0.12.0"))
        );
        assert_eq!(of("old-1.0-py3.11.egg-info"), some("old", "old", Some("1.0")));
        assert_eq!(of("dev.egg-info"), some("dev", "dev", None));
        assert_eq!(of("~ip-1.0.dist-info"), None);
        assert_eq!(of("jax"), None);
        assert_eq!(normalize("A--b__C.d"), "a-b-c-d");
    }

    #[test]
    fn entry_points() {
        let text = "[console_scripts]\nx = y:z\n\n# c\n[jax_plugins]\nmine = jax_plugins.mine\n two=a.b:C [extra]\n[other]\nq=r\n";
        let points = parse_entry_points(text, &["jax_plugins", "torch_xla.plugins"]);
        let plain: Vec<_> = points.iter().map(|p| (p.name.as_str(), p.value.as_str(), p.module())).collect();
        assert_eq!(plain, [("mine", "jax_plugins.mine", "jax_plugins.mine"), ("two", "a.b:C", "a.b")]);
    }

    #[test]
    fn reads_record_once() {
        let site = std::env::temp_dir().join(format!("pjrt-record-{}", std::process::id()));
        let metadata = site.join("x-1.dist-info");
        std::fs::create_dir_all(&metadata).unwrap();
        std::fs::write(metadata.join("RECORD"), "x/b.so,,\nx/a.so,,\nx/a.so,,\nx/c.py,,\n").unwrap();
        let distribution = Distribution::of(&site, "x-1.dist-info").unwrap();
        let libraries = [site.join("x/a.so"), site.join("x/b.so")];
        assert_eq!(distribution.libraries(), libraries);
        std::fs::remove_dir_all(&site).unwrap();
        assert_eq!(distribution.libraries(), libraries);
    }

    #[test]
    fn records_and_requirements() {
        assert_eq!(first_field("a/b.so,sha256=x,1"), "a/b.so");
        assert_eq!(first_field("\"a,b.so\",,"), "a,b.so");
        assert_eq!(plain(Path::new("/s/../t/./u.so")), Path::new("/t/u.so"));
        let mut names = Vec::new();
        for text in [" winjax_cuda13-pjrt (>=1) ; extra == 'x'", "numpy>=2", "jax[cuda]", "numpy", ""] {
            add_requirement(&mut names, text);
        }
        assert_eq!(names, ["winjax-cuda13-pjrt", "numpy", "jax"]);
    }
}
