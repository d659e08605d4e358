//! The environment variables that this crate defines. Variables of other projects are in
//! [`discovery::variables`](crate::discovery::variables).

/// Manifest files or folders. If this variable is set, discovery searches no other source.
pub(crate) const MANIFESTS: &str = "PJRT_REGISTRY_MANIFESTS";
/// Manifest files or folders that discovery searches first.
pub(crate) const ADD_MANIFESTS: &str = "PJRT_REGISTRY_ADD_MANIFESTS";
/// Patterns of the plugins that may be used.
pub(crate) const SELECT: &str = "PJRT_REGISTRY_SELECT";
/// Patterns of the plugins that must not be used.
pub(crate) const DISABLE: &str = "PJRT_REGISTRY_DISABLE";
/// Path of a file with the SHA-256 hashes of the libraries that may be loaded.
pub(crate) const ALLOWLIST: &str = "PJRT_REGISTRY_ALLOWLIST";
/// Path of the folder with the lock files.
pub(crate) const LOCK_DIR: &str = "PJRT_REGISTRY_LOCK_DIR";
/// Path of the folder with the user's installed plugins.
pub(crate) const INSTALL_DIR: &str = "PJRT_REGISTRY_INSTALL_DIR";
