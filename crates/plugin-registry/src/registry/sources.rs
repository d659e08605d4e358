//! How plugins come into a registry: by a call, with the program, or by discovery.

use std::path::Path;
use std::sync::Arc;

use device_plugin::manifest::{FILE_NAME, MAX_NAME_LENGTH};
use device_plugin::{Descriptor, Fault, Faults, Library, Manifest};

use super::record::{Record, Tier, beside, has_folder};
use super::{PluginEntry, PluginRegistry, Slot};
use crate::discovery::{
    Candidate, CandidateLibrary, CandidateName, Discovered, NameOrigin, Place, Provenance, Refusal, SourceKind, Target,
    inspect, read_manifest,
};
use crate::error::Error;
use crate::hardware::Machine;

/// The descriptions linked into this program, and what linked them.
fn linked() -> Vec<(String, Result<Descriptor, Faults>)> {
    let embedded = [
        // The linker drops plugins that nothing names.
        #[cfg(feature = "cpu")]
        ("the feature `cpu` of plugin-registry".to_owned(), Descriptor::of::<pjrt_cpu::Cpu>()),
    ];
    let registered = device_plugin::registered();
    let registered =
        registered.map(|plugin| (format!("#[device_plugin] on {}", plugin.type_name()), plugin.descriptor()));
    embedded.into_iter().chain(registered).collect()
}

impl PluginRegistry {
    pub(super) fn add_linked(&self) {
        for (by, descriptor) in linked() {
            let inserted = match descriptor {
                Ok(descriptor) => self.insert(self.described(descriptor, &by, Tier::Found)).map(drop),
                Err(faults) => Err(Error::Description { name: by, faults }),
            };
            if let Err(error) = inserted {
                tracing::warn!(%error, "a plugin that is linked in is left out");
            }
        }
    }

    /// A plugin that a program describes.
    pub(super) fn described(&self, descriptor: Descriptor, by: &str, tier: Tier) -> Record {
        let library = match descriptor.library() {
            Library::Path(path) => CandidateLibrary::Path(path.clone()),
            Library::Beside(file) => CandidateLibrary::Path(beside(file)),
            Library::Static(_) => CandidateLibrary::Static,
            Library::Computed(_) => CandidateLibrary::Deferred,
            _ => CandidateLibrary::Unknown,
        };
        let mut candidate = program_candidate(library, by);
        candidate.names = names(descriptor.manifest());
        look_at(&mut candidate);
        self.record(candidate, Ok(descriptor), tier, &self.machine())
    }

    /// A record, with the user's word on its capabilities.
    fn record(
        &self,
        mut candidate: Candidate,
        mut descriptor: Result<Descriptor, Manifest>,
        tier: Tier,
        machine: &Machine,
    ) -> Record {
        let name = match &descriptor {
            Ok(descriptor) => &descriptor.manifest().name,
            Err(manifest) => &manifest.name,
        };
        let variable = format!("DEVICE_PLUGIN_{}_CAPABILITIES", name.to_uppercase());
        let patch = self.0.overrides.as_ref().and_then(|discovery| discovery.trusted(&variable));
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
        let mut record = Record::new(candidate, descriptor, tier, machine);
        if let Some(capabilities) = capabilities {
            record.manifest.capabilities = capabilities;
        }
        record
    }

    /// A library that a program names.
    pub(super) fn library(&self, path: &Path, manifest: Option<Manifest>) -> Result<Record, Error> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let manifest = match manifest {
            Some(manifest) => Some(manifest),
            None => manifest_beside(&path)?,
        };
        let described = manifest.is_some();
        let mut candidate = program_candidate(CandidateLibrary::Path(path.clone()), "the program");
        look_at(&mut candidate);
        let manifest = match manifest {
            Some(manifest) => {
                candidate.names = names(&manifest);
                manifest
            }
            None => {
                let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
                candidate.names.push(CandidateName { name: stem.to_lowercase(), origin: NameOrigin::File });
                manifest_for(&candidate)
            }
        };
        let name = manifest.name.clone();
        let descriptor = Descriptor::new(manifest, Library::Path(path), Arc::new(()));
        let descriptor = descriptor.map_err(|faults| Error::Description { name, faults })?;
        let mut record = self.record(candidate, Ok(descriptor), Tier::Program, &self.machine());
        record.described = described;
        Ok(record)
    }

    /// Adds a plugin, or finds it there. What the program says counts more than what discovery found.
    pub(super) fn insert(&self, mut record: Record) -> Result<PluginEntry, Error> {
        let mut state = self.write();
        let same_key = (0u32..).zip(&state.slots).find_map(|(index, slot)| {
            let known = slot.record.as_ref()?;
            (record.key.is_some() && known.key == record.key).then(|| (index, known.clone()))
        });
        let mut before = None;
        let index = match same_key {
            Some((index, known)) if known.tier <= record.tier => {
                // A library without a manifest says nothing that could contradict.
                if record.tier == Tier::Program && !record.is_named_by_file() && known.manifest != record.manifest {
                    let name = known.manifest.name.clone();
                    return Err(Error::DescribedOtherwise { name, by: known.origin() });
                }
                let id = state.slot_mut(index).id(index);
                drop(state);
                return Ok(self.entry(id, known));
            }
            Some((index, known)) => {
                state.name_is_free(&record, Some(index))?;
                record.candidate.also.extend(known.candidate.provenances().cloned());
                before = Some(known);
                index
            }
            None => {
                if record.tier == Tier::Program {
                    state.name_is_free(&record, None)?;
                }
                let index = state.slots.iter().position(|slot| slot.record.is_none()).unwrap_or(state.slots.len());
                u32::try_from(index).map_err(|_| Error::Unknown { asked: "past four billion".to_owned() })?
            }
        };
        record.order = state.next_order();
        let record = Arc::new(record);
        let slot = state.slot_mut(index);
        slot.renew(Some(record.clone()));
        let id = slot.id(index);
        drop(state);
        if let Some(before) = before {
            drop(before.used().take());
        }
        Ok(self.entry(id, record))
    }

    /// Puts what a search found in the place of what the last one found.
    pub(super) fn take_in(&self, found: Discovered, machine: Arc<Machine>) {
        let Discovered { candidates, hints, notes, searched, .. } = found;
        let found = candidates.into_iter().map(|candidate| {
            let described = candidate.manifest.is_some();
            let (candidate, descriptor, tier) = discovered(candidate);
            let mut record = self.record(candidate, descriptor, tier, &machine);
            record.described = described;
            record
        });
        let records: Vec<Record> = found.collect();
        let mut state = self.write();
        for record in state.slots.iter().filter_map(|slot| slot.record.as_ref()) {
            record.sight(&machine);
        }
        (state.machine, state.hints, state.notes, state.searched) = (machine, hints, notes, searched);
        let mut let_go = Vec::new();
        let mut found_again = vec![false; state.slots.len()];
        for mut record in records {
            let same_key = |slot: &Slot| {
                let known = slot.record.as_ref();
                known.is_some_and(|known| match (&known.key, &record.key) {
                    (Some(known), Some(key)) => known == key,
                    (None, None) => known.candidate == record.candidate,
                    _ => false,
                })
            };
            let index = state.slots.iter().position(same_key);
            record.order = state.next_order();
            match index {
                Some(index) => {
                    if let Some(mark) = found_again.get_mut(index) {
                        *mark = true;
                    }
                    let slot = &mut state.slots[index];
                    let Some(known) = slot.record.clone() else { continue };
                    // The program's own word stands, and what has not changed keeps its handles.
                    let linked = matches!(known.candidate.library, CandidateLibrary::Static);
                    if known.tier != Tier::Program && !linked && !known.same(&record) {
                        slot.renew(Some(Arc::new(record)));
                        let_go.push(known);
                    }
                }
                None => {
                    let free = state.slots.iter().position(|slot| slot.record.is_none());
                    let index = free.unwrap_or(state.slots.len());
                    let Ok(index) = u32::try_from(index) else { break };
                    let slot = state.slot_mut(index);
                    slot.disabled = None;
                    slot.renew(Some(Arc::new(record)));
                    if let Some(mark) = usize::try_from(index).ok().and_then(|index| found_again.get_mut(index)) {
                        *mark = true;
                    }
                }
            }
        }
        for (slot, found_again) in state.slots.iter_mut().zip(found_again) {
            let Some(known) = &slot.record else { continue };
            let ours = known.tier == Tier::Program || known.candidate.provenance.source == SourceKind::Explicit;
            if !found_again && !ours {
                let_go.extend(slot.record.clone());
                slot.renew(None);
                slot.disabled = None;
            }
        }
        drop(state);
        for record in let_go {
            drop(record.used().take());
        }
    }

    fn machine(&self) -> Arc<Machine> {
        self.read().machine.clone()
    }
}

/// Reads what the file of a library says of itself. The loader searches bare names, and has the last word.
fn look_at(candidate: &mut Candidate) {
    let Some(path) = candidate.library.path().filter(|path| has_folder(path)) else { return };
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

fn program_candidate(library: CandidateLibrary, by: &str) -> Candidate {
    Candidate::new(library, Provenance::new(SourceKind::Explicit, Place::Program { by: by.to_owned() }))
}

fn names(manifest: &Manifest) -> Vec<CandidateName> {
    let all = [&manifest.name].into_iter().chain(&manifest.aliases).chain(&manifest.platform_names);
    all.map(|name| CandidateName { name: name.to_lowercase(), origin: NameOrigin::Given }).collect()
}

/// The manifest beside a library, where it is about this library.
fn manifest_beside(path: &Path) -> Result<Option<Manifest>, Error> {
    let file = path.with_file_name(FILE_NAME);
    let manifest = match read_manifest(&file) {
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
    let about = manifest.library.iter().any(|library| path.ends_with(&library.path));
    Ok((about || manifest.library.is_empty()).then_some(manifest))
}

/// A plugin that discovery found.
fn discovered(mut candidate: Candidate) -> (Candidate, Result<Descriptor, Manifest>, Tier) {
    let tier = match candidate.provenance.source {
        SourceKind::Explicit => Tier::Program,
        SourceKind::ManifestOverride | SourceKind::ManifestAdded | SourceKind::Environment => Tier::User,
        _ => Tier::Found,
    };
    let manifest = manifest_for(&candidate);
    let library = candidate.library.path().map(|path| Library::Path(path.to_owned()));
    let descriptor = match library {
        Some(library) => Descriptor::new(manifest.clone(), library, Arc::new(())).map_err(|faults| {
            for Fault { field, message } in faults.into_vec() {
                let path = candidate.library.path().unwrap_or_else(|| Path::new("")).to_owned();
                candidate.refusals.push(Refusal::MalformedManifest { path, field, message });
            }
            manifest
        }),
        None => Err(manifest),
    };
    (candidate, descriptor, tier)
}

/// The manifest of a candidate: its own, else that of the device frameworks know by its name, else what stands for one.
fn manifest_for(candidate: &Candidate) -> Manifest {
    if let Some(manifest) = &candidate.manifest {
        return manifest.clone();
    }
    let names: Vec<String> = candidate.names.iter().map(|name| as_name(&name.name)).collect();
    let known = names.iter().find_map(|name| {
        let mut known = device_plugin::builtin::all().into_iter().filter(|known| known.answers_to(name));
        // Several answer to `gpu`, so it tells nothing.
        known.next().filter(|_| known.next().is_none())
    });
    let name = names.first().cloned().unwrap_or_else(|| "unnamed".to_owned());
    let mut manifest = known.unwrap_or_else(|| Manifest::new(name.clone()));
    let others = std::mem::take(&mut manifest.aliases);
    let generic = std::mem::replace(&mut manifest.name, name);
    manifest.library.clear();
    for alias in names.into_iter().skip(1).chain([generic]).chain(others) {
        if alias != manifest.name && !manifest.aliases.contains(&alias) {
            manifest.aliases.push(alias);
        }
    }
    manifest.priority = candidate.priority.unwrap_or(manifest.priority);
    manifest
}

/// The text as a name of a plugin: lower-case letters, digits and underscores, with a letter first. The name of a file or
/// a module may be longer than a plugin's name, and is cut.
fn as_name(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let letter = if text.starts_with(|c: char| c.is_ascii_alphabetic()) { "" } else { "x" };
    // Each character becomes one byte.
    letter.chars().chain(text.chars().map(plain)).take(MAX_NAME_LENGTH).collect()
}
