//! Copies of the device's tables.

use std::ptr::{null, without_provenance_mut};
use std::sync::OnceLock;

use device_plugin::raw;
use pjrt_cpu::Cpu;
use pjrt_sys::{
    AbiStruct, PJRT_AbiVersion_Extension, PJRT_Api, PJRT_ExecutableMetadata_Extension, PJRT_Extension_Base,
    PJRT_FFI_Extension, PJRT_HostMemoryAllocator_Extension, PJRT_Layouts_Extension, PJRT_MemoryDescriptions_Extension,
    PJRT_RawBuffer_Extension, PJRT_Shardings_Extension, PJRT_Stream_Extension, Slot,
};

const WORD: usize = size_of::<usize>();
/// Index of the word in an extension that points to the next extension.
pub(super) const NEXT: usize = std::mem::offset_of!(PJRT_Extension_Base, next) / WORD;

/// A table with functions: the main table or an extension.
pub(crate) trait Place: Copy + 'static {
    /// The `PJRT_Extension_Type` of the extension, or `None` for the main table.
    const EXTENSION: Option<u32>;
}

macro_rules! places {
    ($($table:ident),* $(,)?) => {$(
        impl Place for $table {
            const EXTENSION: Option<u32> = Some(<$table as pjrt_sys::Extension>::TYPE.0);
        }
    )*};
}

impl Place for PJRT_Api {
    const EXTENSION: Option<u32> = None;
}

places!(
    PJRT_AbiVersion_Extension,
    PJRT_ExecutableMetadata_Extension,
    PJRT_FFI_Extension,
    PJRT_HostMemoryAllocator_Extension,
    PJRT_Layouts_Extension,
    PJRT_MemoryDescriptions_Extension,
    PJRT_RawBuffer_Extension,
    PJRT_Shardings_Extension,
    PJRT_Stream_Extension,
);

/// The type of a function in a table.
pub(super) type Raw<S> = unsafe extern "C" fn(*mut <S as Slot>::Args) -> <S as Slot>::Return;

/// The main table and the extensions, as words. A word is a pointer, a size, or two 32-bit integers.
#[derive(Clone)]
pub(crate) struct Tables {
    pub(crate) main: Vec<*mut ()>,
    /// The `PJRT_Extension_Type` of each extension, and its table.
    pub(crate) extensions: Vec<(u32, Vec<*mut ()>)>,
}

// SAFETY: M2 (tables): the pointers refer to functions that any thread may call, and to data that does not change.
unsafe impl Send for Tables {}
// SAFETY: M2 (tables): as for `Send`, any thread may call the functions, and the data does not change.
unsafe impl Sync for Tables {}

impl Tables {
    /// Copies the tables of a plugin.
    ///
    /// # Safety
    ///
    /// Contract M2 must hold for `table`.
    pub(super) unsafe fn of(table: *const PJRT_Api) -> Self {
        // SAFETY: M2 (tables): the table begins with its size.
        let size = unsafe { table.cast::<usize>().read() };
        // SAFETY: M2 (tables): the table is readable for its size.
        let main = unsafe { words(table.cast(), size) };
        let mut extensions = Vec::new();
        let mut next: *const () = main[std::mem::offset_of!(PJRT_Api, extension_start) / WORD];
        while !next.is_null() {
            // SAFETY: M2 (tables): an extension begins with its base.
            let base = unsafe { next.cast::<PJRT_Extension_Base>().read() };
            // SAFETY: M2 (tables): an extension is readable for its size.
            extensions.push((base.type_.0, unsafe { words(next.cast(), base.struct_size) }));
            next = base.next.cast();
        }
        Self { main, extensions }
    }

    fn table(&self, extension: Option<u32>) -> Option<&Vec<*mut ()>> {
        match extension {
            None => Some(&self.main),
            Some(number) => self.extensions.iter().find(|(found, _)| *found == number).map(|(_, table)| table),
        }
    }

    /// Returns the function `S`, if its table contains it.
    pub(super) fn function<S: Slot<Table: Place>>(&self) -> Option<Raw<S>> {
        let word = *self.table(S::Table::EXTENSION)?.get(S::OFFSET / WORD)?;
        // SAFETY: M2 (tables): the word at the slot's offset is null or a function of the slot's type.
        unsafe { (&raw const word).cast::<Option<Raw<S>>>().read() }
    }

    /// Replaces the word in a function's slot.
    pub(super) fn set<S: Slot<Table: Place>>(&mut self, word: *mut ()) {
        let table = match S::Table::EXTENSION {
            None => Some(&mut self.main),
            Some(number) => self.extensions.iter_mut().find(|(found, _)| *found == number).map(|(_, table)| table),
        };
        if let Some(slot) = table.and_then(|table| table.get_mut(S::OFFSET / WORD)) {
            *slot = word;
        }
    }

    /// Sets the size in bytes that the main table announces.
    pub(crate) fn announce(&mut self, size: usize) {
        self.main[0] = without_provenance_mut(size);
    }

    /// Sets the version that the main table announces.
    pub(crate) fn version(&mut self, major: u32, minor: u32) {
        let at = std::mem::offset_of!(PJRT_Api, pjrt_api_version.major_version) / WORD;
        self.main[at] = without_provenance_mut(major as usize | (minor as usize) << 32);
    }

    /// Sets the size in bytes that the extension with the `PJRT_Extension_Type` `number` announces.
    pub(crate) fn announce_extension(&mut self, number: u32, size: usize) {
        for (_, table) in self.extensions.iter_mut().filter(|(found, _)| *found == number) {
            table[0] = without_provenance_mut(size);
        }
    }

    /// Links the extensions, and returns the main table. If `cyclic` is set, the last extension points to the first.
    /// The tables live until the process ends.
    pub(super) fn start(mut self, cyclic: bool) -> *const PJRT_Api {
        let extensions: Vec<&'static mut [*mut ()]> =
            self.extensions.into_iter().map(|(_, table)| &mut *table.leak()).collect();
        let addresses: Vec<*mut ()> = extensions.iter().map(|table| table.as_ptr().cast_mut().cast()).collect();
        let first = addresses.first().copied().unwrap_or(std::ptr::null_mut());
        let last = extensions.len().saturating_sub(1);
        for (at, table) in extensions.into_iter().enumerate() {
            let end = if cyclic { first } else { std::ptr::null_mut() };
            table[NEXT] = if at == last { end } else { addresses[at + 1] };
        }
        self.main[std::mem::offset_of!(PJRT_Api, extension_start) / WORD] = first;
        self.main.leak().as_ptr().cast()
    }
}

/// Returns a copy of the device's own tables. A process makes only one copy.
pub(super) fn own() -> &'static Tables {
    static OWN: OnceLock<Tables> = OnceLock::new();
    // SAFETY: M2 (tables): `device-plugin` keeps C1 for its tables.
    OWN.get_or_init(|| unsafe { Tables::of(raw::api::<Cpu>()) })
}

/// Returns the device's own function `S`, if the device has it.
pub(super) fn real<S: Slot<Table: Place>>() -> Option<Raw<S>> {
    own().function::<S>()
}

/// Copies a struct to words. The copy is at least as long as the base of an extension.
///
/// # Safety
///
/// `from` must be readable for `size` bytes.
unsafe fn words(from: *const u8, size: usize) -> Vec<*mut ()> {
    let least = PJRT_Extension_Base::STRUCT_SIZE.max(size);
    let mut words: Vec<*mut ()> = vec![null::<()>().cast_mut(); least.div_ceil(WORD)];
    // SAFETY: this function's contract: `from` is readable for this size, and the words have at least this size.
    unsafe { std::ptr::copy_nonoverlapping(from, words.as_mut_ptr().cast(), size) };
    words
}
