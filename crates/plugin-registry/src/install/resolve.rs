//! Chooses versions and files of the requested packages and of the packages that they require.
//!
//! The choice takes the newest version that satisfies the requirements found so far. If a later requirement contradicts
//! a choice, the search starts again and keeps all requirements. This suits packages of libraries, whose requirements
//! hardly differ between versions.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io::Read;

use pep440_rs::Version;
use sha2::{Digest, Sha256};

use super::download::Downloader;
use super::error::{InstallError, Wanted};
use super::http::network;
use super::index::{Index, IndexFile};
use super::marker::Environment;
use super::metadata::{LARGEST, Metadata};
use super::plan::{InstallPlan, LeftOut, PlannedPackage};
use super::platform::Platform;
use super::remote_file::RemoteFile;
use super::request::InstallRequest;
use super::requirement::Requirement;
use super::unpack::metadata_of;
use super::watch::{Event, Watch};
use crate::discovery::hex;

/// Maximum number of searches. Each one adds a requirement.
const MOST_ROUNDS: usize = 100;
/// Maximum number of packages.
const MOST_PACKAGES: usize = 500;
/// Number of versions that an error lists.
const SHOWN: usize = 5;

/// The part that a package has in an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The package with the plugin.
    Plugin,
    /// A package whose metadata is read. It is not installed.
    Companion,
    /// A package with libraries that the request names.
    Named,
    /// A package that another one requires.
    Required,
}

struct Asked {
    requirement: Requirement,
    by: String,
    role: Role,
}

struct Choice {
    role: Role,
    file: IndexFile,
    metadata: Metadata,
    extras: BTreeSet<String>,
}

impl Choice {
    /// Returns whether this is a required package that cannot contain a library.
    fn is_python_code(&self) -> bool {
        self.role == Role::Required && self.file.wheel.is_for_any_platform()
    }
}

/// Searches the indexes.
pub(super) struct Resolver<'a> {
    downloader: &'a Downloader,
    platform: &'a Platform,
    /// The indexes in the order of the search. The first index that has a package is used for it.
    indexes: Vec<Index>,
    pages: HashMap<String, Vec<IndexFile>>,
    metadata: HashMap<String, Metadata>,
    /// All requirements that were found, by package.
    wanted: BTreeMap<String, Vec<(Requirement, String)>>,
}

/// The reason to search again: a requirement contradicts an earlier choice.
struct Contradiction;

impl<'a> Resolver<'a> {
    pub(super) fn new(downloader: &'a Downloader, platform: &'a Platform, indexes: Vec<Index>) -> Self {
        Self { downloader, platform, indexes, pages: HashMap::new(), metadata: HashMap::new(), wanted: BTreeMap::new() }
    }

    /// Chooses the packages for a request.
    pub(super) fn resolve(mut self, request: &InstallRequest, watch: Watch<'_>) -> Result<InstallPlan, InstallError> {
        for _ in 0..MOST_ROUNDS {
            if let Ok(plan) = self.round(request, watch)? {
                return Ok(plan);
            }
        }
        let package = request.plugin.package.clone();
        let message = "its requirements are too complex".to_owned();
        Err(InstallError::Metadata { file: package, message })
    }

    fn round(
        &mut self,
        request: &InstallRequest,
        watch: Watch<'_>,
    ) -> Result<Result<InstallPlan, Contradiction>, InstallError> {
        let asked = |requirement: &Requirement, role| Asked {
            requirement: requirement.clone(),
            by: "the request".to_owned(),
            role,
        };
        let mut queue = VecDeque::from([asked(&request.plugin, Role::Plugin)]);
        queue.extend(request.companion.iter().map(|companion| asked(companion, Role::Companion)));
        queue.extend(request.libraries.iter().map(|library| asked(library, Role::Named)));
        let mut chosen: Vec<Choice> = Vec::new();
        let mut left_out: Vec<LeftOut> = Vec::new();
        while let Some(Asked { requirement, by, role }) = queue.pop_front() {
            self.want(&requirement, &by);
            if let Some(known) = chosen.iter_mut().find(|known| known.file.wheel.package == requirement.package) {
                // The version of a package that is not installed does not matter.
                if !requirement.versions.contains(&known.file.wheel.version) && !known.is_python_code() {
                    return Ok(Err(Contradiction));
                }
                let before = known.extras.len();
                known.extras.extend(requirement.extras.iter().cloned());
                if known.extras.len() != before {
                    self.add_requirements(known, &mut queue, &mut left_out);
                }
                continue;
            }
            // A requirement of the user must be satisfied, but one of a package may be for Python code.
            let optional = role == Role::Required;
            let mut leave_out = |why: String, is_python_code| {
                let requirement = requirement.to_string();
                left_out.push(LeftOut { requirement, by: by.clone(), why, is_python_code });
            };
            let file = match self.choose(&requirement.package, watch) {
                Ok(file) => file,
                Err(error @ (InstallError::NoPackage { .. } | InstallError::NoWheel { .. })) if optional => {
                    leave_out(error.to_string(), false);
                    continue;
                }
                Err(error @ InstallError::NoVersion { .. })
                    if optional && !self.has_libraries(&requirement.package) =>
                {
                    leave_out(error.to_string(), true);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if role == Role::Required && !file.wheel.is_for_any_python() {
                leave_out("its wheel is for one version of Python".to_owned(), true);
                continue;
            }
            let metadata = self.metadata(&file, watch)?;
            let choice = Choice { role, file, metadata, extras: requirement.extras.clone() };
            if !request.alone {
                self.add_requirements(&choice, &mut queue, &mut left_out);
            }
            chosen.push(choice);
            if chosen.len() > MOST_PACKAGES {
                let message = format!("it requires more than {MOST_PACKAGES} packages");
                return Err(InstallError::Metadata { file: request.plugin.package.clone(), message });
            }
        }
        let mut packages = Vec::new();
        for choice in chosen {
            if choice.role == Role::Companion || choice.is_python_code() {
                continue;
            }
            let Choice { file, metadata, .. } = choice;
            if file.sha256.is_none() {
                return Err(InstallError::NoHash { file: file.file });
            }
            packages.push(PlannedPackage { file, metadata });
        }
        left_out.dedup();
        Ok(Ok(InstallPlan { request: request.clone(), packages, left_out }))
    }

    /// Records a requirement, unless it is known.
    fn want(&mut self, requirement: &Requirement, by: &str) {
        let wanted = self.wanted.entry(requirement.package.clone()).or_default();
        if !wanted.iter().any(|(known, _)| known.versions == requirement.versions) {
            wanted.push((requirement.clone(), by.to_owned()));
        }
    }

    /// Adds the requirements of a package to the queue. Those that cannot be understood are left out, because most
    /// requirements are for Python code.
    fn add_requirements(&self, choice: &Choice, queue: &mut VecDeque<Asked>, left_out: &mut Vec<LeftOut>) {
        let by = &choice.file.wheel.package;
        for (text, requirement) in &choice.metadata.requires {
            let environment = Environment { platform: self.platform, extras: &choice.extras };
            let requirement = requirement
                .clone()
                .and_then(|requirement| Ok(requirement.applies(environment)?.then_some(requirement)));
            match requirement {
                Ok(None) => {}
                Ok(Some(requirement)) => queue.push_back(Asked { requirement, by: by.clone(), role: Role::Required }),
                Err(why) => {
                    let (requirement, by) = (text.clone(), by.clone());
                    left_out.push(LeftOut { requirement, by, why, is_python_code: false });
                }
            }
        }
    }

    /// Returns whether a version of a package has a wheel that may contain libraries for this machine.
    fn has_libraries(&self, package: &str) -> bool {
        let is_library = |file: &IndexFile| {
            let wheel = &file.wheel;
            wheel.is_for_any_python() && !wheel.is_for_any_platform() && self.platform.fit(wheel).is_some()
        };
        self.pages.get(package).is_some_and(|files| files.iter().any(is_library))
    }

    /// Chooses a file of a package that satisfies all requirements found so far.
    fn choose(&mut self, package: &str, watch: Watch<'_>) -> Result<IndexFile, InstallError> {
        self.read_page(package, watch)?;
        let wanted = self.wanted.get(package).map(Vec::as_slice).unwrap_or_default();
        let files = self.pages.get(package).map(Vec::as_slice).unwrap_or_default();
        let fitting: Vec<_> =
            files.iter().filter_map(|file| self.platform.fit(&file.wheel).map(|fit| (file, fit))).collect();
        let satisfying = |file: &IndexFile| {
            let version = &file.wheel.version;
            let named = wanted.iter().any(|(requirement, _)| requirement.names(version));
            let all = wanted.iter().all(|(requirement, _)| requirement.versions.contains(version));
            all && (!file.yanked || named)
        };
        let before_release = wanted.iter().any(|(requirement, _)| requirement.mentions_prerelease());
        let best = |prereleases: bool| {
            let candidates = fitting.iter().filter(|(file, _)| prereleases || !file.wheel.version.any_prerelease());
            let candidates = candidates.filter(|(file, _)| satisfying(file));
            candidates.max_by(|(one, one_fit), (other, other_fit)| {
                (&one.wheel.version, one_fit).cmp(&(&other.wheel.version, other_fit))
            })
        };
        let best = best(before_release).or_else(|| best(true));
        if let Some((file, _)) = best {
            return Ok((*file).clone());
        }
        if fitting.is_empty() || files.iter().any(satisfying) {
            let offered = files.iter().filter(|file| fitting.is_empty() || satisfying(file));
            let tags: BTreeSet<String> = offered.flat_map(|file| file.wheel.platforms.iter().cloned()).collect();
            let versions = wanted.iter().find(|(requirement, _)| !requirement.versions.is_empty());
            let package = versions.map_or_else(|| package.to_owned(), |(requirement, _)| requirement.to_string());
            return Err(InstallError::NoWheel {
                package,
                machine: self.platform.to_string(),
                tags: tags.into_iter().collect(),
            });
        }
        let versions: BTreeSet<&Version> = fitting.iter().map(|(file, _)| &file.wheel.version).collect();
        let wanted = wanted.iter().filter(|(requirement, _)| !requirement.versions.is_empty());
        let wanted = wanted.map(|(requirement, by)| Wanted { requirement: requirement.to_string(), by: by.clone() });
        Err(InstallError::NoVersion {
            package: package.to_owned(),
            wanted: wanted.collect(),
            versions: versions.iter().rev().take(SHOWN).map(ToString::to_string).collect(),
        })
    }

    /// Reads a package's page in the first index that has the package.
    fn read_page(&mut self, package: &str, watch: Watch<'_>) -> Result<(), InstallError> {
        if self.pages.contains_key(package) {
            return Ok(());
        }
        watch(Event::Lookup { package });
        let mut asked = Vec::new();
        for index in &self.indexes {
            asked.push(index.url().to_string());
            if let Some(files) = index.wheels(self.downloader.http(), package)? {
                self.pages.insert(package.to_owned(), files);
                return Ok(());
            }
            // Nobody else's package of this name is the vendor's plugin.
            if index.vendor_of == Some(package) {
                break;
            }
        }
        Err(InstallError::NoPackage { package: package.to_owned(), indexes: asked })
    }

    /// Reads the metadata of a file: from the index, from the end of the wheel, or from the downloaded wheel.
    fn metadata(&mut self, file: &IndexFile, watch: Watch<'_>) -> Result<Metadata, InstallError> {
        if let Some(known) = self.metadata.get(&file.file) {
            return Ok(known.clone());
        }
        watch(Event::Lookup { package: &file.wheel.package });
        let metadata = match self.separate_metadata(file)? {
            Some(metadata) => metadata,
            None => self.metadata_in(file, watch)?,
        };
        self.metadata.insert(file.file.clone(), metadata.clone());
        Ok(metadata)
    }

    /// Reads the metadata that the index has as a file of its own.
    fn separate_metadata(&self, file: &IndexFile) -> Result<Option<Metadata>, InstallError> {
        let Some(hash) = &file.metadata else { return Ok(None) };
        let mut address = file.address.clone();
        address.url.set_path(&format!("{}.metadata", file.address.url.path()));
        let Some(answer) = self.downloader.http().find(&address, "*/*")? else { return Ok(None) };
        let mut bytes = Vec::new();
        let read = answer.into_body().into_reader().take(LARGEST).read_to_end(&mut bytes);
        read.map_err(|error| network(&address, &error))?;
        let actual = hex(Sha256::new_with_prefix(&bytes));
        if let Some(expected) = hash.as_ref().filter(|expected| **expected != actual) {
            let url = address.url.to_string();
            return Err(InstallError::WrongHash { url, expected: expected.clone(), actual });
        }
        Ok(Some(Metadata::parse(&String::from_utf8_lossy(&bytes))))
    }

    fn metadata_in(&self, file: &IndexFile, watch: Watch<'_>) -> Result<Metadata, InstallError> {
        if let Some(remote) = RemoteFile::open(self.downloader.http(), &file.address, file.size)
            && let Ok(metadata) = metadata_of(remote, &file.file)
        {
            return Ok(metadata);
        }
        let path = self.downloader.fetch(file, watch)?;
        let wheel = std::fs::File::open(&path).map_err(InstallError::io(&path))?;
        metadata_of(wheel, &file.file)
    }
}
