//! Copies of the plugin's tables, and the tables that the framework receives.

use std::ptr::{null, null_mut, without_provenance_mut};
use std::sync::atomic::Ordering;

use pjrt_sys::{PJRT_Api, PJRT_Api_Version, PJRT_Extension_Base, PJRT_Extension_Type};

use super::memory;
use super::slot::{Forwarder, SlotCell};
use crate::function::ForwardedFunction;

const WORD: usize = size_of::<usize>();
/// Maximum number of extensions that are read. The limit ends the loop if the plugin's chain of extensions is a cycle.
const MAX_EXTENSIONS: usize = 256;
/// First minor version in which extensions have the layout of this crate's header. Extensions of older plugins are not
/// read.
const FIRST_MINOR: u32 = 57;

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
    pub(super) fn new(copies: &Copies) -> Self {
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

/// A node of the plugin's chain of extensions.
struct Node {
    address: *const u8,
    size: usize,
    kind: u32,
}

/// Copies of the plugin's tables, each with the size in this crate's header. Slots that the plugin lacks are 0.
pub(super) struct Copies {
    main: &'static [u64],
    extensions: Vec<(u32, &'static [u64])>,
    nodes: Vec<Node>,
    size: usize,
    version: (u32, u32),
    address: *const PJRT_Api,
}

impl Copies {
    /// # Safety
    ///
    /// Contract L1 must hold for `plugin`.
    pub(super) unsafe fn of(plugin: *const PJRT_Api, forwarders: &[Forwarder]) -> Self {
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

    pub(super) fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Returns the plugin's own table.
    pub(super) fn address(&self) -> *const PJRT_Api {
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

    /// Returns the plugin's function `S`, if the plugin has it.
    #[inline]
    pub(super) fn function<S: ForwardedFunction>(&self) -> Option<unsafe extern "C" fn(*mut S::Args) -> S::Return> {
        let table = self.table(S::EXTENSION)?;
        // SAFETY: L3 (tables): the copy has the size of the table that `ForwardedFunction` promises.
        S::get(unsafe { &*table.cast::<S::Table>() })
    }

    /// Returns the pointer in a slot of the plugin's table, which is null if the table ends before the slot.
    pub(super) fn pointer(&self, forwarder: &Forwarder) -> *mut () {
        let copy = match forwarder.extension {
            None => Some(self.main),
            Some(kind) => self.extensions.iter().find(|(k, _)| *k == kind.0).map(|(_, table)| *table),
        };
        copy.map_or(null_mut(), |copy| std::ptr::with_exposed_provenance_mut(word(copy, forwarder.offset)))
    }
}

/// The tables that the framework receives.
pub(super) struct Shown {
    main: &'static [SlotCell],
    /// Empty if the framework sees the plugin's own chain or no extensions.
    extensions: Vec<(u32, &'static [SlotCell])>,
    pub(super) answers_missing: bool,
}

impl Shown {
    /// # Safety
    ///
    /// Contract L1 must hold for `plugin`.
    pub(super) unsafe fn new(
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

    pub(super) fn table(&self) -> *const PJRT_Api {
        self.main.as_ptr().cast()
    }

    /// Returns the cell of a forwarder's slot, if the framework's table has the slot.
    pub(super) fn slot(&self, forwarder: &Forwarder) -> Option<&SlotCell> {
        let table = match forwarder.extension {
            None => self.main,
            Some(kind) => self.extensions.iter().find(|(k, _)| *k == kind.0)?.1,
        };
        table.get(forwarder.offset / WORD)
    }
}

/// Copies the first `known` bytes of a table to `size` bytes that live as long as the process. The remaining bytes are
/// 0.
///
/// # Safety
///
/// `from` must be readable for `known` bytes.
pub(super) unsafe fn copy(from: *const u8, known: usize, size: usize) -> &'static [u64] {
    let words = Box::leak(vec![0_u64; size.div_ceil(WORD)].into_boxed_slice());
    // SAFETY: this function's contract: `from` is readable for this size, and the words have at least this size.
    unsafe { memory::copy(from, words.as_mut_ptr().cast(), known.min(size)) };
    words
}

/// Copies a table like [`copy`], but to atomic cells. The cells are atomic because this crate may change them while the
/// framework reads them. The result contains the words `before`, and then the table.
///
/// # Safety
///
/// `from` must be readable for `known` bytes.
pub(super) unsafe fn cells(from: *const u8, known: usize, size: usize, before: &[usize]) -> &'static [SlotCell] {
    // SAFETY: this function's contract.
    let words = unsafe { copy(from, known, size) };
    let words = words.iter().map(|word| usize::try_from(*word).unwrap_or(0));
    let cell = |word: usize| SlotCell::new(std::ptr::with_exposed_provenance_mut(word));
    Box::leak(before.iter().copied().chain(words).map(cell).collect::<Vec<_>>().into_boxed_slice())
}

fn set(cells: &[SlotCell], offset: usize, value: usize) {
    if let Some(cell) = cells.get(offset / WORD) {
        cell.store(without_provenance_mut(value), Ordering::Relaxed);
    }
}

pub(super) fn word(words: &[u64], offset: usize) -> usize {
    words.get(offset / WORD).map_or(0, |word| usize::try_from(*word).unwrap_or(0))
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
