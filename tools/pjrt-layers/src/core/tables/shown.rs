//! The tables that the framework receives.

use std::ptr::without_provenance_mut;
use std::sync::atomic::Ordering;

use pjrt_sys::{PJRT_Api, PJRT_Api_Version, PJRT_Extension_Base, PJRT_Extension_Type};

use super::copies::{Copies, Node};
use super::forwarder::{Forwarder, SlotCell};
use super::words::{WORD, cells};

/// Properties of the function table that the framework receives. Layers change them before any call.
#[derive(Debug)]
pub struct TablePlan {
    plugin_minor: u32,
    plugin_size: usize,
    /// The major version that the table announces.
    pub major: u32,
    /// The minor version that the table announces.
    pub minor: u32,
    /// The size that the table announces, in bytes.
    pub size: usize,
    /// Whether functions that the plugin lacks return an error. Otherwise, their slots are null.
    pub answers_missing: bool,
    /// The `PJRT_Extension_Type` values of the extensions that the framework's table omits.
    pub hidden: Vec<u32>,
}

impl TablePlan {
    pub(in crate::core) fn new(copies: &Copies) -> Self {
        let (plugin_minor, plugin_size) = (copies.version().1, copies.size);
        Self {
            plugin_minor,
            plugin_size,
            major: copies.version().0,
            minor: plugin_minor,
            size: plugin_size,
            answers_missing: false,
            hidden: Vec::new(),
        }
    }

    /// Returns the minor version of the plugin's table.
    #[must_use]
    pub fn plugin_minor(&self) -> u32 {
        self.plugin_minor
    }

    /// Returns the size of the plugin's table in bytes.
    #[must_use]
    pub fn plugin_size(&self) -> usize {
        self.plugin_size
    }
}

/// The tables that the framework receives.
pub(in crate::core) struct Shown {
    main: &'static [SlotCell],
    /// Empty if the framework sees the plugin's own chain or no extensions.
    extensions: Vec<(u32, &'static [SlotCell])>,
    pub(in crate::core) answers_missing: bool,
}

impl Shown {
    /// # Safety
    ///
    /// Contract L1 must hold for `plugin`.
    pub(in crate::core) unsafe fn new(
        plugin: *const PJRT_Api,
        copies: &Copies,
        plan: &TablePlan,
        forwarders: &[Forwarder],
        wanted: &dyn Fn(usize) -> bool,
    ) -> Self {
        // Even if the plan announces a smaller table, the new table contains all of the plugin's functions, because the
        // plugin may call its own functions through the table in a client.
        // SAFETY: L1 (plugin): the table is readable for its size.
        let main = unsafe { cells(plugin.cast(), copies.size, plan.size.max(copies.size), &[]) };
        set(main, 0, plan.size);
        let minor =
            std::mem::offset_of!(PJRT_Api, pjrt_api_version) + std::mem::offset_of!(PJRT_Api_Version, major_version);
        // The word contains two 32-bit integers: the major and the minor version.
        set(main, minor, plan.major as usize | (plan.minor as usize) << 32);
        let hooked = |kind: u32| {
            let of_node = |f: &Forwarder| f.extension == Some(PJRT_Extension_Type(kind));
            forwarders.iter().enumerate().any(|(id, f)| of_node(f) && wanted(id))
        };
        let is_plain = |node: &Node| !plan.hidden.contains(&node.kind) && !hooked(node.kind);
        let mut extensions: Vec<(u32, &'static [SlotCell])> = Vec::new();
        if !copies.nodes.iter().all(is_plain) {
            let mut link = 0;
            for node in copies.nodes.iter().rev().filter(|node| !plan.hidden.contains(&node.kind)) {
                // SAFETY: L1 (plugin): a node is readable for its size.
                let copy = unsafe { cells(node.address, node.size, node.size.next_multiple_of(WORD), &[]) };
                set(copy, std::mem::offset_of!(PJRT_Extension_Base, next), link);
                link = copy.as_ptr().expose_provenance();
                extensions.push((node.kind, copy));
            }
            set(main, std::mem::offset_of!(PJRT_Api, extension_start), link);
        }
        Self { main, extensions, answers_missing: plan.answers_missing }
    }

    pub(in crate::core) fn table(&self) -> *const PJRT_Api {
        self.main.as_ptr().cast()
    }

    /// Returns the cell of a forwarder's slot, if the framework's table has the slot.
    pub(in crate::core) fn slot(&self, forwarder: &Forwarder) -> Option<&SlotCell> {
        let table = match forwarder.extension {
            None => self.main,
            Some(kind) => self.extensions.iter().find(|(k, _)| *k == kind.0)?.1,
        };
        table.get(forwarder.offset / WORD)
    }
}

fn set(cells: &[SlotCell], offset: usize, value: usize) {
    if let Some(cell) = cells.get(offset / WORD) {
        cell.store(without_provenance_mut(value), Ordering::Relaxed);
    }
}
