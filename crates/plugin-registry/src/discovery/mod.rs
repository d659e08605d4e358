//! Finds PJRT plugins on a machine by reading files. Does not load any library or run Python.
//!
//! A search returns a list of [`Candidate`]s. Each candidate has names, the location of its library, the place where it
//! was found ([`Provenance`]), and the reasons why it cannot be used, if any ([`Refusal`]). Refused candidates stay in
//! the list, so that a user can see the reasons. One broken plugin never hides another.
//!
//! ```
//! use plugin_registry::discovery::Discovery;
//!
//! let machine = Discovery::isolated("/does/not/exist").variable("TPU_LIBRARY_PATH", "/no/libtpu.so");
//! let found = machine.discover();
//! assert_eq!(found.candidates[0].name(), Some("tpu"));
//! assert_eq!(
//!     found.candidates[0].refusals[0].to_string(),
//!     "/no/libtpu.so does not exist: install the plugin again or correct the path",
//! );
//! ```
//!
//! # Order
//!
//! A search returns the candidates in the order below. It reads the files of a folder in the order of their names, so
//! that repeated searches of a machine return the same list.
//!
//! 1. If `PJRT_REGISTRY_MANIFESTS` is set: the manifests that this variable names. All other sources are ignored.
//! 2. Manifests that `PJRT_REGISTRY_ADD_MANIFESTS` names.
//! 3. Environment variables that name libraries, in the order of [`variables`].
//! 4. Manifests in `pjrt/plugins.d` below `XDG_CONFIG_HOME`, `APPDATA` (only on Windows), `XDG_CONFIG_DIRS`, `/etc`,
//!    `XDG_DATA_HOME`, the folders of [`Discovery::data_folder`] and `XDG_DATA_DIRS`.
//! 5. Plugins that `pjrt install` installed, in the folder that `PJRT_REGISTRY_INSTALL_DIR` names or otherwise
//!    `pjrt/installed` below `XDG_DATA_HOME` (on Windows, below `LOCALAPPDATA`). Then those in `pjrt/installed` below
//!    the folders of [`Discovery::data_folder`] and `XDG_DATA_DIRS`.
//! 6. Python environments: `VIRTUAL_ENV`, `CONDA_PREFIX`, the interpreters on `PATH`, the interpreters in
//!    `%LOCALAPPDATA%\Programs\Python` and `%ProgramFiles%` (only on Windows), and `/usr`. In each environment, the
//!    search looks along the module search path for entry points of the groups `jax_plugins`, `torch_xla.plugins` and
//!    `xla_plugins`, then for modules of the namespace packages `jax_plugins` and `xla_plugins`, and last for packages
//!    that contain a plugin but do not announce it.
//! 7. TensorFlow: `TF_PLUGGABLE_DEVICE_LIBRARY_PATH`, and `tensorflow-plugins` in each folder of step 6.
//! 8. Conventional names (`pjrt-plugin-*`, `pjrt_plugin_*`, `pjrt_c_api_*_plugin`, `lib*pjrt*`, `pjrt_plugin.json`) in
//!    conventional folders, `LD_LIBRARY_PATH` and the system's library folders. Then `libtpu.so`, `libxpu.so` and
//!    `libneuronpjrt.so` by the dynamic loader's search.
//!
//! A [`PluginRegistry`](crate::PluginRegistry) puts the plugins that the program registers before all of these
//! candidates.
//!
//! If a search finds a file again, for example through a link, it adds a provenance to the existing candidate. A
//! candidate's first name is the most reliable one ([`NameOrigin`]). Two libraries with the same name remain two
//! candidates. If the folder of a library contains a manifest named `pjrt_plugin.json` that names the library, this
//! manifest describes the library, whichever source found it.
//!
//! # Variants of a library
//!
//! A manifest may list several libraries for one system that require different CPUs, GPUs or drivers.
//! [`variants`](plugin_manifest::variants) documents the order of preference, and [`Discovery::machine`] the properties
//! of the machine. All libraries of the manifest form one candidate, whose location is the library that fits this
//! machine. [`Candidate::choice`] explains the choice. If a user names one of the libraries in the environment, that
//! library is used, and a note states what the machine lacks.
//!
//! # Filters and trust
//!
//! `PJRT_REGISTRY_SELECT` and `PJRT_REGISTRY_DISABLE` hold comma-separated patterns with `*` and `?` for names, aliases
//! and file names of manifests. If `PJRT_REGISTRY_SELECT` is set, a plugin must match one of its patterns. A plugin
//! must not match a pattern in `PJRT_REGISTRY_DISABLE`. The pattern `~all~` in `PJRT_REGISTRY_DISABLE` disables all
//! plugins that are not selected. A manifest may name an additional variable that disables its plugin.
//!
//! The file that `PJRT_REGISTRY_ALLOWLIST` names, or otherwise `/etc/pjrt/plugins.allow`, is an [`AllowList`] of
//! SHA-256 hashes.
//!
//! A process with [elevated](Discovery::elevated) privileges trusts the machine but not the user who started it. It
//! ignores variables that name files or folders, and folders below the home folder. The results contain a note for each
//! ignored variable that names libraries, manifests or an allow-list. The process refuses libraries and manifests
//! unless they and all folders above them belong to root and only root can change them.

mod candidate;
mod collector;
mod config;
mod conventional;
mod environment;
mod file_id;
mod filter;
mod folder;
mod install_record;
mod installed;
mod library;
mod machine;
mod manifest_file;
mod manifests;
mod names_and_paths;
mod provenance;
mod python;
mod refusal;
mod report;
mod sha256;
mod sources;
mod target;
mod tensorflow;
mod trust;

pub use candidate::{Candidate, CandidateName, NameOrigin};
pub use config::Discovery;
pub use environment::{Variable, variables};
#[cfg(feature = "install")]
pub(crate) use folder::{files, name as file_name, read as read_file};
pub(crate) use folder::{is_library_name, open};
pub use install_record::{InstallRecord, InstalledPackage};
pub use library::{DESCRIPTOR_SYMBOL, Exports, LibraryFacts, LibraryFormat, inspect};
pub(crate) use manifest_file::read as read_manifest;
pub use provenance::{Place, Provenance, PythonAnnouncement, SourceKind};
#[cfg(feature = "install")]
pub(crate) use python::{announced_names, normalize};
pub use refusal::{MissingDependency, Refusal};
pub use report::{Discovered, Note, Searched, SelectionHint};
#[cfg(feature = "install")]
pub(crate) use sha256::hex;
pub use sha256::verify_sha256;
pub use target::{Architecture, OperatingSystem, Target};
pub use trust::{AllowList, check_trusted};
