//! Prints source locations: a reference after each op, and the definitions at the end.

use super::printer::Printer;
use crate::ir::{Location, LocationId};

/// Maximum nesting depth of locations. A limit is necessary because the locations of a malicious program may be cyclic.
const MAX_DEPTH: usize = 256;

impl Printer<'_> {
    /// Prints a reference, such as `loc(#loc3)`.
    pub(super) fn location_reference(&mut self, id: LocationId) {
        self.push("loc(");
        self.location_name(id);
        self.push(")");
        if let Some(seen) = self.located.get_mut(id.0 as usize) {
            *seen = true;
        }
    }

    fn location_name(&mut self, id: LocationId) {
        match self.module.locations.get(id).as_deref() {
            None | Some(Location::Unknown) => self.push("unknown"),
            // Without a file name, the location is a line of the text from which the program was read.
            Some(Location::File { file, .. }) if file.is_empty() => self.push("unknown"),
            _ => {
                self.push("#loc");
                self.number(id.0);
            }
        }
    }

    /// Prints the definitions of all referenced locations. Each definition follows the definitions of its nested
    /// locations.
    pub(super) fn location_definitions(&mut self) {
        let wanted: Vec<u32> = (0u32..).zip(&self.located).filter(|(_, seen)| **seen).map(|(id, _)| id).collect();
        let mut done = vec![false; self.module.locations.len()];
        for id in wanted {
            self.location_definition(LocationId(id), &mut done, 0);
        }
    }

    fn location_definition(&mut self, id: LocationId, done: &mut [bool], depth: usize) {
        match done.get_mut(id.0 as usize) {
            Some(done @ false) => *done = true,
            _ => return,
        }
        let module = self.module;
        let Some(location) = module.locations.get(id) else { return };
        let children: Vec<LocationId> = match &*location {
            Location::Unknown => return,
            Location::File { file, .. } if file.is_empty() => return,
            Location::File { .. } => Vec::new(),
            Location::Name(_, child) => vec![*child],
            Location::CallSite(callee, caller) => vec![*callee, *caller],
            Location::Fused(places) => places.clone(),
        };
        for &child in &children {
            if depth < MAX_DEPTH {
                self.location_definition(child, done, depth + 1);
            }
        }
        // Replace a nested location that is not defined, because it is part of a cycle or nested too deeply, with
        // `unknown`.
        let place = |p: &mut Self, id: LocationId, done: &[bool]| {
            let defined = depth < MAX_DEPTH && done.get(id.0 as usize) == Some(&true);
            if defined { p.location_name(id) } else { p.push("unknown") }
        };
        self.push("#loc");
        self.number(id.0);
        self.push(" = loc(");
        match &*location {
            Location::File { file, line, column } => {
                self.string(file.as_bytes());
                self.push(":");
                self.number(line);
                self.push(":");
                self.number(column);
            }
            Location::Name(name, child) => {
                self.string(name.as_bytes());
                if module.locations.get(*child).is_some_and(|l| *l != Location::Unknown) {
                    self.push("(");
                    place(self, *child, done);
                    self.push(")");
                }
            }
            Location::CallSite(callee, caller) => {
                self.push("callsite(");
                place(self, *callee, done);
                self.push(" at ");
                place(self, *caller, done);
                self.push(")");
            }
            Location::Fused(places) => {
                self.push("fused[");
                self.list(places, |p, &id| place(p, id, done));
                self.push("]");
            }
            Location::Unknown => {}
        }
        self.push(")\n");
    }
}
