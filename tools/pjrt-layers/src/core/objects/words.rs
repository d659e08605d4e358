//! Makes the first words of objects refer to copies of the objects' tables.

use std::mem::offset_of;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use pjrt_sys::PJRT_DeviceEvent_FunctionTable;

use super::tables::{ALL, FIRST_MINOR, MARK, ObjectKind, OutputField, Pair, WORD, size_of_table};
use crate::core::forwarding::Stack;
use crate::core::memory::{self, guarded};
use crate::core::plugin::is_inside_plugin;
use crate::core::tables::{cells, copy, word};

impl Stack {
    /// Fills the slots of the copies. A slot contains a forwarder if an active layer selects the function. Otherwise,
    /// it contains the pointer from the original table.
    pub(in crate::core) fn install_objects(&self) {
        self.objects.activate(|id| self.has_active_hook(id));
        for kind in ALL {
            for (at, pair) in self.objects.pairs(kind) {
                self.fill(kind, at, pair);
            }
        }
    }

    fn fill(&self, kind: ObjectKind, table: usize, pair: &Pair) {
        for forwarder in self.objects.forwarders.iter().filter(|forwarder| forwarder.kind == kind) {
            let Some(slot) = pair.slot(forwarder.offset) else { continue };
            let real: *mut () = std::ptr::with_exposed_provenance_mut(word(pair.functions, forwarder.offset));
            let forwards = !real.is_null() && self.has_active_hook(forwarder.id);
            slot.store(if forwards { forwarder.functions[table] } else { real }, Ordering::Release);
        }
    }

    /// Returns the address of the copy to which an object with the table `table` must refer, and creates the copy if
    /// necessary. Returns `None` if the object must keep the table.
    pub(in crate::core) fn copy_of_table(&self, kind: ObjectKind, table: usize) -> Option<usize> {
        if !self.objects.is_active(kind) {
            return None;
        }
        let known = |table: usize| self.objects.pairs(kind).find(|(_, pair)| pair.original == table);
        if let Some((_, pair)) = known(table) {
            return Some(pair.address());
        }
        if self.objects.is_shown(kind, table) {
            return None;
        }
        let size = size_of_table(kind, table)?;
        // The parent of an event's table is another table of the same kind.
        let parent_at = offset_of!(PJRT_DeviceEvent_FunctionTable, parent);
        let parent = (kind == ObjectKind::DeviceEvent && size >= parent_at + WORD).then(|| {
            let [parent] = guarded::read(table + parent_at)?;
            (parent != 0 && parent != table).then(|| self.copy_of_table(kind, parent))?
        });
        let _adding = self.objects.adding.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have added the table before this thread locked `adding`.
        if let Some((_, pair)) = known(table) {
            return Some(pair.address());
        }
        let (at, place) =
            self.objects.known[kind as usize].iter().enumerate().find(|(_, pair)| pair.get().is_none())?;
        let own = self.objects.forwarders.iter().find(|forwarder| forwarder.kind == kind)?.table_size;
        let from = std::ptr::with_exposed_provenance::<u8>(table);
        // SAFETY: L13 (objects): the table is readable for the size that it announces.
        let functions = unsafe { copy(from, size, own) };
        // SAFETY: L13 (objects): the table is readable for the size that it announces.
        let shown = unsafe { cells(from, size, size, &[MARK, table]) };
        let pair = Pair { original: table, functions, shown };
        if let (Some(Some(parent)), Some(slot)) = (parent, pair.slot(parent_at)) {
            slot.store(std::ptr::with_exposed_provenance_mut(parent), Ordering::Release);
        }
        self.fill(kind, at, &pair);
        self.objects.is_found.store(true, Ordering::Release);
        Some(place.get_or_init(|| pair).address())
    }

    /// Makes an object that the framework is about to receive refer to the copy of its table.
    pub(in crate::core) fn show_object(&self, kind: ObjectKind, object: usize) {
        if object == 0 || !self.objects.is_active(kind) || self.plugin.version().1 < FIRST_MINOR {
            return;
        }
        let checked = &self.objects.memories[(object >> 4) % self.objects.memories.len()];
        if kind == ObjectKind::Memory && checked.load(Ordering::Relaxed) == object {
            return;
        }
        if let Some([table]) = guarded::read(object)
            && let Some(copy) = self.copy_of_table(kind, table)
        {
            // If the memory cannot be written, the object keeps its table.
            guarded::write(object, copy);
        }
        if kind == ObjectKind::Memory {
            checked.store(object, Ordering::Relaxed);
        }
    }

    /// Makes the objects in the results of a successful call refer to the copies of their tables.
    ///
    /// # Safety
    ///
    /// Contract L2: `args` must be the arguments of a call of the function, and must not be null.
    #[inline]
    pub(in crate::core) unsafe fn show_outputs(&self, id: usize, args: *const u8) {
        let fields = &self.objects.outputs[id].fields;
        if !fields.is_empty() {
            // SAFETY: this function's contract.
            unsafe { self.show_fields(fields, args) };
        }
    }

    /// # Safety
    ///
    /// Contract L2: `args` must be the arguments of a call of the function with these outputs, and must not be null.
    unsafe fn show_fields(&self, fields: &[OutputField], args: *const u8) {
        for (kind, field, count) in fields {
            if !self.objects.is_active(*kind) {
                continue;
            }
            // SAFETY: L2 (arguments): the struct begins with its size.
            let value = unsafe { memory::field(args, field.offset) };
            let Some(count) = count else {
                self.show_object(*kind, value);
                continue;
            };
            // SAFETY: L2 (arguments): the struct begins with its size.
            let count = unsafe { memory::field(args, count.offset) };
            // SAFETY: L2 (arguments): the array has this length.
            for object in unsafe { memory::pointers(std::ptr::with_exposed_provenance(value), count) } {
                self.show_object(*kind, object);
            }
        }
    }

    /// Forgets which `PJRT_Memory` objects were checked. After a client was destroyed, another client may use the same
    /// addresses.
    pub(in crate::core) fn forget_memories(&self) {
        for memory in &self.objects.memories {
            memory.store(0, Ordering::Relaxed);
        }
    }

    /// Returns whether layers see a call of this thread through the table of an object. Layers do not see calls that
    /// the plugin itself makes.
    pub(in crate::core) fn sees_objects(&self) -> bool {
        !is_inside_plugin()
    }
}
