//! Searches the environment variables that name libraries. Each variable has the meaning that its project defines.

use std::path::{Path, PathBuf};

use plugin_manifest::manifest::MAX_NAME_LENGTH;

use super::candidate::{Candidate, NameOrigin};
use super::collector::{Collector, refused};
use super::folder;
use super::provenance::{Place, Provenance, SourceKind};
use super::refusal::Refusal;
use super::report::SelectionHint;
use crate::location::Location;
use crate::variables::{ADD_MANIFESTS, ALLOWLIST, DISABLE, MANIFESTS, SELECT};

/// A variable that discovery reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Variable {
    /// Name of the variable. `PJRT_PLUGIN_PATH_<PLATFORM>` represents one variable for each platform.
    pub name: &'static str,
    /// The project that defines the variable, the syntax of the value, and its meaning.
    pub meaning: &'static str,
    kind: Kind,
}

/// How the search uses a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// JAX's comma-separated list of plugin names and library paths.
    NamesAndPaths,
    /// Path of a library. The field is the plugin's name. If the field is `None`, the name is derived from the file
    /// name.
    Library(Option<&'static str>),
    /// Path of a library. The variable's name ends with the name of the platform.
    PlatformLibrary,
    /// Path of a library, or the plugin's name, a colon and the path.
    TypeAndPath,
    /// Folders with conventionally named libraries and manifests.
    Folders,
    /// Folder with one library. The fields are the plugin's name and the library's file name.
    LibraryIn(&'static str, &'static str),
    /// Another module of discovery reads the variable.
    Elsewhere,
}

const fn variable(name: &'static str, kind: Kind, meaning: &'static str) -> Variable {
    Variable { name, meaning, kind }
}

/// The variables that [`variables`] returns. Those that name libraries are in the order of the search.
const VARIABLES: &[Variable] = &[
    variable(
        "PJRT_NAMES_AND_LIBRARY_PATHS",
        Kind::NamesAndPaths,
        "JAX: `name:path,name:path` (`;` for `:` on Windows). A path that ends in `.json` is a file with `library_path` \
         and, optionally, `create_options`. If a name is given twice, the last item counts.",
    ),
    variable(
        "PJRT_LIBRARY_PATH",
        Kind::Library(Some("library")),
        "PyTorch/XLA: the library of the placeholder device `LIBRARY`, which PJRT_DEVICE=LIBRARY selects.",
    ),
    variable(
        "PJRT_PLUGIN_LIBRARY_PATH",
        Kind::Folders,
        "gopjrt and OpenXLA's proposal: folders, searched for `pjrt-plugin-*`, `pjrt_plugin_*` and \
         `pjrt_c_api_*_plugin` libraries, and for manifests named `pjrt_plugin.json` or `pjrt-plugin-*.json`.",
    ),
    variable(
        "TPU_LIBRARY_PATH",
        Kind::Library(Some("tpu")),
        "JAX, PyTorch/XLA and libtpu: the TPU library. If the file is missing, JAX uses the package libtpu.",
    ),
    variable(
        "PTXLA_TPU_LIBRARY_PATH",
        Kind::Library(Some("tpu")),
        "PyTorch/XLA: the TPU library, if TPU_LIBRARY_PATH is not set.",
    ),
    variable("XPU_LIBRARY_PATH", Kind::Library(Some("xpu")), "PyTorch/XLA: the library of Intel GPUs."),
    variable("NEURON_LIBRARY_PATH", Kind::Library(Some("neuron")), "PyTorch/XLA: the library of AWS Neuron."),
    variable("PYPJRT_PLUGIN", Kind::Library(None), "pypjrt: one library."),
    variable("PJRT_PLUGIN_PATH", Kind::Library(None), "pjrt-rs: one library."),
    variable(
        "PJRT_PLUGIN_PATH_<PLATFORM>",
        Kind::PlatformLibrary,
        "r-xla: the library of the platform that ends the variable's name.",
    ),
    variable(
        "XLA_PJRT_PLUGIN",
        Kind::TypeAndPath,
        "A library, or `type:path` with the plugin's name before the colon.",
    ),
    variable("JAX_MPS_LIBRARY_PATH", Kind::Library(Some("mps")), "jax-mps: its library."),
    variable("METALJAX_PLUGIN_PATH", Kind::Library(Some("metal")), "metaljax: its library."),
    variable(
        "TT_PJRT_PLUGIN_DIR",
        Kind::LibraryIn("tt", "pjrt_plugin_tt.so"),
        "tt-xla: the folder that holds `pjrt_plugin_tt.so`.",
    ),
    variable("PJRT_DEVICE", Kind::Elsewhere, "PyTorch/XLA: the name of the device to use. A hint for selection."),
    variable(
        "JAX_PLATFORMS",
        Kind::Elsewhere,
        "JAX: the names of the platforms to use, in order. A hint for selection.",
    ),
    variable(MANIFESTS, Kind::Elsewhere, "Manifest files or folders, which are then the only source."),
    variable(ADD_MANIFESTS, Kind::Elsewhere, "Manifest files or folders to search first."),
    variable(
        SELECT,
        Kind::Elsewhere,
        "Comma-separated patterns with `*` and `?`. Only plugins are used with a name or manifest file name that \
         matches.",
    ),
    variable(
        DISABLE,
        Kind::Elsewhere,
        "Patterns of plugins that are not used. `~all~` disables all plugins that are not selected.",
    ),
    variable(ALLOWLIST, Kind::Elsewhere, "A file of sha256 sums. All other libraries are refused."),
    variable("TF_PLUGGABLE_DEVICE_LIBRARY_PATH", Kind::Elsewhere, "TensorFlow: a plugin library or a folder of them."),
    variable(
        "LD_LIBRARY_PATH",
        Kind::Elsewhere,
        "Folders of the dynamic loader's search. Only conventional names are found there.",
    ),
];

/// Returns every environment variable that discovery reads by name, with its meaning. Common variables (`HOME`, `PATH`,
/// `XDG_*`, `VIRTUAL_ENV`, `CONDA_PREFIX`, `PYTHONPATH` ...) and the variables that
/// [`Discovery::machine`](super::Discovery::machine) describes are not listed.
pub fn variables() -> &'static [Variable] {
    VARIABLES
}

/// Prefix of the variables whose name ends with a platform.
const PLATFORM_PREFIX: &str = "PJRT_PLUGIN_PATH_";

impl Collector<'_> {
    /// Adds a candidate for each library that an environment variable names.
    pub(super) fn environment(&mut self) {
        if self.discovery.elevated {
            for variable in VARIABLES.iter().filter(|variable| variable.kind != Kind::Elsewhere) {
                if self.discovery.get(variable.name).is_some() {
                    self.note(variable.name, "ignored, because this process runs with elevated privileges");
                }
            }
            return;
        }
        for variable in VARIABLES {
            if variable.kind == Kind::PlatformLibrary {
                self.platform_libraries();
                continue;
            }
            let Some(value) = self.discovery.get(variable.name) else { continue };
            match variable.kind {
                Kind::NamesAndPaths => self.names_and_paths(variable.name, &value.to_string_lossy()),
                Kind::Library(name) => self.library_of_variable(variable.name, name, Path::new(value)),
                Kind::TypeAndPath => self.type_and_path(variable.name, &value.to_string_lossy()),
                Kind::Folders => self.folders_of_variable(variable.name),
                Kind::LibraryIn(name, file) => {
                    self.library_of_variable(variable.name, Some(name), &Path::new(value).join(file));
                }
                Kind::PlatformLibrary | Kind::Elsewhere => {}
            }
        }
        self.placeholder_without_path();
    }

    /// Adds a hint for each variable in which the user requests devices by name.
    pub(super) fn hints(&mut self) {
        for variable in ["PJRT_DEVICE", "JAX_PLATFORMS"] {
            let Some(value) = self.discovery.get(variable) else { continue };
            let value = value.to_string_lossy().to_lowercase();
            let names: Vec<String> =
                value.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
            if !names.is_empty() {
                self.hint(SelectionHint::new(variable, names));
            }
        }
    }

    fn provenance(variable: &str, item: &str) -> Provenance {
        let place = Place::Variable { name: variable.to_owned(), item: item.to_owned(), config: None };
        Provenance::new(SourceKind::Environment, place)
    }

    /// Creates the candidate of the library at `path`, which a variable names. If `name` is `None`, guesses the
    /// plugin's name from the file name. If the name is too long or the library is not found, the candidate has a
    /// refusal.
    pub(super) fn candidate_of_variable(
        &mut self,
        provenance: Provenance,
        name: Option<(&str, NameOrigin)>,
        path: &Path,
    ) -> Candidate {
        let mut candidate = Candidate::new(Location::Unknown, provenance);
        if let Some((name, origin)) = name {
            candidate.add_name(name, origin);
            if name.len() > MAX_NAME_LENGTH {
                let message = format!("the name has {} bytes; write at most {MAX_NAME_LENGTH} bytes", name.len());
                let variable = match &candidate.provenance.place {
                    Place::Variable { name, .. } => name.clone(),
                    _ => String::new(),
                };
                candidate.refusals.push(bad_item(&variable, name, &message));
            }
        }
        match self.library(path) {
            Ok(library) => {
                self.search(SourceKind::Environment, &library);
                if name.is_none() {
                    candidate.add_name(&folder::guess_name(folder::name(&library)), NameOrigin::File);
                }
                candidate.location = Location::File(library);
            }
            Err(refusal) => {
                if name.is_none() {
                    candidate.add_name(&folder::guess_name(folder::name(path)), NameOrigin::File);
                }
                candidate.refusals.push(refusal);
            }
        }
        candidate
    }

    fn library_of_variable(&mut self, variable: &str, name: Option<&str>, path: &Path) {
        let provenance = Self::provenance(variable, &path.to_string_lossy());
        let candidate = self.candidate_of_variable(provenance, name.map(|name| (name, NameOrigin::Known)), path);
        self.add(candidate);
    }

    fn platform_libraries(&mut self) {
        let windows = self.discovery.is_windows();
        let begins = |name: &str| {
            name.starts_with(PLATFORM_PREFIX) || (windows && name.to_ascii_uppercase().starts_with(PLATFORM_PREFIX))
        };
        // The map is sorted by name, so the order of the candidates is deterministic.
        let found: Vec<(String, PathBuf)> = self
            .discovery
            .environment
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), PathBuf::from(value))))
            .filter(|(name, _)| name.len() > PLATFORM_PREFIX.len() && begins(name))
            .collect();
        for (variable, path) in found {
            let platform = variable[PLATFORM_PREFIX.len()..].to_owned();
            let provenance = Self::provenance(&variable, &path.to_string_lossy());
            let candidate = self.candidate_of_variable(provenance, Some((&platform, NameOrigin::Given)), &path);
            self.add(candidate);
        }
    }

    fn type_and_path(&mut self, variable: &str, value: &str) {
        let provenance = Self::provenance(variable, value);
        let is_name = |name: &str| {
            // One letter before a colon is a Windows drive.
            name.len() > 1 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        };
        let candidate = match value.split_once(':').filter(|(name, _)| is_name(name)) {
            Some((name, "")) => {
                let mut candidate = refused(
                    provenance,
                    vec![bad_item(variable, value, "the path is missing; write it after the colon")],
                );
                candidate.add_name(name, NameOrigin::Given);
                candidate
            }
            Some((name, path)) => {
                self.candidate_of_variable(provenance, Some((name, NameOrigin::Given)), Path::new(path))
            }
            None => self.candidate_of_variable(provenance, None, Path::new(value)),
        };
        self.add(candidate);
    }

    fn folders_of_variable(&mut self, variable: &str) {
        for path in self.discovery.paths(variable) {
            let source = SourceKind::Environment;
            if !self.search(source, &path) {
                self.note(variable, format!("{} does not exist", path.display()));
            } else if path.is_dir() {
                self.conventional_folder(source, &path, Some(variable));
            } else {
                let message = format!(
                    "the variable is a list of folders; write the folder {}",
                    path.parent().unwrap_or(&path).display()
                );
                let refusal = bad_item(variable, &path.to_string_lossy(), &message);
                let provenance = Self::provenance(variable, &path.to_string_lossy());
                self.add(refused(provenance, vec![refusal]));
            }
        }
    }

    /// Adds a refused candidate if `PJRT_DEVICE=LIBRARY` is set and `PJRT_LIBRARY_PATH` is not. PyTorch/XLA fails in
    /// this case without stating the reason.
    fn placeholder_without_path(&mut self) {
        let is_asked_for =
            self.discovery.get("PJRT_DEVICE").is_some_and(|device| device.eq_ignore_ascii_case("LIBRARY"));
        if is_asked_for && self.discovery.get("PJRT_LIBRARY_PATH").is_none() {
            let refusal = bad_item("PJRT_DEVICE", "LIBRARY", "set PJRT_LIBRARY_PATH to the library's path too");
            let mut candidate = refused(Self::provenance("PJRT_DEVICE", "LIBRARY"), vec![refusal]);
            candidate.add_name("library", NameOrigin::Known);
            self.add(candidate);
        }
    }
}

/// Creates the refusal of an invalid item in the value of an environment variable.
pub(super) fn bad_item(variable: &str, item: &str, message: &str) -> Refusal {
    Refusal::BadEnvironmentItem { variable: variable.to_owned(), item: item.to_owned(), message: message.to_owned() }
}
