//! The result of choosing versions and files.

use super::index::IndexFile;
use super::metadata::Metadata;
use super::request::InstallRequest;

/// A package that will be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedPackage {
    pub(super) file: IndexFile,
    /// The metadata that was used for the choice. The downloaded file must have the same.
    pub(super) metadata: Metadata,
}

impl PlannedPackage {
    /// Returns the normalized name of the package.
    pub fn name(&self) -> &str {
        &self.file.wheel.package
    }

    /// Returns the version of the package.
    pub fn version(&self) -> String {
        self.file.wheel.version.to_string()
    }

    /// Returns the file name of the wheel.
    pub fn file(&self) -> &str {
        &self.file.file
    }

    /// Returns the size of the wheel in bytes, if the index states it.
    pub fn size(&self) -> Option<u64> {
        self.file.size
    }

    /// Returns the address of the wheel, without user and password.
    pub fn url(&self) -> &str {
        self.file.address.url.as_str()
    }

    /// Returns the SHA-256 hash of the wheel, if the index states it.
    pub fn sha256(&self) -> Option<&str> {
        self.file.sha256.as_deref()
    }
}

/// A required package that will not be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// The requirement.
    pub requirement: String,
    /// Name of the package that has the requirement.
    pub by: String,
    /// The reason.
    pub why: String,
    /// Whether the package contains only code for Python, which a plugin's library does not use.
    pub is_python_code: bool,
}

/// The packages that an installation downloads and unpacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallPlan {
    pub(super) request: InstallRequest,
    pub(super) packages: Vec<PlannedPackage>,
    pub(super) left_out: Vec<LeftOut>,
}

impl InstallPlan {
    /// Returns the request.
    pub fn request(&self) -> &InstallRequest {
        &self.request
    }

    /// Returns the packages. The first one contains the plugin.
    pub fn packages(&self) -> &[PlannedPackage] {
        &self.packages
    }

    /// Returns the requirements that were left out because no file for them contains a library for this machine.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Returns the sum of the sizes of the files, if the index states them.
    pub fn size(&self) -> Option<u64> {
        self.packages.iter().map(PlannedPackage::size).sum()
    }
}
