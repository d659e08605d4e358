//! Makes wheels, and describes the machine of the tests: Linux on x86-64 with glibc 2.36.
#![allow(unreachable_pub, reason = "the modules of a test")]

use std::fs;
use std::io::{Cursor, Write};
use std::path::PathBuf;

use plugin_registry::discovery::{Architecture, Discovery, OperatingSystem, Target};
use plugin_registry::install::{
    Event, InstallError, InstallPlan, InstallRequest, Installed, Installer, Libc, Platform, Settings,
};
use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;

use crate::common::{Elf, Machine, binaries};

pub const HOST: Target = Target { os: OperatingSystem::Linux, architecture: Architecture::X86_64 };
pub const ANY_PYTHON: &str = "py3-none-manylinux_2_17_x86_64";

/// A wheel that a test makes.
#[derive(Clone)]
pub struct Wheel {
    pub name: String,
    pub version: String,
    pub tags: String,
    pub entries: Vec<(String, Vec<u8>, u32)>,
    pub metadata: String,
}

impl Wheel {
    pub fn new(name: &str, version: &str) -> Self {
        let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
        let (name, version) = (name.to_owned(), version.to_owned());
        Self { name, version, tags: ANY_PYTHON.to_owned(), entries: Vec::new(), metadata }
    }

    /// A package `acme-pjrt` whose library `acme/acme.so` is a plugin.
    pub fn plugin(version: &str) -> Self {
        Self::new("acme-pjrt", version).library("acme/acme.so", &elf().exporting())
    }

    pub fn tags(mut self, tags: &str) -> Self {
        tags.clone_into(&mut self.tags);
        self
    }

    pub fn file(mut self, path: &str, content: impl Into<Vec<u8>>) -> Self {
        self.entries.push((path.to_owned(), content.into(), 0o100_644));
        self
    }

    pub fn library(self, path: &str, library: &Elf) -> Self {
        self.file(path, library.bytes())
    }

    pub fn requires(mut self, requirement: &str) -> Self {
        self.metadata += &format!("Requires-Dist: {requirement}\n");
        self
    }

    pub fn file_name(&self) -> String {
        format!("{}-{}-{}.whl", self.name.replace('-', "_"), self.version, self.tags)
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let metadata = format!("{}-{}.dist-info/METADATA", self.name.replace('-', "_"), self.version);
        let metadata = (metadata, self.metadata.clone().into_bytes(), 0o100_644);
        for (path, content, mode) in self.entries.iter().chain([&metadata]) {
            let options = SimpleFileOptions::default().unix_permissions(*mode);
            if mode & 0o170_000 == 0o120_000 {
                zip.add_symlink(path.as_str(), String::from_utf8_lossy(content), options).unwrap();
                continue;
            }
            zip.start_file(path.as_str(), options).unwrap();
            zip.write_all(content).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }
}

/// A library for the tests' machine that exports nothing.
pub fn elf() -> Elf {
    Elf { machine: binaries::X86_64, ..Elf::new() }
}

impl Elf {
    pub fn exporting(mut self) -> Self {
        self.exports = vec!["GetPjrtApi"];
        self
    }

    pub fn runpath(mut self, runpath: &str) -> Self {
        self.runpath = Some(runpath.to_owned());
        self
    }
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A machine without plugins, and the settings of installations on it.
pub struct Here {
    pub machine: Machine,
    pub settings: Settings,
}

impl Here {
    /// Uses the index at this address.
    pub fn new(test: &str, index: &str) -> Self {
        Self::with(test, &[("PIP_INDEX_URL", index)])
    }

    pub fn with(test: &str, variables: &[(&str, &str)]) -> Self {
        let machine = Machine::new(&format!("install-{test}"));
        let discovery =
            variables.iter().fold(machine.discovery().host(HOST), |found, (name, value)| found.variable(*name, *value));
        let settings = Settings::of(discovery).unwrap().platform(Platform::new(HOST, Libc::Glibc(36), None));
        Self { machine, settings }
    }

    pub fn discovery(&self) -> Discovery {
        self.machine.discovery().host(HOST)
    }

    pub fn installer(&self) -> Installer {
        Installer::new(self.settings.clone())
    }

    pub fn plan(&self, request: &str) -> Result<InstallPlan, InstallError> {
        let request: InstallRequest = request.parse()?;
        self.installer().plan(&request, &mut |_| {})
    }

    pub fn install(&self, request: &str) -> Result<Installed, InstallError> {
        self.install_and_watch(request, &mut |_| {})
    }

    pub fn install_and_watch(
        &self,
        request: &str,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<Installed, InstallError> {
        let installer = self.installer();
        let plan = installer.plan(&request.parse()?, watch)?;
        installer.install(&plan, watch)
    }

    /// Returns the file names of the wheels for a request.
    pub fn files(&self, request: &str) -> Vec<String> {
        self.plan(request).unwrap().packages().iter().map(|package| package.file().to_owned()).collect()
    }

    pub fn folder(&self) -> PathBuf {
        self.settings.install_folder().to_owned()
    }

    /// Returns the names in the folder of plugins, without the lock.
    pub fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder()).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.retain(|name| name != ".lock");
        names.sort();
        names
    }
}
