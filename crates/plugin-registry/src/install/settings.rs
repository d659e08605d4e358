//! Where an installation reads and writes.

use std::path::PathBuf;

use super::error::InstallError;
use super::index::Index;
use super::platform::Platform;
use crate::discovery::Discovery;

/// The public index of Python packages.
const PUBLIC_INDEX: &str = "https://pypi.org/simple/";

/// The indexes, folders and the machine of installations.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(super) discovery: Discovery,
    pub(super) platform: Platform,
    pub(super) folder: PathBuf,
    pub(super) cache: PathBuf,
    /// Searched before the other indexes.
    pub(super) extra: Vec<String>,
    pub(super) default: String,
    /// Whether the vendors' indexes of known plugins are searched.
    pub(super) vendors: bool,
}

impl Settings {
    /// Creates the settings for this machine and this user. [The module](super) lists the variables that it reads.
    ///
    /// # Errors
    ///
    /// Returns an error if the home folder is unknown, or if this process has elevated privileges.
    pub fn from_environment() -> Result<Self, InstallError> {
        Self::of(Discovery::from_environment())
    }

    /// Creates the settings for the machine and the environment that a search describes. Only the proxy and the
    /// certificates are those of this process.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::from_environment`].
    pub fn of(discovery: Discovery) -> Result<Self, InstallError> {
        if discovery.is_elevated() {
            return Err(InstallError::Elevated);
        }
        let text = |name: &str| discovery.get(name).and_then(|value| value.to_str());
        let default = ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"].iter().find_map(|name| text(name));
        let default = default.map_or(PUBLIC_INDEX, without_name).to_owned();
        let extra = ["UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL"].iter().filter_map(|name| text(name));
        let extra = extra.flat_map(str::split_whitespace).map(|url| without_name(url).to_owned()).collect();
        let folder = discovery.install_folder().ok_or(InstallError::NoHome)?;
        let cache = discovery.cache_folder().ok_or(InstallError::NoHome)?.join("pjrt").join("wheels");
        Ok(Self { platform: Platform::of(&discovery), discovery, folder, cache, extra, default, vendors: true })
    }

    /// Uses this index instead of all others, including those of vendors.
    ///
    /// # Errors
    ///
    /// Returns [`InstallError::IndexUrl`] if the address is invalid.
    pub fn index(mut self, url: &str) -> Result<Self, InstallError> {
        Index::new(url)?;
        url.clone_into(&mut self.default);
        self.extra.clear();
        self.vendors = false;
        Ok(self)
    }

    /// Adds an index that is searched before the others.
    ///
    /// # Errors
    ///
    /// Returns [`InstallError::IndexUrl`] if the address is invalid.
    pub fn extra_index(mut self, url: &str) -> Result<Self, InstallError> {
        Index::new(url)?;
        self.extra.push(url.to_owned());
        Ok(self)
    }

    /// Sets the folder in which each plugin gets a folder of its own.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        self.folder = std::path::absolute(&folder).unwrap_or(folder);
        self
    }

    /// Sets the folder for downloads.
    #[must_use]
    pub fn cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache = folder.into();
        self
    }

    /// Sets the machine for which wheels are chosen. By default, this machine.
    #[must_use]
    pub fn platform(mut self, platform: Platform) -> Self {
        self.platform = platform;
        self
    }

    /// Returns the folder in which each plugin gets a folder of its own.
    pub fn install_folder(&self) -> &std::path::Path {
        &self.folder
    }

    /// Returns the folder for downloads.
    pub fn cache_folder(&self) -> &std::path::Path {
        &self.cache
    }
}

/// Removes the name from `name=https://…`, which uv allows.
fn without_name(url: &str) -> &str {
    match url.split_once('=') {
        Some((name, rest)) if !name.contains(':') => rest,
        _ => url,
    }
}
