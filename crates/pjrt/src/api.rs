//! The function table of a plugin. Only this file reads the table and calls its functions.

use std::cell::Cell;
use std::ffi::c_void;
use std::fmt;
use std::panic::AssertUnwindSafe;

use pjrt_sys::*;
use pjrt_types::{ApiVersion, ErrorCode, MIN_MINOR};

use crate::error::Error;
use crate::load_error::LoadErrorKind;
use crate::read;
use crate::send_ptr::SendPtr;

/// Maximum length of the extension chain. The interface names 25 extensions.
const MAX_EXTENSIONS: usize = 128;

/// A plugin's function table: a copy of its `PJRT_Api`, cut to the size that both sides know. The remaining fields are
/// zero.
pub struct Api {
    table: SendPtr<PJRT_Api>,
    raw: SendPtr<*const PJRT_Api>,
    struct_size: usize,
    /// The size of `PJRT_ExecuteOptions` for this plugin, because every run needs it.
    execute_options_size: usize,
}

/// A node of the extension chain.
#[derive(Clone, Copy)]
pub(crate) struct ExtensionNode {
    pub(crate) ty: u32,
    pub(crate) struct_size: usize,
    raw: SendPtr<*const PJRT_Extension_Base>,
}

/// A function of the main table that returns an error or null.
pub trait FallibleSlot: Slot<Table = PJRT_Api, Return = *mut PJRT_Error> {}
impl<S: Slot<Table = PJRT_Api, Return = *mut PJRT_Error>> FallibleSlot for S {}

impl Api {
    /// Copies a plugin's table.
    ///
    /// # Errors
    ///
    /// A null or misaligned pointer, a table too short for its version or for the functions that read errors, or an
    /// unsupported version.
    ///
    /// # Safety
    ///
    /// `raw` is null or keeps [contracts](crate::contracts) C1 to C11, which every later call relies on.
    pub unsafe fn from_raw(raw: *const PJRT_Api) -> Result<Self, LoadErrorKind> {
        const HEADER: usize = std::mem::offset_of!(PJRT_Api, PJRT_Error_Destroy);
        if raw.is_null() {
            return Err(LoadErrorKind::NullTable);
        }
        if !raw.is_aligned() {
            return Err(LoadErrorKind::MisalignedTable);
        }
        // SAFETY: C1: a table that is not null begins with its size.
        let struct_size = unsafe { raw.cast::<usize>().read() };
        if struct_size < HEADER {
            return Err(LoadErrorKind::TruncatedTable { struct_size, needed: HEADER });
        }
        // A size that ends within a slot hides that slot.
        let known = struct_size.min(PJRT_Api::STRUCT_SIZE) / size_of::<usize>() * size_of::<usize>();
        let mut table = PJRT_Api::new();
        // SAFETY: C1: the table is readable for the size it announces; ours has at least `known` bytes.
        unsafe { std::ptr::copy_nonoverlapping(raw.cast::<u8>(), (&raw mut table).cast::<u8>(), known) };
        let version =
            ApiVersion { major: table.pjrt_api_version.major_version, minor: table.pjrt_api_version.minor_version };
        if version.major != 0 {
            return Err(LoadErrorKind::MajorVersion { found: version });
        }
        if version.minor < MIN_MINOR {
            return Err(LoadErrorKind::MinorVersion { found: version });
        }
        let required = [
            (slot::PJRT_Error_Destroy::NAME, table.PJRT_Error_Destroy.is_some()),
            (slot::PJRT_Error_Message::NAME, table.PJRT_Error_Message.is_some()),
            (slot::PJRT_Error_GetCode::NAME, table.PJRT_Error_GetCode.is_some()),
        ];
        if let Some((function, _)) = required.iter().find(|(_, present)| !present) {
            return Err(LoadErrorKind::MissingFunction { function });
        }
        let execute_options_size = PJRT_ExecuteOptions::size_at(minor(version));
        Ok(Self { table: SendPtr(table), raw: SendPtr(raw), struct_size, execute_options_size })
    }

    /// The plugin's own table.
    pub fn as_raw(&self) -> *const PJRT_Api {
        self.raw.0
    }

    /// The API version that the plugin was built with.
    pub fn version(&self) -> ApiVersion {
        let version = &self.table.0.pjrt_api_version;
        ApiVersion { major: version.major_version, minor: version.minor_version }
    }

    /// The size of `PJRT_ExecuteOptions` that a caller of the plugin's version announces.
    #[inline]
    pub(crate) fn execute_options_size(&self) -> usize {
        self.execute_options_size
    }

    /// The size that the plugin's table announces, in bytes.
    pub fn struct_size(&self) -> usize {
        self.struct_size
    }

    /// Whether the plugin's table contains the function `S`. The function may still return `UNIMPLEMENTED`.
    #[inline]
    pub fn supports<S: Slot<Table = PJRT_Api>>(&self) -> bool {
        S::get(&self.table.0).is_some()
    }

    /// Calls the function `S` of the main table.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the plugin lacks the function, otherwise an error
    /// of the plugin.
    ///
    /// # Safety
    ///
    /// The arguments keep the header's contract. Objects are live and belong to this plugin. Pointers are valid for
    /// their sizes. Memory that the function uses after it returns stays valid as long as the header specifies.
    #[inline]
    pub unsafe fn call<S: FallibleSlot>(&self, args: &mut S::Args) -> Result<(), Error> {
        // SAFETY: this function's contract: the arguments keep the header's contract.
        unsafe { self.call_in::<S>(&self.table.0, args) }
    }

    /// Calls a function of an extension's table.
    ///
    /// # Safety
    ///
    /// As for [`Api::call`], and `table` is a copy of this plugin's extension.
    #[inline]
    pub(crate) unsafe fn call_in<S: Slot<Return = *mut PJRT_Error>>(
        &self,
        table: &S::Table,
        args: &mut S::Args,
    ) -> Result<(), Error> {
        let Some(function) = S::get(table) else {
            return Err(Error::missing(S::NAME, S::SINCE, self.version()));
        };
        // Some plugins accept only the size of their own version.
        if const { !S::Args::HISTORY.is_empty() || S::Args::ANNOUNCED.is_some() } {
            let size = S::Args::size_at(minor(self.version()));
            // SAFETY: `AbiStruct`: the struct begins with its size, and no plugin has seen it yet.
            unsafe { std::ptr::from_mut(args).cast::<usize>().write(size) };
        }
        // SAFETY: C1: the table holds a function of this type; the arguments are right by this function's contract.
        let error = unsafe { function(args) };
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: C2: an error that a function returned is live and ours.
        Err(unsafe { self.take_error(S::NAME, error) })
    }

    /// Converts a plugin's error to an owned one and destroys it.
    ///
    /// # Safety
    ///
    /// `error` is a live error of this plugin that the caller owns.
    #[cold]
    pub(crate) unsafe fn take_error(&self, function: &'static str, error: *mut PJRT_Error) -> Error {
        let table = &self.table.0;
        let mut message = String::new();
        if let Some(get) = table.PJRT_Error_Message {
            let mut args = PJRT_Error_Message_Args::new();
            args.error = error;
            // SAFETY: C2: the error is live.
            unsafe { get(&mut args) };
            // SAFETY: C3: the text lives as long as the error, and is copied before the error is destroyed.
            let text = unsafe { read::text(args.message, args.message_size) };
            message = text.map_or_else(|broken| format!("<{broken}>"), String::from);
        }
        let mut code = ErrorCode::UNKNOWN;
        if let Some(get) = table.PJRT_Error_GetCode {
            let mut args = PJRT_Error_GetCode_Args::new();
            args.error = error;
            // SAFETY: C2: the error is live.
            let second = unsafe { get(&mut args) };
            if second.is_null() {
                code = ErrorCode::from_raw(args.code.0);
            } else {
                // SAFETY: C2: the error is live and ours.
                unsafe { self.destroy_error(second) };
            }
        }
        let mut payloads: Vec<(String, Vec<u8>)> = Vec::new();
        if let Some(each) = table.PJRT_Error_ForEachPayload {
            let mut args = PJRT_Error_ForEachPayload_Args::new();
            args.error = error;
            args.visitor = Some(collect_payload);
            args.user_arg = (&raw mut payloads).cast();
            // SAFETY: C2: the error is live, and the visitor is called with `payloads` during this call only.
            let second = unsafe { each(&mut args) };
            if !second.is_null() {
                // SAFETY: C2: the error is live and ours.
                unsafe { self.destroy_error(second) };
            }
        }
        // SAFETY: this function's contract: the error is live and ours.
        unsafe { self.destroy_error(error) };
        Error::plugin(function, code, message, payloads)
    }

    /// # Safety
    ///
    /// `error` is a live error of this plugin that the caller owns.
    unsafe fn destroy_error(&self, error: *mut PJRT_Error) {
        if let Some(destroy) = self.table.0.PJRT_Error_Destroy {
            let mut args = PJRT_Error_Destroy_Args::new();
            args.error = error;
            // SAFETY: C2: the error is live, and nothing uses it afterwards.
            unsafe { destroy(&mut args) };
        }
    }

    /// Reads the extension chain, up to the first invalid node. A cyclic chain is cut at its maximum length.
    pub(crate) fn extensions(&self) -> Vec<ExtensionNode> {
        let mut nodes: Vec<ExtensionNode> = Vec::new();
        let mut next: *const PJRT_Extension_Base = self.table.0.extension_start;
        while !next.is_null() {
            let seen = nodes.iter().any(|node| node.raw.0 == next);
            if seen || nodes.len() == MAX_EXTENSIONS || !next.is_aligned() {
                tracing::warn!(nodes = nodes.len(), "the plugin's extension chain is broken; the rest is ignored");
                break;
            }
            // SAFETY: C1: a node begins with its size.
            let struct_size = unsafe { next.cast::<usize>().read() };
            if struct_size < PJRT_Extension_Base::STRUCT_SIZE {
                tracing::warn!(struct_size, "an extension of the plugin is too short; the rest is ignored");
                break;
            }
            // SAFETY: C1: the node is readable for its size, which holds a base.
            let base = unsafe { next.read() };
            nodes.push(ExtensionNode { ty: base.type_.0, struct_size, raw: SendPtr(next) });
            next = base.next;
        }
        nodes
    }
}

/// The minor version as the ledger of struct sizes numbers it.
#[inline]
fn minor(version: ApiVersion) -> u32 {
    u32::try_from(version.minor).unwrap_or(0)
}

impl ExtensionNode {
    /// Copies the extension struct. If the plugin's struct is shorter than ours, the remaining fields are zero.
    pub(crate) fn copy<E: Extension>(&self) -> Option<SendPtr<E>> {
        if self.ty != E::TYPE.0 {
            return None;
        }
        let known = match self.struct_size.checked_sub(E::STRUCT_SIZE) {
            Some(_) => E::STRUCT_SIZE,
            // A size that ends within a field hides that field.
            None => self.struct_size / size_of::<usize>() * size_of::<usize>(),
        };
        let mut copy = E::new();
        // SAFETY: C1: a node of this type is readable for its size; ours has at least `known` bytes.
        unsafe { std::ptr::copy_nonoverlapping(self.raw.0.cast::<u8>(), (&raw mut copy).cast::<u8>(), known) };
        Some(SendPtr(copy))
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("version", &self.version()).field("struct_size", &self.struct_size).finish()
    }
}

/// `PJRT_Error_PayloadVisitor`: appends to the list that `user_arg` points to.
unsafe extern "C" fn collect_payload(
    key: *const std::ffi::c_char,
    key_size: usize,
    value: *const std::ffi::c_char,
    value_size: usize,
    user_arg: *mut c_void,
) {
    contain(|| {
        // SAFETY: C2: the visitor's text is valid during the visit.
        let key = unsafe { read::text(key, key_size) };
        // SAFETY: C2: as above.
        let value = unsafe { read::slice(value.cast::<u8>(), value_size) };
        // SAFETY: C2: the visitor runs within `take_error`, which passed this pointer and does not use the list
        // meanwhile.
        let payloads = unsafe { &mut *user_arg.cast::<Vec<(String, Vec<u8>)>>() };
        if let (Ok(key), Ok(value)) = (key, value) {
            payloads.push((key.into_owned(), value.to_vec()));
        }
    });
}

thread_local! {
    /// Number of plugin callbacks on this thread's stack.
    static CALLBACKS: Cell<usize> = const { Cell::new(0) };
}

/// Whether a plugin's callback is on this thread's stack.
pub(crate) fn in_callback() -> bool {
    // A thread that is ending has no count. Assume that it is in a callback.
    CALLBACKS.try_with(|depth| depth.get() > 0).unwrap_or(true)
}

fn catch(f: impl FnOnce()) -> std::thread::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "the home of panics on a plugin's stack")]
    std::panic::catch_unwind(AssertUnwindSafe(f))
}

/// Runs a callback of a plugin, and catches its panic before it reaches the plugin's frames.
pub(crate) fn contain(f: impl FnOnce()) {
    let enter = |by: isize| CALLBACKS.try_with(|depth| depth.set(depth.get().saturating_add_signed(by)));
    let entered = enter(1);
    // The panic hook has already reported the panic. The drop of its payload might panic again.
    if let Err(panic) = catch(f)
        && let Err(again) = catch(|| drop(panic))
    {
        std::mem::forget(again);
    }
    if entered.is_ok() {
        // The thread-local counter still exists, because the thread increased it above.
        let _left = enter(-1);
    }
}
