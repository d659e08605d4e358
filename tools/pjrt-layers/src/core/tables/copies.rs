//! Copies of the plugin's tables.

use std::ptr::{null, null_mut};

use pjrt_sys::{PJRT_Api, PJRT_Api_Version, PJRT_Extension_Base, PJRT_Extension_Type};

use super::forwarder::Forwarder;
use super::words::{WORD, copy, word};
use crate::core::memory;
use crate::function::ForwardedFunction;

/// Maximum number of extensions that are read. The limit ends the loop if the plugin's chain of extensions is a cycle.
const MAX_EXTENSIONS: usize = 256;
/// First minor version in which extensions have the layout of this crate's header. Extensions of older plugins are not
/// read.
const FIRST_MINOR: u32 = 57;

/// A node of the plugin's chain of extensions.
pub(super) struct Node {
    pub(super) address: *const u8,
    pub(super) size: usize,
    pub(super) kind: u32,
}

/// Copies of the plugin's tables, each with the size in this crate's header. Slots that the plugin lacks are 0.
pub(in crate::core) struct Copies {
    main: &'static [u64],
    extensions: Vec<(u32, &'static [u64])>,
    pub(super) nodes: Vec<Node>,
    pub(super) size: usize,
    version: (u32, u32),
    address: *const PJRT_Api,
}

// SAFETY: L3 (tables): the pointers refer to functions and tables that live as long as the process, and any thread may
// use them.
unsafe impl Send for Copies {}
// SAFETY: L3 (tables): as for `Send`, any thread may use the functions and tables.
unsafe impl Sync for Copies {}

impl Copies {
    /// # Safety
    ///
    /// Contract L1 must hold for `plugin`.
    pub(in crate::core) unsafe fn of(plugin: *const PJRT_Api, forwarders: &[Forwarder]) -> Self {
        let table = plugin.cast::<u8>();
        // SAFETY: L1 (plugin): the table begins with its size.
        let size = unsafe { memory::read::<usize>(table) } / WORD * WORD;
        // SAFETY: L1 (plugin): the table is readable for its size.
        let main = unsafe { copy(table, size, size_of::<PJRT_Api>()) };
        let at = std::mem::offset_of!(PJRT_Api, pjrt_api_version);
        let part = |offset: usize| {
            // SAFETY: the copy has the size of the whole table, so it contains the version.
            let number = unsafe { memory::read::<i32>(main.as_ptr().cast::<u8>().wrapping_add(at + offset)) };
            u32::try_from(number).unwrap_or(0)
        };
        let major = part(std::mem::offset_of!(PJRT_Api_Version, major_version));
        let minor = part(std::mem::offset_of!(PJRT_Api_Version, minor_version));
        let first = word(main, std::mem::offset_of!(PJRT_Api, extension_start));
        // SAFETY: L1 (plugin): the plugin's chain of extensions is valid.
        let nodes = if minor < FIRST_MINOR { Vec::new() } else { unsafe { chain(first) } };
        let mut extensions = Vec::new();
        for node in &nodes {
            let own = forwarders.iter().find(|f| f.extension == Some(PJRT_Extension_Type(node.kind)));
            if let Some(own) = own {
                // SAFETY: L1 (plugin): a node is readable for its size.
                extensions.push((node.kind, unsafe { copy(node.address, node.size / WORD * WORD, own.table_size) }));
            }
        }
        Self { main, extensions, nodes, size, version: (major, minor), address: plugin }
    }

    pub(in crate::core) fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Returns the plugin's own table.
    pub(in crate::core) fn address(&self) -> *const PJRT_Api {
        self.address
    }

    /// Returns the copy of the main table or of an extension. The copy has the size of the table in this crate's
    /// header.
    #[inline]
    fn table(&self, extension: Option<PJRT_Extension_Type>) -> Option<*const u64> {
        match extension {
            None => Some(self.main.as_ptr()),
            Some(kind) => self.extensions.iter().find(|(k, _)| *k == kind.0).map(|(_, table)| table.as_ptr()),
        }
    }

    /// Returns whether the plugin has an extension.
    pub(in crate::core) fn has_extension(&self, extension: PJRT_Extension_Type) -> bool {
        self.nodes.iter().any(|node| node.kind == extension.0)
    }

    /// Returns the plugin's function `S`, if the plugin has it.
    #[inline]
    pub(in crate::core) fn function<S: ForwardedFunction>(
        &self,
    ) -> Option<unsafe extern "C" fn(*mut S::Args) -> S::Return> {
        let table = self.table(S::EXTENSION)?;
        // SAFETY: L3 (tables): the copy has the size of the table that `ForwardedFunction` promises.
        S::get(unsafe { &*table.cast::<S::Table>() })
    }

    /// Returns the pointer in a slot of the plugin's table, which is null if the table ends before the slot.
    pub(in crate::core) fn pointer(&self, forwarder: &Forwarder) -> *mut () {
        let copy = match forwarder.extension {
            None => Some(self.main),
            Some(kind) => self.extensions.iter().find(|(k, _)| *k == kind.0).map(|(_, table)| *table),
        };
        copy.map_or(null_mut(), |copy| std::ptr::with_exposed_provenance_mut(word(copy, forwarder.offset)))
    }
}

/// # Safety
///
/// Contract L1: `first` must be 0 or the address of the first node of a plugin's chain.
unsafe fn chain(first: usize) -> Vec<Node> {
    let mut nodes = Vec::new();
    let mut next = std::ptr::with_exposed_provenance::<u8>(first);
    while !next.is_null() && nodes.len() < MAX_EXTENSIONS {
        // SAFETY: L1 (plugin): a node begins with a `PJRT_Extension_Base`.
        let base = unsafe { memory::read::<PJRT_Extension_Base>(next) };
        nodes.push(Node { address: next, size: base.struct_size, kind: base.type_.0 });
        next = if base.next.is_null() { null() } else { base.next.cast_const().cast() };
    }
    nodes
}
