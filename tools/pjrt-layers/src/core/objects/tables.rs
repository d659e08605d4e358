//! The function tables of objects. Errors, memories, raw buffers, device events and promises of device events begin
//! with the address of a table with the functions of their type. While a layer selects one of these functions, the
//! objects that the framework receives refer to a copy of this table with forwarders.
//!
//! The functions have no argument for the table, and the functions of device events receive only the second half of the
//! event. Each known table therefore has its own forwarders, which are compiled for the index of the table. A plugin
//! has one or two tables for each type.
//!
//! Layers of other libraries may be between the framework and this stack, and may replace the first word of an object
//! again. Two words before each copy therefore mark it as a copy, and contain the address of its original. With these
//! words, a stack recognizes its own copy below copies of other libraries.

use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use pjrt_sys::{
    PJRT_DeviceEvent, PJRT_DeviceEvent_FunctionTable, PJRT_DeviceEventPromise, PJRT_DeviceEventPromise_FunctionTable,
    PJRT_Error, PJRT_Error_FunctionTable, PJRT_Memory, PJRT_Memory_FunctionTable, PJRT_RawBuffer,
    PJRT_RawBuffer_FunctionTable,
};

use crate::core::memory::guarded;
use crate::core::tables::SlotCell;
use crate::function::{Field, Function, Kind};
use crate::generated::FUNCTIONS;

pub(in crate::core) const WORD: usize = size_of::<usize>();
/// Maximum number of tables that are copied for one type of object. The number is fixed because the forwarders of each
/// copy are compiled for the index of its table. Objects with further tables keep their own tables.
pub(in crate::core) const TABLES: usize = 4;
/// Number of words before a copy. They contain the mark and the address of the original.
pub(in crate::core) const MARK_WORDS: usize = 2;
pub(in crate::core) const MARK: usize = 0x9d5c_7a31_e8b2_46f7;
/// Maximum number of copies between a table and its original. Each library with layers adds one copy. The limit
/// prevents an endless loop if the marks form a cycle.
const MAX_STACK: usize = 32;
/// Maximum plausible size in bytes of a table or an object. Larger values show that the words are not a table. The
/// largest table of the current header is much smaller.
const MAX_SIZE: usize = 4096;
/// First minor version of the API in which objects have tables.
pub(in crate::core) const FIRST_MINOR: u32 = 105;

/// Type of an object with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Error,
    Memory,
    RawBuffer,
    DeviceEvent,
    Promise,
}

const KINDS: usize = 5;

/// An object that begins with the address of its table.
pub(crate) trait HasTable {
    const KIND: ObjectKind;
    const NAME: &'static str;
    /// Offset of the first function in the table.
    const FIRST: usize;
    /// Offset of the field in the table that contains the size of the object. `None` if the table does not have this
    /// field.
    const OBJECT_SIZE: Option<usize>;
}

macro_rules! objects {
    ($($object:ident = $kind:ident, $table:ident, $first:ident, $size:expr;)*) => {
        $(impl HasTable for $object {
            const KIND: ObjectKind = ObjectKind::$kind;
            const NAME: &'static str = stringify!($object);
            const FIRST: usize = offset_of!($table, $first);
            const OBJECT_SIZE: Option<usize> = $size;
        })*

        /// The constants `NAME`, `FIRST` and `OBJECT_SIZE` of the type of each kind.
        const LAYOUTS: [(&str, usize, Option<usize>); KINDS] =
            [$((<$object as HasTable>::NAME, <$object as HasTable>::FIRST, <$object as HasTable>::OBJECT_SIZE)),*];
        pub(in crate::core) const ALL: [ObjectKind; KINDS] = [$(ObjectKind::$kind),*];
    };
}

objects! {
    PJRT_Error = Error, PJRT_Error_FunctionTable, destroy, Some(offset_of!(PJRT_Error_FunctionTable, instance_size));
    PJRT_Memory = Memory, PJRT_Memory_FunctionTable, get_user_data,
        Some(offset_of!(PJRT_Memory_FunctionTable, instance_struct_size));
    PJRT_RawBuffer = RawBuffer, PJRT_RawBuffer_FunctionTable, inc_ref,
        Some(offset_of!(PJRT_RawBuffer_FunctionTable, instance_size));
    PJRT_DeviceEvent = DeviceEvent, PJRT_DeviceEvent_FunctionTable, inc_ref, None;
    PJRT_DeviceEventPromise = Promise, PJRT_DeviceEventPromise_FunctionTable, inc_ref,
        Some(offset_of!(PJRT_DeviceEventPromise_FunctionTable, instance_size));
}

fn kind_of(name: &str) -> Option<ObjectKind> {
    ALL.into_iter().zip(LAYOUTS).find(|(_, (known, ..))| *known == name).map(|(kind, _)| kind)
}

/// The forwarders of a function in the table of an object, one for each of up to [`TABLES`] tables.
pub(crate) struct ObjectForwarder {
    pub(in crate::core) kind: ObjectKind,
    /// Index of the function in `FUNCTIONS`.
    pub(in crate::core) id: usize,
    /// Offset of the function's slot in the table.
    pub(in crate::core) offset: usize,
    /// Size of the table in this crate's header.
    pub(in crate::core) table_size: usize,
    pub(in crate::core) functions: [*mut (); TABLES],
}

impl ObjectForwarder {
    pub(crate) fn new(
        kind: ObjectKind,
        id: usize,
        offset: usize,
        table_size: usize,
        functions: [*mut (); TABLES],
    ) -> Self {
        Self { kind, id, offset, table_size, functions }
    }
}

/// A table that was found in an object, and the copy of this table.
pub(in crate::core) struct Pair {
    pub(in crate::core) original: usize,
    /// Copy of the original's functions, with the table size in this crate's header.
    pub(in crate::core) functions: &'static [u64],
    /// The copy for the framework, after the words that mark it as a copy.
    pub(in crate::core) shown: &'static [SlotCell],
}

impl Pair {
    pub(in crate::core) fn address(&self) -> usize {
        self.shown[MARK_WORDS..].as_ptr().expose_provenance()
    }

    pub(in crate::core) fn slot(&self, offset: usize) -> Option<&SlotCell> {
        self.shown.get(MARK_WORDS + offset / WORD)
    }
}

/// An output field that contains an object or an array of objects: the type of the objects, the field, and the field
/// for the length of the array. The last element is `None` for a single object.
pub(in crate::core) type OutputField = (ObjectKind, &'static Field, Option<&'static Field>);

/// The objects that a function in the main table or in an extension returns.
#[derive(Default)]
pub(in crate::core) struct Outputs {
    pub(in crate::core) fields: Vec<OutputField>,
    fallible: bool,
}

impl Outputs {
    fn of(function: &'static Function) -> Self {
        let mut outputs = Self { fields: Vec::new(), fallible: function.fallible };
        let count = function.fields.iter().find(|field| field.output && matches!(field.kind, Kind::Size));
        for field in function.fields.iter().filter(|field| field.output) {
            match field.kind {
                Kind::Handle(name) => outputs.fields.extend(kind_of(name).map(|kind| (kind, field, None))),
                Kind::Handles(name) if count.is_some() => {
                    outputs.fields.extend(kind_of(name).map(|kind| (kind, field, count)));
                }
                _ => {}
            }
        }
        outputs
    }
}

/// The known tables of objects.
pub(in crate::core) struct ObjectTables {
    pub(in crate::core) forwarders: Vec<ObjectForwarder>,
    pub(in crate::core) known: [[OnceLock<Pair>; TABLES]; KINDS],
    /// Whether a table has been found and copied.
    pub(in crate::core) is_found: AtomicBool,
    /// Locked while a table is added.
    pub(in crate::core) adding: Mutex<()>,
    /// For each type, whether an active layer selects a function of the type.
    active: [AtomicBool; KINDS],
    /// The objects that each function of the main table and of the extensions returns.
    pub(in crate::core) outputs: Vec<Outputs>,
    /// `PJRT_Memory` objects whose first word was checked since the last client was destroyed. The address of an object
    /// selects its element of the array.
    pub(in crate::core) memories: [AtomicUsize; 64],
}

impl ObjectTables {
    pub(in crate::core) fn new(forwarders: Vec<ObjectForwarder>, is_wanted: impl Fn(usize) -> bool) -> Self {
        let tables = Self {
            forwarders,
            known: Default::default(),
            is_found: AtomicBool::new(false),
            adding: Mutex::default(),
            active: Default::default(),
            outputs: FUNCTIONS.iter().map(Outputs::of).collect(),
            memories: [const { AtomicUsize::new(0) }; 64],
        };
        tables.activate(is_wanted);
        tables
    }

    /// Updates `active`. `is_wanted` receives the index of a function in `FUNCTIONS`, and returns whether an active
    /// layer selects this function.
    pub(in crate::core) fn activate(&self, is_wanted: impl Fn(usize) -> bool) {
        for kind in ALL {
            let mut of_kind = self.forwarders.iter().filter(|forwarder| forwarder.kind == kind);
            self.active[kind as usize].store(of_kind.any(|forwarder| is_wanted(forwarder.id)), Ordering::Release);
        }
    }

    pub(in crate::core) fn is_active(&self, kind: ObjectKind) -> bool {
        self.active[kind as usize].load(Ordering::Acquire)
    }

    /// Returns whether a function must be forwarded because it returns objects whose tables are replaced.
    pub(in crate::core) fn needs(&self, id: usize) -> bool {
        let outputs = &self.outputs[id];
        outputs.fallible && self.is_active(ObjectKind::Error)
            || outputs.fields.iter().any(|(kind, ..)| self.is_active(*kind))
    }

    /// Returns the original functions of the known table with the index `table`.
    pub(in crate::core) fn functions(&self, kind: ObjectKind, table: usize) -> Option<*const u64> {
        self.known[kind as usize].get(table)?.get().map(|pair| pair.functions.as_ptr())
    }

    pub(in crate::core) fn pairs(&self, kind: ObjectKind) -> impl Iterator<Item = (usize, &Pair)> {
        self.known[kind as usize].iter().enumerate().filter_map(|(at, pair)| Some((at, pair.get()?)))
    }

    /// Returns whether a table is a copy that this stack made, or a copy of such a copy by another library. Also
    /// returns `true` if the chain of copies is longer than [`MAX_STACK`].
    pub(in crate::core) fn is_shown(&self, kind: ObjectKind, table: usize) -> bool {
        let mut table = table;
        for _ in 0..MAX_STACK {
            if self.pairs(kind).any(|(_, pair)| pair.address() == table) {
                return true;
            }
            match guarded::read(table.wrapping_sub(MARK_WORDS * WORD)) {
                Some([MARK, original]) => table = original,
                _ => return false,
            }
        }
        true
    }

    /// Returns the original of a table, if the table is a copy that this stack made.
    pub(in crate::core) fn original(&self, kind: ObjectKind, table: usize) -> Option<usize> {
        self.pairs(kind).find(|(_, pair)| pair.address() == table).map(|(_, pair)| pair.original)
    }
}

/// Returns the size that a table announces, or `None` if the words at the address do not look like a table of this
/// kind.
pub(in crate::core) fn size_of_table(kind: ObjectKind, table: usize) -> Option<usize> {
    let (_, first, object_size) = LAYOUTS[kind as usize];
    if table == 0 || !table.is_multiple_of(WORD) {
        return None;
    }
    let [size, head @ ..] = guarded::read::<4>(table)?;
    let is_size = |size: usize| (WORD..=MAX_SIZE).contains(&size);
    let object_fits = object_size.is_none_or(|at| is_size(head[at / WORD - 1]));
    let has_function = head[first / WORD - 1] != 0;
    (is_size(size) && size.is_multiple_of(WORD) && size > first && object_fits && has_function).then_some(size)
}
