//! Installs plugins from Python package indexes, without Python.
//!
//! ```no_run
//! use plugin_registry::install::{InstallRequest, Installer, Settings};
//!
//! let installer = Installer::new(Settings::from_environment()?);
//! let request: InstallRequest = "xla-cpu".parse()?;
//! let plan = installer.plan(&request, &mut |_| {})?;
//! let installed = installer.install(&plan, &mut |_| {})?;
//! println!("{} {}", installed.record.name, installed.folder.display());
//! # Ok::<(), plugin_registry::install::InstallError>(())
//! ```
//!
//! A plugin is a package of a Python package index: a wheel whose library exports `GetPjrtApi`. [`known_plugins`] lists
//! well-known plugins with the packages that contain their libraries. Any other package is installed by its name.
//!
//! [`Installer::plan`] reads the index and the metadata of the packages, and chooses versions and files.
//! [`Installer::install`] downloads the files into a cache, compares their SHA-256 hashes with those of the index,
//! unpacks them into a new folder, checks that the folder contains a plugin for this machine, and renames the folder
//! to its final name. A failed installation leaves only downloads in the cache. The next one removes what a killed one
//! left. Nothing runs code of a package.
//!
//! # Which packages
//!
//! The newest version that satisfies all requirements and has a wheel for this machine is chosen. Yanked versions are
//! used only if the request names their exact version. Pre-releases are used only if the request names one, or if there
//! are no other versions. The plugin's own wheel may be tied to one Python version.
//!
//! A package that the plugin requires is installed only if its wheel is for this platform and not tied to a Python
//! version. Other wheels contain Python code, which the library does not use.
//!
//! # Folders
//!
//! Each plugin is in a folder of its own, below [`Discovery::install_folder`](crate::discovery::Discovery). The folder
//! is laid out like a virtual environment, so that the `RUNPATH` of a library leads to the libraries of other packages.
//! If it leads elsewhere, the installer adds links.
//!
//! # Variables
//!
//! | variable | meaning |
//! |---|---|
//! | `UV_DEFAULT_INDEX`, `UV_INDEX_URL`, `PIP_INDEX_URL` | address of the index, instead of `https://pypi.org/simple` |
//! | `UV_INDEX`, `UV_EXTRA_INDEX_URL`, `PIP_EXTRA_INDEX_URL` | indexes that are searched first |
//! | `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY` | proxy |
//! | `SSL_CERT_FILE`, `SSL_CERT_DIR` | trusted certificates; by default the system's, or Mozilla's if it has none |
//! | `PJRT_REGISTRY_INSTALL_DIR` | folder of the installed plugins |
//! | `XDG_DATA_HOME`, `XDG_CACHE_HOME`; `LOCALAPPDATA` on Windows | folders above those of the plugins and the cache |

mod cache;
mod download;
mod error;
mod html;
mod http;
mod index;
mod installer;
mod known;
mod links;
mod lock;
mod marker;
mod metadata;
mod plan;
mod platform;
mod plugin;
mod remote_file;
mod request;
mod requirement;
mod resolve;
mod settings;
mod unpack;
mod watch;
mod wheel_name;

pub use error::{InstallError, Wanted};
pub use installer::{Installed, Installer};
pub use known::{KnownPlugin, known_plugins};
pub use plan::{InstallPlan, LeftOut, PlannedPackage};
pub use platform::{Libc, Platform};
pub use request::InstallRequest;
pub use settings::Settings;
pub use watch::Event;
