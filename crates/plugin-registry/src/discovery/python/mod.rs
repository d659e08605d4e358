//! Searches Python environments for plugins, without running Python.
//!
//! In each environment, the search first looks at the entry points of the groups `jax_plugins`, `torch_xla.plugins` and
//! `xla_plugins`. It then looks at the modules of the namespace packages `jax_plugins` and `xla_plugins`. Last, it
//! looks at distributions that have a manifest in their metadata, or that contain a plugin and do not announce it. The
//! search looks for a plugin's library in the module's folder, then among the files of the announcing distribution,
//! then among the files of the distributions that the announcing distribution requires.

mod distribution;
mod environment;
mod installation;
mod known_packages;
mod meson;
mod module;
mod pyenv;
mod source;
mod windows;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

#[cfg(feature = "install")]
pub(crate) use distribution::normalize;
use distribution::{Distribution, EntryPoint};
use environment::PythonEnvironment;
use known_packages::KnownPlugin;
use module::Module;

use super::candidate::{Candidate, NameOrigin};
use super::collector::{Collector, refused};
use super::folder;
use super::provenance::{Place, Provenance, PythonAnnouncement, SourceKind};
use super::refusal::Refusal;
use crate::location::Location;

/// Groups of entry points that announce plugins.
const GROUPS: &[&str] = &["jax_plugins", "torch_xla.plugins", "xla_plugins"];
/// Namespace packages whose modules are plugins.
const NAMESPACES: &[&str] = &["jax_plugins", "xla_plugins"];
/// Maximum number of entry points that are read from one distribution. Real distributions have one or two.
const MOST_ENTRY_POINTS: usize = 256;
/// Maximum size in bytes of a module whose source is scanned.
const LARGEST_SOURCE: u64 = 1 << 20;

/// A Python environment and its installed distributions.
struct Installed {
    environment: PythonEnvironment,
    /// The distributions in the order of the module search path. Each normalized name occurs once.
    distributions: Vec<Distribution>,
    /// Indices into `distributions`, by normalized name.
    by_name: HashMap<String, usize>,
    /// Descriptions of the distributions that an earlier distribution of the same name shadows, by normalized name.
    shadowed: HashMap<String, Vec<String>>,
}

/// Libraries found for a plugin.
#[derive(Default)]
struct Libraries {
    /// Libraries that export `GetPjrtApi`.
    plugins: Vec<PathBuf>,
    /// Libraries that do not export `GetPjrtApi`. They explain why no plugin was found.
    others: Vec<PathBuf>,
    /// Folders and `RECORD` files that were searched.
    searched: Vec<PathBuf>,
    /// All libraries that were found, in `plugins` or `others`.
    met: HashSet<PathBuf>,
    /// The distribution that contains the plugin libraries, if another distribution announces the plugin.
    distribution: Option<String>,
}

/// The announcement of a plugin, the distribution that contains the announcement, and the dotted name of the module
/// that the announcement names.
struct Announced<'a> {
    distribution: Option<&'a Distribution>,
    announcement: PythonAnnouncement,
    module: Option<&'a str>,
}

impl Collector<'_> {
    /// Searches every Python environment. Returns the folders of their module search paths.
    pub(super) fn python(&mut self) -> Vec<PathBuf> {
        let mut sites: Vec<PathBuf> = Vec::new();
        // Several environments may share a folder. The plugins in that folder are found only in the first environment.
        let mut met = HashSet::new();
        for environment in self.python_environments() {
            let installed = Installed::of(environment);
            for site in &installed.environment.search_path {
                if !sites.contains(site) {
                    sites.push(site.clone());
                }
            }
            self.entry_points(&installed, &mut met);
            self.namespaces(&installed, &mut met);
            self.bare(&installed, &mut met);
        }
        sites
    }

    fn entry_points(&mut self, installed: &Installed, met: &mut HashSet<String>) {
        for distribution in &installed.distributions {
            let points = distribution.entry_points(GROUPS);
            if points.len() > MOST_ENTRY_POINTS {
                let message = format!(
                    "announces {} plugins by entry points; the first {MOST_ENTRY_POINTS} are looked at",
                    points.len()
                );
                self.note(distribution.describe(), message);
            }
            for point in points.into_iter().take(MOST_ENTRY_POINTS) {
                let key = format!("{} {} {} {}", distribution.metadata.display(), point.group, point.name, point.value);
                if !met.insert(key) {
                    continue;
                }
                let EntryPoint { group, name, value } = &point;
                let announcement =
                    PythonAnnouncement::EntryPoint { group: group.clone(), name: name.clone(), value: value.clone() };
                let announced =
                    Announced { distribution: Some(distribution), announcement, module: Some(point.module()) };
                let module = self.announced(installed, &announced);
                met.extend(module.map(|module| module_key(&module.source)));
            }
        }
    }

    fn namespaces(&mut self, installed: &Installed, met: &mut HashSet<String>) {
        let mut modules: Vec<(String, PathBuf)> = Vec::new();
        for namespace in NAMESPACES {
            let (folders, hidden) = module::namespace(&installed.environment, namespace);
            for hidden in hidden {
                let by = folders.first().map(|folder| folder.join("__init__.py")).unwrap_or_default();
                self.note(hidden.display().to_string(), format!("is hidden by {}; delete that file", by.display()));
            }
            let mapped = installed.environment.mapped.iter().filter_map(|(name, _)| name.split_once('.'));
            let mapped = mapped.filter(|(first, rest)| first == namespace && !rest.contains('.'));
            let names = folders.iter().flat_map(|folder| module::modules_in(folder));
            for name in names.chain(mapped.map(|(_, name)| name.to_owned())) {
                let dotted = format!("{namespace}.{name}");
                let (module, _) = module::find(&installed.environment, &dotted);
                // `find` returns the first module of this name in the search path. It shadows the modules of this name
                // in later folders, so add it only once.
                let Some(module) = module.filter(|module| met.insert(module_key(&module.source))) else { continue };
                modules.push((dotted, module.source));
            }
        }
        let owners = installed.owners(modules.iter().map(|(_, source)| source.as_path()));
        for (dotted, source) in &modules {
            let announcement = PythonAnnouncement::Namespace { module: dotted.clone() };
            let distribution = owners.get(source.as_path()).copied();
            self.announced(installed, &Announced { distribution, announcement, module: Some(dotted) });
        }
    }

    /// Adds the plugins of distributions that need no entry point or namespace module. These are distributions with a
    /// manifest, known distributions, and distributions whose name suggests a plugin. A distribution of the last kind
    /// is skipped if it contains no plugin library, or if the search has found all of its plugin libraries before.
    fn bare(&mut self, installed: &Installed, met: &mut HashSet<String>) {
        for distribution in &installed.distributions {
            let manifest = distribution.metadata.join(plugin_manifest::manifest::FILE_NAME);
            let known = known_packages::bare(&distribution.normalized);
            let named = known.is_some() || known_packages::suggests_a_plugin(&distribution.normalized);
            if !(named || manifest.is_file()) || !met.insert(distribution.metadata.display().to_string()) {
                continue;
            }
            let announced = Announced {
                distribution: Some(distribution),
                announcement: PythonAnnouncement::BarePackage,
                module: None,
            };
            if manifest.is_file() {
                let provenance = installed.provenance(&announced, None, None, &[]);
                let candidate = self.manifest_candidate(&manifest, provenance);
                self.add(candidate);
                continue;
            }
            let mut libraries = Libraries::default();
            self.sort_out(distribution.libraries(), &mut libraries);
            libraries.searched.push(distribution.metadata.join("RECORD"));
            let found_before = libraries.plugins.iter().all(|library| self.knows(library));
            if known.is_none() && (libraries.plugins.is_empty() || found_before) {
                continue;
            }
            self.libraries_of(installed, &announced, None, &[], &libraries, known);
        }
    }

    /// Adds the candidates of one announced plugin. Returns the module that the announcement names, if it was found.
    fn announced(&mut self, installed: &Installed, announced: &Announced<'_>) -> Option<Module> {
        let dotted = announced.module.unwrap_or_default();
        let (module, hidden) = module::find(&installed.environment, dotted);
        let mut libraries = Libraries::default();
        if let Some(package) = module.as_ref().and_then(|module| module.package.as_ref()) {
            self.sort_out(&module::libraries(package), &mut libraries);
            libraries.searched.push(package.clone());
            let within = |(name, _): &&(String, PathBuf)| {
                name.strip_prefix(dotted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            let elsewhere = installed.environment.libraries.iter().filter(within).map(|(_, file)| file.clone());
            self.sort_out(&elsewhere.collect::<Vec<_>>(), &mut libraries);
        }
        if let Some(distribution) = announced.distribution {
            if libraries.plugins.is_empty() {
                self.sort_out(distribution.libraries(), &mut libraries);
                libraries.searched.push(distribution.metadata.join("RECORD"));
            }
            if libraries.plugins.is_empty() {
                for required in distribution.requires() {
                    let Some(other) = installed.distribution(required) else { continue };
                    let mut theirs = Libraries::default();
                    self.sort_out(other.libraries(), &mut theirs);
                    libraries.searched.push(other.metadata.join("RECORD"));
                    if !theirs.plugins.is_empty() {
                        libraries.plugins = theirs.plugins;
                        libraries.distribution = Some(other.name.clone());
                        break;
                    }
                }
            }
            if libraries.plugins.is_empty() && known_packages::brings_no_library(&distribution.normalized) {
                let message =
                    format!("{}: its library comes from a variable or another package", announced.announcement);
                self.note(distribution.describe(), message);
                return module;
            }
        }
        self.libraries_of(installed, announced, module.as_ref(), &hidden, &libraries, known_packages::module(dotted));
        module
    }

    /// Separates the libraries that export `GetPjrtApi` from all others. A library that cannot be read belongs to the
    /// others.
    fn sort_out(&self, files: &[PathBuf], libraries: &mut Libraries) {
        for file in files.iter().filter(|file| libraries.met.insert((*file).clone())) {
            let plugin = matches!(&*self.libraries.inspect(file), Ok(facts) if facts.exports.get_pjrt_api);
            let list = if plugin { &mut libraries.plugins } else { &mut libraries.others };
            list.push(file.clone());
        }
    }

    /// Adds a candidate for each plugin library. If there is no plugin library, adds one candidate with the reason.
    fn libraries_of(
        &mut self,
        installed: &Installed,
        announced: &Announced<'_>,
        module: Option<&Module>,
        hidden: &[PathBuf],
        libraries: &Libraries,
        known: Option<KnownPlugin>,
    ) {
        let provenance = installed.provenance(announced, module, libraries.distribution.as_deref(), hidden);
        let mut candidates: Vec<Candidate> = libraries
            .plugins
            .iter()
            .map(|library| Candidate::new(Location::File(library.clone()), provenance.clone()))
            .collect();
        if candidates.is_empty() {
            candidates.push(self.without_plugin(provenance, libraries));
        }
        for mut candidate in candidates {
            if let Some(known) = known {
                candidate.add_name(known.name, NameOrigin::Known);
                candidate.priority = known.priority;
            }
            if let Some(call) = module.and_then(|module| register_call(&module.source)) {
                candidate.add_name(&call.name, NameOrigin::RegisterCall);
                candidate.priority = call.priority.or(candidate.priority);
            }
            if let PythonAnnouncement::EntryPoint { name, value, group } = &announced.announcement {
                candidate.add_name(name, NameOrigin::EntryPoint);
                if group == "jax_plugins" && value.contains(':') {
                    candidate
                        .notes
                        .push(format!("JAX cannot import {value:?}; the entry point must name a module alone"));
                }
            }
            match announced.module {
                Some(dotted) => {
                    // The name of a module within a vendor's package, such as `acme.torch_xla_plugin`, does not
                    // identify the plugin.
                    let (package, last) = dotted.split_once('.').unwrap_or(("", dotted));
                    let entry_point = matches!(announced.announcement, PythonAnnouncement::EntryPoint { .. });
                    if !entry_point || matches!(package, "" | "jax_plugins" | "xla_plugins") {
                        candidate.add_name(last.rsplit('.').next().unwrap_or(last), NameOrigin::Module);
                    }
                    if module.is_none() {
                        candidate.notes.push(format!("the module {dotted:?} was not found in the search path"));
                    }
                }
                None => {
                    let distribution = announced.distribution.map(|d| d.normalized.replace('-', "_"));
                    candidate.add_name(&distribution.unwrap_or_default(), NameOrigin::Module);
                    if known.is_none()
                        && let Some(library) = candidate.location.path()
                    {
                        let guess = folder::guess_name(folder::name(library));
                        candidate.add_name(&guess, NameOrigin::File);
                    }
                }
            }
            if let Some(url) = announced.distribution.and_then(Distribution::editable) {
                candidate.notes.push(format!("an editable installation of {url}"));
            }
            self.add(candidate);
        }
    }

    /// Returns a candidate for a package without a plugin library. If the package contains a library that is not a
    /// Python extension module, the candidate has this library, and a later check adds the reason why it is not a
    /// plugin. Otherwise, the candidate has a refusal.
    fn without_plugin(&self, provenance: Provenance, libraries: &Libraries) -> Candidate {
        // Python extension modules are not meant to be plugin libraries, so they do not explain the missing plugin.
        let telling = libraries.others.iter().find(|file| {
            let name = folder::name(file);
            !name.contains(".cpython-") && !name.contains(".abi3.") && !name.contains(".pyd")
        });
        match telling {
            Some(file) => Candidate::new(Location::File(file.clone()), provenance),
            None => refused(provenance, vec![Refusal::NoLibrary { searched: libraries.searched.clone() }]),
        }
    }
}

impl Installed {
    /// Lists the distributions in every folder of the module search path.
    fn of(environment: PythonEnvironment) -> Self {
        let mut distributions: Vec<Distribution> = Vec::new();
        let mut by_name: HashMap<String, usize> = HashMap::new();
        let mut shadowed: HashMap<String, Vec<String>> = HashMap::new();
        for site in &environment.search_path {
            for entry in folder::files(site) {
                let Some(distribution) = Distribution::of(site, folder::name(&entry)) else { continue };
                if by_name.contains_key(&distribution.normalized) {
                    shadowed.entry(distribution.normalized.clone()).or_default().push(distribution.describe());
                } else {
                    by_name.insert(distribution.normalized.clone(), distributions.len());
                    distributions.push(distribution);
                }
            }
        }
        Self { environment, distributions, by_name, shadowed }
    }

    /// Returns the distribution with this normalized name.
    fn distribution(&self, name: &str) -> Option<&Distribution> {
        self.by_name.get(name).and_then(|&index| self.distributions.get(index))
    }

    /// Returns the distribution that installed each file. Reads the list of files of each distribution at most once.
    fn owners<'a>(&'a self, files: impl Iterator<Item = &'a Path>) -> HashMap<PathBuf, &'a Distribution> {
        let mut wanted: HashSet<&Path> = files.collect();
        let mut owners = HashMap::new();
        for distribution in &self.distributions {
            if wanted.is_empty() {
                break;
            }
            for file in distribution.files() {
                if wanted.remove(file.as_path()) {
                    owners.insert(file, distribution);
                }
            }
        }
        owners
    }

    fn provenance(
        &self,
        announced: &Announced<'_>,
        module: Option<&Module>,
        library_of: Option<&str>,
        hidden: &[PathBuf],
    ) -> Provenance {
        let distribution = announced.distribution;
        let directory =
            distribution.map(|d| &d.site).or(module.map(|module| &module.site)).cloned().unwrap_or_default();
        let mut provenance = Provenance::new(
            SourceKind::Python,
            Place::Python {
                environment: self.environment.root.clone(),
                directory,
                distribution: distribution.map(|d| d.name.clone()),
                version: distribution.and_then(|d| d.version.clone()),
                announcement: announced.announcement.clone(),
                library_distribution: library_of.map(str::to_owned),
            },
        );
        if let Some(others) = distribution.and_then(|d| self.shadowed.get(&d.normalized)) {
            provenance.shadowed.extend(others.iter().cloned());
        }
        provenance.shadowed.extend(hidden.iter().map(|path| path.display().to_string()));
        provenance
    }
}

/// Returns the names of the entry points through which the distribution in `site` with the metadata folder `metadata`
/// announces plugins, without duplicates.
#[cfg(feature = "install")]
pub(crate) fn announced_names(site: &Path, metadata: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let points = Distribution::of(site, metadata).map(|distribution| distribution.entry_points(GROUPS));
    for point in points.unwrap_or_default().into_iter().take(MOST_ENTRY_POINTS) {
        if !names.contains(&point.name) {
            names.push(point.name);
        }
    }
    names
}

fn module_key(source: &Path) -> String {
    format!("module {}", source.display())
}

fn register_call(source: &Path) -> Option<source::RegisterCall> {
    source::register_call(&folder::read_text(source, LARGEST_SOURCE)?)
}
