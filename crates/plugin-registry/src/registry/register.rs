//! Adds the plugins that a program registers, and those that are linked into the program.

use std::path::Path;
use std::sync::Arc;

use plugin_manifest::manifest::FILE_NAME;
use plugin_manifest::{Capabilities, Descriptor, Fault, Faults, Library, Manifest};

use super::core::PluginRegistry;
use super::entry::PluginEntry;
use super::id::PluginId;
use super::manifest::generic_manifest;
use super::record::{Precedence, Record};
use crate::discovery::{
    Candidate, CandidateName, NameOrigin, Place, Provenance, Refusal, SourceKind, Target, check_trusted, inspect,
    read_manifest,
};
use crate::error::Error;
use crate::hardware::HardwareProbe;
use crate::location::{Location, has_folder};

/// Returns the descriptions of the plugins that are linked into this program. Each description has a text that names
/// the code that linked the plugin.
fn linked() -> Vec<(String, Result<Descriptor, Faults>)> {
    let embedded = [
        // The linker drops a plugin that no code refers to, so refer to the embedded device here.
        #[cfg(feature = "cpu")]
        ("the feature `cpu` of plugin-registry".to_owned(), pjrt_cpu::Cpu::descriptor()),
    ];
    let registered = plugin_manifest::registered();
    let registered =
        registered.map(|plugin| (format!("#[device_plugin] on {}", plugin.type_name()), plugin.descriptor()));
    embedded.into_iter().chain(registered).collect()
}

impl PluginRegistry {
    pub(super) fn add_linked(&self) {
        for (by, descriptor) in linked() {
            let inserted = match descriptor {
                Ok(descriptor) => self.insert(self.describe(descriptor, &by, Precedence::Found)).map(drop),
                Err(faults) => Err(Error::Description { name: by, faults }),
            };
            if let Err(error) = inserted {
                tracing::warn!(%error, "ignored a plugin that is linked into the program");
            }
        }
    }

    /// Registers a plugin written in Rust. Registering the same plugin again has no effect.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Description`] with all faults of the description, or an error of [`Self::register_descriptor`].
    #[cfg(feature = "device-plugin")]
    pub fn register<P: device_plugin::DevicePlugin>(&self) -> Result<PluginEntry, Error> {
        let described = device_plugin::descriptor::<P>();
        self.register_descriptor(described.map_err(|faults| Error::Description { name: P::NAME.to_owned(), faults })?)
    }

    /// Registers a plugin by its description. Registering the same plugin again has no effect.
    ///
    /// # Errors
    ///
    /// Returns [`Error::NameTaken`] if the program registered another plugin under the same name, or
    /// [`Error::DescribedOtherwise`] if it registered the same plugin with another description.
    pub fn register_descriptor(&self, descriptor: Descriptor) -> Result<PluginEntry, Error> {
        let record = self.describe(descriptor, "the program", Precedence::Program);
        self.insert(record)
    }

    /// Registers a library by its path. `manifest` describes the plugin. If `manifest` is `None`, the manifest file in
    /// the library's folder describes the plugin, if there is one. The library is not loaded. The entry lists the
    /// faults of the library's file. Registering the same library again has no effect.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Description`] with all faults of the manifest, or an error of [`Self::register_descriptor`].
    ///
    /// # Safety
    ///
    /// The library is a PJRT plugin that can be trusted ([contract](pjrt::contracts) R1). The entry loads it without
    /// `unsafe`.
    pub unsafe fn register_library(
        &self,
        path: impl AsRef<Path>,
        manifest: Option<Manifest>,
    ) -> Result<PluginEntry, Error> {
        let record = self.library(path.as_ref(), manifest)?;
        self.insert(record)
    }

    /// Returns the usable entry of the library at a path. If there is none, registers the library.
    ///
    /// # Safety
    ///
    /// The requirements of [`Self::register_library`] apply.
    pub(crate) unsafe fn find_or_register_library(&self, path: &Path) -> Result<PluginEntry, Error> {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let location = Location::File(absolute).canonical();
        let table = self.read();
        let known = location.and_then(|location| {
            let (id, row, record) = table.find(&location)?;
            let is_usable = row.disabled.is_none() && record.candidate.is_usable();
            is_usable.then(|| self.entry(id, record.clone()))
        });
        drop(table);
        match known {
            Some(entry) => Ok(entry),
            // SAFETY: R1 (the library is trusted): this function's caller guarantees it.
            None => unsafe { self.register_library(path, None) },
        }
    }

    /// Replaces a plugin with another one. The plugins may have different names. Ids and entries of the replaced plugin
    /// become stale. Its existing clients remain usable.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Stale`] if the id is stale, [`Error::Unknown`] if no plugin ever had the id's index, or
    /// [`Error::NameTaken`] if the program registered another plugin under the name of the new one.
    pub fn replace(&self, id: PluginId, descriptor: Descriptor) -> Result<PluginEntry, Error> {
        let record = self.describe(descriptor, "the program", Precedence::Program);
        let mut table = self.write();
        let before = table.current(id)?;
        table.check_name(&record, Some(id.index()))?;
        table.set_disabled(id.index(), None);
        let (id, record) = table.put(id.index(), record);
        drop(table);
        before.release();
        Ok(self.entry(id, record))
    }

    /// Adds a plugin, or returns its existing entry. A registration by the program replaces a plugin that discovery
    /// found.
    fn insert(&self, mut record: Record) -> Result<PluginEntry, Error> {
        let mut table = self.write();
        let known = record.location.as_ref().and_then(|location| table.find(location));
        let known = known.map(|(id, _, known)| (id, known.clone()));
        let (index, before) = match known {
            Some((id, known)) if known.precedence <= record.precedence => {
                // A library without a manifest cannot contradict an earlier description.
                let is_described = record.precedence == Precedence::Program && !record.is_named_by_file();
                if is_described && known.manifest != record.manifest {
                    let name = known.manifest.name.clone();
                    return Err(Error::DescribedOtherwise { name, by: known.origin() });
                }
                drop(table);
                return Ok(self.entry(id, known));
            }
            Some((id, known)) => {
                table.check_name(&record, Some(id.index()))?;
                record.candidate.also.extend(known.candidate.provenances().cloned());
                (id.index(), Some(known))
            }
            None => {
                if record.precedence == Precedence::Program {
                    table.check_name(&record, None)?;
                }
                (table.free_index()?, None)
            }
        };
        let (id, record) = table.put(index, record);
        drop(table);
        if let Some(before) = before {
            before.release();
        }
        Ok(self.entry(id, record))
    }

    /// Creates the record of a plugin that a program describes.
    fn describe(&self, descriptor: Descriptor, by: &str, precedence: Precedence) -> Record {
        let mut candidate = program_candidate(Location::from(descriptor.library()), by);
        candidate.names = names(descriptor.manifest());
        check_file(&mut candidate);
        self.record(candidate, Ok(descriptor), precedence, &self.probe())
    }

    /// Creates a record. The environment variable `PJRT_REGISTRY_CAPABILITIES_<NAME>` overrides the plugin's
    /// capabilities. If its value is invalid, the candidate gets a refusal.
    pub(super) fn record(
        &self,
        mut candidate: Candidate,
        mut descriptor: Result<Descriptor, Manifest>,
        precedence: Precedence,
        probe: &HardwareProbe,
    ) -> Record {
        let name = match &descriptor {
            Ok(descriptor) => &descriptor.manifest().name,
            Err(manifest) => &manifest.name,
        };
        let variable = Capabilities::override_variable(name);
        let patch = self.0.discovery.as_ref().and_then(|discovery| discovery.trusted(&variable));
        let mut capabilities = None;
        if let (Some(patch), Ok(described)) = (patch, &mut descriptor) {
            let patch = patch.to_string_lossy();
            match described.manifest().capabilities.patched(&patch) {
                Ok(patched) => {
                    candidate.notes.push(format!("capabilities changed by {variable}"));
                    capabilities = Some(patched);
                }
                Err(faults) => {
                    let message = format!("{faults}; correct or unset the variable");
                    candidate.refusals.push(Refusal::BadEnvironmentItem {
                        variable,
                        item: patch.into_owned(),
                        message,
                    });
                }
            }
        }
        let mut record = Record::new(candidate, descriptor, precedence, probe);
        if let Some(capabilities) = capabilities {
            record.manifest.capabilities = capabilities;
        }
        record
    }

    /// Creates the record of a library that a program names.
    fn library(&self, path: &Path, manifest: Option<Manifest>) -> Result<Record, Error> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let manifest = match manifest {
            Some(manifest) => Some(manifest),
            None => manifest_beside(&path)?,
        };
        let has_own_manifest = manifest.is_some();
        let mut candidate = program_candidate(Location::File(path.clone()), "the program");
        check_file(&mut candidate);
        let manifest = match manifest {
            Some(manifest) => {
                candidate.names = names(&manifest);
                manifest
            }
            None => {
                let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
                candidate.names.push(CandidateName { name: stem.to_lowercase(), origin: NameOrigin::File });
                generic_manifest(&candidate)
            }
        };
        let name = manifest.name.clone();
        // SAFETY: R1 (the library is trusted): the caller of `register_library` guarantees it.
        let library = unsafe { Library::path(path) };
        let descriptor = Descriptor::new(manifest, library, Arc::new(()));
        let descriptor = descriptor.map_err(|faults| Error::Description { name, faults })?;
        let mut record = self.record(candidate, Ok(descriptor), Precedence::Program, &self.probe());
        record.has_own_manifest = has_own_manifest;
        Ok(record)
    }

    pub(super) fn entry(&self, id: PluginId, record: Arc<Record>) -> PluginEntry {
        PluginEntry { registry: self.clone(), id, record }
    }
}

/// Reads the headers of a candidate's file, and adds a refusal for each fault. Does not check a name without a folder,
/// for which the dynamic loader searches.
fn check_file(candidate: &mut Candidate) {
    let Some(path) = candidate.location.path().filter(|path| has_folder(path)) else { return };
    match inspect(path) {
        Ok(facts) => {
            if !facts.exports.get_pjrt_api {
                candidate.refusals.push(Refusal::NoGetPjrtApi { path: path.to_owned() });
            }
            let host = Target::host();
            if !host.loads(&facts.targets) {
                let (path, library) = (path.to_owned(), facts.targets.clone());
                candidate.refusals.push(Refusal::WrongTarget { path, library, host });
            }
            candidate.facts = Some(facts);
        }
        Err(refusal) => candidate.refusals.push(refusal),
    }
}

fn program_candidate(location: Location, by: &str) -> Candidate {
    Candidate::new(location, Provenance::new(SourceKind::Explicit, Place::Program { by: by.to_owned() }))
}

fn names(manifest: &Manifest) -> Vec<CandidateName> {
    let all = [&manifest.name].into_iter().chain(&manifest.aliases).chain(&manifest.platform_names);
    all.map(|name| CandidateName { name: name.to_lowercase(), origin: NameOrigin::Given }).collect()
}

/// Reads the manifest in a library's folder. Returns `None` if there is no manifest, or if the manifest lists only
/// other libraries. With elevated privileges, rejects a manifest that others than root can change.
fn manifest_beside(path: &Path) -> Result<Option<Manifest>, Error> {
    let file = path.with_file_name(FILE_NAME);
    let read = check_trusted(&file).map_err(|refusal| vec![refusal]).and_then(|()| read_manifest(&file));
    let manifest = match read {
        Ok(manifest) => manifest,
        Err(refusals) if matches!(refusals[..], [Refusal::Missing { .. }]) => return Ok(None),
        Err(refusals) => {
            let place = file.display().to_string();
            let fault = |refusal: Refusal| match refusal {
                Refusal::MalformedManifest { field, message, .. } => Fault::new(format!("{place}: {field}"), message),
                other => Fault::new(place.clone(), other.to_string()),
            };
            let faults = Faults::check(refusals.into_iter().map(fault).collect()).err();
            let faults = faults.unwrap_or_else(|| Fault::new("", "no manifest").into());
            return Err(Error::Description { name: place, faults });
        }
    };
    let describes_it = manifest.library.iter().any(|library| path.ends_with(&library.path));
    Ok((describes_it || manifest.library.is_empty()).then_some(manifest))
}
