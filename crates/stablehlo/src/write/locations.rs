//! Writes source locations as attributes of MLIR's builtin dialect.

use super::bytes::Buffer;
use super::encoder::{Dialect, Encoder};
use crate::ir::{LocationId, LocationView, Module};

/// Maximum nesting depth of locations. A limit is necessary because the locations of a malicious program may be cyclic.
const MAX_DEPTH: usize = 64;

/// Attribute index of each location that is already written.
pub(super) struct Locations {
    known: Vec<Option<usize>>,
    unknown: usize,
}

impl Locations {
    pub(super) fn new(module: &Module, encoder: &mut Encoder) -> Self {
        let unknown = put(encoder, 15, |_| {});
        Self { known: vec![None; module.locations.len()], unknown }
    }

    /// Adds a location to the attribute table, unless the location is already written. Returns its attribute index.
    pub(super) fn number(&mut self, module: &Module, encoder: &mut Encoder, id: LocationId) -> usize {
        self.at_depth(module, encoder, id, 0)
    }

    fn at_depth(&mut self, module: &Module, encoder: &mut Encoder, id: LocationId, depth: usize) -> usize {
        let at = id.0 as usize;
        if let Some(Some(number)) = self.known.get(at) {
            return *number;
        }
        let (Some(location), true) = (module.locations.view(id), depth < MAX_DEPTH) else { return self.unknown };
        let mut child = |id: LocationId| self.at_depth(module, encoder, id, depth + 1);
        let number = match location {
            LocationView::Unknown => self.unknown,
            // Without a file name, the location is a line of the text from which the program was read.
            LocationView::File { file, .. } if file.is_empty() => self.unknown,
            LocationView::File { file, line, column } => {
                let file = encoder.builtin_string(file.as_bytes());
                put(encoder, 11, |b| {
                    b.size(file);
                    b.varint(line);
                    b.varint(column);
                })
            }
            LocationView::Name(name, place) => {
                let place = child(place);
                let name = encoder.builtin_string(name.as_bytes());
                put(encoder, 14, |b| {
                    b.size(name);
                    b.size(place);
                })
            }
            LocationView::CallSite(callee, caller) => {
                let (callee, caller) = (child(callee), child(caller));
                put(encoder, 10, |b| {
                    b.size(callee);
                    b.size(caller);
                })
            }
            LocationView::Fused(places) => {
                let places: Vec<usize> = places.iter().map(|&id| child(id)).collect();
                put(encoder, 12, |b| b.indices(&places))
            }
        };
        if let Some(slot) = self.known.get_mut(at) {
            *slot = Some(number);
        }
        number
    }
}

fn put(encoder: &mut Encoder, code: u64, fields: impl FnOnce(&mut Buffer)) -> usize {
    let mut buffer = encoder.buffer();
    buffer.varint(code);
    fields(&mut buffer);
    encoder.attribute(Dialect::Builtin, buffer)
}
