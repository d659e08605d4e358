//! The source and the place in which a candidate was found.

use std::fmt;
use std::path::PathBuf;

/// The kind of source in which a candidate was found. The order of the variants is the order of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SourceKind {
    /// The plugin was registered by the program, or is linked into the program. Only a
    /// [`PluginRegistry`](crate::PluginRegistry) uses this kind.
    Explicit,
    /// A manifest named by `PJRT_REGISTRY_MANIFESTS`. If this variable is set, no other source is searched.
    ManifestOverride,
    /// A manifest named by `PJRT_REGISTRY_ADD_MANIFESTS`.
    ManifestAdded,
    /// An environment variable that names a library.
    Environment,
    /// A manifest in one of the manifest directories.
    Manifest,
    /// A folder with plugins that `pjrt install` installed.
    Installed,
    /// A Python environment, searched without running Python.
    Python,
    /// TensorFlow's plugin folder or environment variable.
    TensorFlow,
    /// A conventional file name in a conventional folder.
    Conventional,
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Explicit => "explicit",
            Self::ManifestOverride => "manifest override",
            Self::ManifestAdded => "added manifest",
            Self::Environment => "environment",
            Self::Manifest => "manifest",
            Self::Installed => "installed",
            Self::Python => "python",
            Self::TensorFlow => "tensorflow",
            Self::Conventional => "conventional",
        })
    }
}

/// How a Python package announces its plugin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PythonAnnouncement {
    /// An entry point.
    EntryPoint {
        /// `jax_plugins`, `torch_xla.plugins` or `xla_plugins`.
        group: String,
        /// Name to the left of `=`.
        name: String,
        /// `module` or `module:attribute`, to the right of `=`.
        value: String,
    },
    /// A module in the `jax_plugins` or `xla_plugins` namespace package.
    Namespace {
        /// Full module name, such as `jax_plugins.mine`.
        module: String,
    },
    /// No announcement. The package has a manifest in its metadata, is a known package, or has a name that suggests a
    /// plugin.
    BarePackage,
}

/// The exact place where a candidate was found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Place {
    /// The program registered the plugin.
    Program {
        /// The code that registered the plugin, such as the name of a function.
        by: String,
    },
    /// An environment variable.
    Variable {
        /// Name of the variable.
        name: String,
        /// The item of the variable's value that names this candidate.
        item: String,
        /// The configuration file that the item names, if any.
        config: Option<PathBuf>,
    },
    /// A manifest file.
    Manifest {
        /// Path of the manifest file.
        path: PathBuf,
        /// The variable that names the manifest or its folder, if any.
        variable: Option<String>,
    },
    /// A plugin that `pjrt install` installed from a package.
    Installed {
        /// The folder of the plugin.
        folder: PathBuf,
        /// Name of the package.
        package: String,
        /// Version of the package.
        version: String,
    },
    /// A Python distribution or module.
    Python {
        /// Root of the Python environment, such as a virtual environment's folder.
        environment: PathBuf,
        /// The folder of the module search path that contains the distribution or module, such as a `site-packages`
        /// folder.
        directory: PathBuf,
        /// Name of the distribution as spelled in its metadata. `None` for a module that belongs to no distribution.
        distribution: Option<String>,
        /// Version of the distribution, if known.
        version: Option<String>,
        /// How the plugin is announced.
        announcement: PythonAnnouncement,
        /// The distribution that contains the library, if it is not the one that announces the plugin.
        library_distribution: Option<String>,
    },
    /// A directory that was searched.
    Directory {
        /// Path of the directory.
        path: PathBuf,
        /// The variable that lists the directory, if any.
        variable: Option<String>,
    },
}

/// The place where a candidate was found, and the Python distributions and modules that the found one shadows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Provenance {
    /// Kind of source.
    pub source: SourceKind,
    /// The exact place where a candidate was found.
    pub place: Place,
    /// Distributions and modules of the same name that come later in the module search path, so that Python does not
    /// use them.
    pub shadowed: Vec<String>,
}

impl Provenance {
    /// Creates a provenance without shadowed distributions or modules.
    pub fn new(source: SourceKind, place: Place) -> Self {
        Self { source, place, shadowed: Vec::new() }
    }
}

impl fmt::Display for PythonAnnouncement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EntryPoint { group, name, value } => write!(f, "entry point {name} = {value} of group {group}"),
            Self::Namespace { module } => write!(f, "module {module}"),
            Self::BarePackage => f.write_str("package"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program { by } => write!(f, "registered by {by}"),
            Self::Variable { name, item, config: None } => write!(f, "{name}={item}"),
            Self::Variable { name, item, config: Some(config) } => write!(f, "{name}={item} ({})", config.display()),
            Self::Manifest { path, variable: None } => write!(f, "{}", path.display()),
            Self::Manifest { path, variable: Some(variable) } => write!(f, "{} (from {variable})", path.display()),
            Self::Installed { folder, package, version } => {
                write!(f, "{package} {version} in {}", folder.display())
            }
            Self::Python { environment, directory, distribution, version, announcement, library_distribution } => {
                match distribution {
                    Some(name) => write!(f, "{name} {}", version.as_deref().unwrap_or("(no version)"))?,
                    None => f.write_str("no distribution")?,
                }
                write!(f, ", {announcement}, in {}", directory.display())?;
                if !directory.starts_with(environment) {
                    write!(f, " (Python environment {})", environment.display())?;
                }
                match library_distribution {
                    Some(other) => write!(f, ", library from {other}"),
                    None => Ok(()),
                }
            }
            Self::Directory { path, variable: None } => write!(f, "{}", path.display()),
            Self::Directory { path, variable: Some(variable) } => write!(f, "{} (from {variable})", path.display()),
        }
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.source, self.place)?;
        if !self.shadowed.is_empty() {
            write!(f, " [shadows {}]", self.shadowed.join(", "))?;
        }
        Ok(())
    }
}
