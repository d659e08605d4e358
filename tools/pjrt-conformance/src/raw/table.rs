//! Direct access to a plugin's table and its extensions.

use pjrt::Plugin;
use pjrt_sys::{Extension, PJRT_Api, PJRT_Extension_Base, Slot};

/// Type of a function in the table.
pub(super) type Raw<S> = unsafe extern "C" fn(*mut <S as Slot>::Args) -> <S as Slot>::Return;

/// Returns a function of the plugin's table, if the table contains it.
pub(super) fn function<S: Slot<Table = PJRT_Api>>(plugin: &Plugin) -> Option<Raw<S>> {
    if S::OFFSET + size_of::<usize>() > plugin.api().struct_size() {
        return None;
    }
    // SAFETY: C1 (table): the table is readable for the size it announces, which contains the slot.
    let slot = unsafe { plugin.api().as_raw().byte_add(S::OFFSET) };
    // SAFETY: C1 (table): the slot is null or a function of this type.
    unsafe { slot.cast::<Option<Raw<S>>>().read() }
}

/// Returns a function of an extension, if the plugin has the extension and its table contains the function.
pub(super) fn extension_function<S: Slot<Table: Extension>>(plugin: &Plugin) -> Option<Raw<S>> {
    let node = chain(plugin).into_iter().find(|node| node.number == S::Table::TYPE.0)?;
    if S::OFFSET + size_of::<usize>() > node.size {
        return None;
    }
    // SAFETY: C1 (table): the extension is readable for the size it announces, which contains the slot.
    let slot = unsafe { node.table.byte_add(S::OFFSET) };
    // SAFETY: C1 (table): the slot is null or a function of this type.
    unsafe { slot.cast::<Option<Raw<S>>>().read() }
}

/// An extension in the plugin's chain, with the type and the size that the plugin announces.
pub(crate) struct Node {
    pub(crate) number: u32,
    pub(crate) size: usize,
    table: *const PJRT_Extension_Base,
}

/// Maximum number of extensions that [`chain`] returns. The limit ends the loop if the plugin's chain is a cycle.
pub(crate) const MOST: usize = 256;

/// Returns the extensions in the plugin's chain. Unlike `Plugin::extensions`, does not stop at an extension that is too
/// short.
pub(crate) fn chain(plugin: &Plugin) -> Vec<Node> {
    let mut nodes = Vec::new();
    let at = std::mem::offset_of!(PJRT_Api, extension_start);
    // SAFETY: C1 (table): `pjrt` loads only tables that contain this field.
    let start = unsafe { plugin.api().as_raw().byte_add(at) };
    // SAFETY: C1 (table): the field is null or the address of an extension.
    let mut next = unsafe { start.cast::<*const PJRT_Extension_Base>().read() };
    while !next.is_null() && nodes.len() < MOST {
        // SAFETY: C1 (table): every extension begins with its base.
        let base = unsafe { next.read() };
        nodes.push(Node { number: base.type_.0, size: base.struct_size, table: next });
        next = base.next;
    }
    nodes
}
