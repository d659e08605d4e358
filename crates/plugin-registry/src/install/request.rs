//! What the user asks to install.

use std::str::FromStr;

use super::error::InstallError;
use super::known::{KnownPlugin, find};
use super::requirement::Requirement;

/// A plugin to install: a known plugin or a package, optionally with versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallRequest {
    pub(super) plugin: Requirement,
    pub(super) known: Option<&'static KnownPlugin>,
    /// Other packages with libraries that the plugin needs.
    pub(super) libraries: Vec<Requirement>,
    /// A package of which only the requirements are used.
    pub(super) companion: Option<Requirement>,
    /// Whether the requirements of packages are ignored.
    pub(super) alone: bool,
}

impl InstallRequest {
    /// Adds a package with libraries that the plugin needs and its package does not require, such as
    /// `rocm-sdk-core>=7`.
    ///
    /// # Errors
    ///
    /// Returns [`InstallError::Request`] if the text is not a requirement.
    pub fn with(mut self, requirement: &str) -> Result<Self, InstallError> {
        self.libraries.push(parse(requirement)?);
        Ok(self)
    }

    /// Installs only the plugin's own package. Use this if the system has the libraries that the plugin needs.
    #[must_use]
    pub fn without_libraries(mut self) -> Self {
        self.libraries.clear();
        self.companion = None;
        self.alone = true;
        self
    }

    /// Returns the known plugin that is requested, if any.
    pub fn known(&self) -> Option<&'static KnownPlugin> {
        self.known
    }

    /// Returns the name under which the plugin is installed.
    pub fn name(&self) -> &str {
        self.known.map_or(&self.plugin.package, |known| known.name)
    }
}

impl FromStr for InstallRequest {
    type Err = InstallError;

    /// Parses a name, such as `cuda13`, `libtpu==0.0.52` or `acme-pjrt[runtime]>=1.2`.
    fn from_str(text: &str) -> Result<Self, InstallError> {
        let mut plugin = parse(text)?;
        let known = find(&plugin.package);
        let (mut libraries, mut companion) = (Vec::new(), None);
        if let Some(known) = known {
            known.package.clone_into(&mut plugin.package);
            for library in known.libraries {
                libraries.push(parse(library)?);
            }
            companion = known.companion.map(parse).transpose()?;
            if let Some(companion) = &mut companion {
                companion.versions = plugin.versions.clone();
            }
        }
        Ok(Self { plugin, known, libraries, companion, alone: false })
    }
}

/// Parses a requirement of the user, which applies without a condition.
fn parse(text: &str) -> Result<Requirement, InstallError> {
    let error = |why| InstallError::Request { text: text.to_owned(), why };
    let requirement: Requirement = text.parse().map_err(error)?;
    if requirement.marker.is_some() {
        return Err(error("it has a marker".to_owned()));
    }
    Ok(requirement)
}
