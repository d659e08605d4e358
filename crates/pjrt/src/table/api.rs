//! The function table of a plugin. Only this file reads the table and calls its functions.

use std::ffi::c_void;
use std::fmt;

use pjrt_sys::*;
use pjrt_types::{ApiVersion, ErrorCode, MIN_MINOR};

use crate::error::Error;
use crate::table::callback::contain;
use crate::table::load_error::LoadErrorKind;
use crate::table::read;
use crate::table::send_ptr::SendPtr;

/// Maximum number of nodes that are read from an extension chain. The limit ends the loop if a broken chain does not
/// end. It is far above the 25 extension types of the PJRT header.
const MAX_EXTENSIONS: usize = 128;

/// A copy of a plugin's function table, `PJRT_Api`. If the plugin's table is shorter than `PJRT_Api` in this crate's
/// header, the remaining fields are zero. If it is longer, the additional fields are not copied.
pub struct Api {
    table: SendPtr<PJRT_Api>,
    raw: SendPtr<*const PJRT_Api>,
    struct_size: usize,
    /// Size of `PJRT_ExecuteOptions` in the plugin's API version, in bytes. It is stored because every run needs it.
    execute_options_size: usize,
}

/// A node of a plugin's extension chain, the linked list that starts at `PJRT_Api::extension_start`.
#[derive(Clone, Copy)]
pub(crate) struct ExtensionNode {
    pub(crate) ty: u32,
    pub(crate) struct_size: usize,
    raw: SendPtr<*const PJRT_Extension_Base>,
}

/// A slot of `PJRT_Api` whose function returns a pointer to a `PJRT_Error`. The pointer is null if the call succeeds.
pub trait FallibleSlot: Slot<Table = PJRT_Api, Return = *mut PJRT_Error> {}
impl<S: Slot<Table = PJRT_Api, Return = *mut PJRT_Error>> FallibleSlot for S {}

impl Api {
    /// Copies a plugin's table.
    ///
    /// # Errors
    ///
    /// Returns an error if the pointer is null or misaligned, if the API version is not supported, or if the table is
    /// too short to contain its version or lacks a function that reads or destroys errors.
    ///
    /// # Safety
    ///
    /// `raw` is null or points to a table that keeps [contracts](crate::contracts) C1 to C11. Every later call relies
    /// on these contracts.
    pub unsafe fn from_raw(raw: *const PJRT_Api) -> Result<Self, LoadErrorKind> {
        const HEADER: usize = std::mem::offset_of!(PJRT_Api, PJRT_Error_Destroy);
        if raw.is_null() {
            return Err(LoadErrorKind::NullTable);
        }
        if !raw.is_aligned() {
            return Err(LoadErrorKind::MisalignedTable);
        }
        // SAFETY: C1 (table): a table that is not null begins with its size.
        let struct_size = unsafe { raw.cast::<usize>().read() };
        if struct_size < HEADER {
            return Err(LoadErrorKind::TruncatedTable { struct_size, needed: HEADER });
        }
        // If the size ends within a slot, ignore that slot.
        let known = struct_size.min(PJRT_Api::STRUCT_SIZE) / size_of::<usize>() * size_of::<usize>();
        let mut table = PJRT_Api::new();
        // SAFETY: C1 (table): the table is readable for the size that it announces, and the copy has at least `known`
        // bytes.
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

    /// Returns the pointer to the plugin's table, not to the copy.
    pub fn as_raw(&self) -> *const PJRT_Api {
        self.raw.0
    }

    /// Returns the API version that the plugin was built with.
    pub fn version(&self) -> ApiVersion {
        let version = &self.table.0.pjrt_api_version;
        ApiVersion { major: version.major_version, minor: version.minor_version }
    }

    /// Returns the size of `PJRT_ExecuteOptions` in the plugin's API version, in bytes.
    #[inline]
    pub(crate) fn execute_options_size(&self) -> usize {
        self.execute_options_size
    }

    /// Returns the `struct_size` of the plugin's table, in bytes.
    pub fn struct_size(&self) -> usize {
        self.struct_size
    }

    /// Returns whether the plugin's table contains the function `S`. The function may still return `UNIMPLEMENTED`.
    #[inline]
    pub fn supports<S: Slot<Table = PJRT_Api>>(&self) -> bool {
        S::get(&self.table.0).is_some()
    }

    /// Calls the function `S` of the main table.
    ///
    /// # Errors
    ///
    /// Returns an error of kind [`Unsupported`](crate::ErrorKind::Unsupported) if the plugin lacks the function.
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
    /// The requirements of [`Api::call`] apply. `table` is a copy of an extension struct of this plugin.
    #[inline]
    pub(crate) unsafe fn call_in<S: Slot<Return = *mut PJRT_Error>>(
        &self,
        table: &S::Table,
        args: &mut S::Args,
    ) -> Result<(), Error> {
        let Some(function) = S::get(table) else {
            return Err(Error::missing(S::NAME, S::SINCE, self.version()));
        };
        // Some plugins reject every `struct_size` except that of the plugin's API version. Therefore announce the size
        // that the arguments have in that version.
        if const { !S::Args::HISTORY.is_empty() || S::Args::ANNOUNCED.is_some() } {
            let size = S::Args::size_at(minor(self.version()));
            // SAFETY: by the contract of `AbiStruct`, the struct begins with its size, and no plugin has received the
            // struct yet.
            unsafe { std::ptr::from_mut(args).cast::<usize>().write(size) };
        }
        // SAFETY: C1 (table): the slot contains a function of this type. The arguments are valid by this function's
        // contract.
        let error = unsafe { function(args) };
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: C2 (calls): an error that a function returned is live and owned by its caller.
        Err(unsafe { self.take_error(S::NAME, error) })
    }

    /// Copies a plugin's error to an [`Error`] and destroys the plugin's error.
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
            // SAFETY: C2 (calls): the error is live.
            unsafe { get(&mut args) };
            // SAFETY: C3 (objects): the message lives as long as the error, and is copied before the error is
            // destroyed.
            let text = unsafe { read::text(args.message, args.message_size) };
            message = text.map_or_else(|broken| format!("<{broken}>"), String::from);
        }
        let mut code = ErrorCode::UNKNOWN;
        if let Some(get) = table.PJRT_Error_GetCode {
            let mut args = PJRT_Error_GetCode_Args::new();
            args.error = error;
            // SAFETY: C2 (calls): the error is live.
            let second = unsafe { get(&mut args) };
            if second.is_null() {
                code = ErrorCode::from_raw(args.code.0);
            } else {
                // SAFETY: C2 (calls): the second error is live and owned by its receiver.
                unsafe { self.destroy_error(second) };
            }
        }
        let mut payloads: Vec<(String, Vec<u8>)> = Vec::new();
        if let Some(each) = table.PJRT_Error_ForEachPayload {
            let mut args = PJRT_Error_ForEachPayload_Args::new();
            args.error = error;
            args.visitor = Some(collect_payload);
            args.user_arg = (&raw mut payloads).cast();
            // SAFETY: C2 (calls): the error is live, and the visitor is called with `payloads` during this call only.
            let second = unsafe { each(&mut args) };
            if !second.is_null() {
                // SAFETY: C2 (calls): the second error is live and owned by its receiver.
                unsafe { self.destroy_error(second) };
            }
        }
        // SAFETY: this function's contract: the error is live and owned by the caller.
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
            // SAFETY: C2 (calls): the error is live, and nothing uses it afterwards.
            unsafe { destroy(&mut args) };
        }
    }

    /// Reads the extension chain up to the first invalid or repeated node, and at most [`MAX_EXTENSIONS`] nodes.
    pub(crate) fn extensions(&self) -> Vec<ExtensionNode> {
        let mut nodes: Vec<ExtensionNode> = Vec::new();
        let mut next: *const PJRT_Extension_Base = self.table.0.extension_start;
        while !next.is_null() {
            let seen = nodes.iter().any(|node| node.raw.0 == next);
            if seen || nodes.len() == MAX_EXTENSIONS || !next.is_aligned() {
                tracing::warn!(nodes = nodes.len(), "the plugin's extension chain is broken; the rest is ignored");
                break;
            }
            // SAFETY: C1 (table): a node begins with its size.
            let struct_size = unsafe { next.cast::<usize>().read() };
            if struct_size < PJRT_Extension_Base::STRUCT_SIZE {
                tracing::warn!(struct_size, "an extension of the plugin is too short; the rest is ignored");
                break;
            }
            // SAFETY: C1 (table): the node is readable for its size, which is at least that of `PJRT_Extension_Base`.
            let base = unsafe { next.read() };
            nodes.push(ExtensionNode { ty: base.type_.0, struct_size, raw: SendPtr(next) });
            next = base.next;
        }
        nodes
    }
}

/// Returns the minor version as an argument for `AbiStruct::size_at`. A negative minor version becomes 0.
#[inline]
fn minor(version: ApiVersion) -> u32 {
    u32::try_from(version.minor).unwrap_or(0)
}

impl ExtensionNode {
    /// Copies the extension struct, or returns `None` if the node is of another extension type. If the plugin's struct
    /// is shorter than `E`, the remaining fields are zero.
    pub(crate) fn copy<E: Extension>(&self) -> Option<SendPtr<E>> {
        if self.ty != E::TYPE.0 {
            return None;
        }
        let known = match self.struct_size.checked_sub(E::STRUCT_SIZE) {
            Some(_) => E::STRUCT_SIZE,
            // If the size ends within a field, ignore that field.
            None => self.struct_size / size_of::<usize>() * size_of::<usize>(),
        };
        let mut copy = E::new();
        // SAFETY: C1 (table): a node of this type is readable for its size, and the copy has at least `known` bytes.
        unsafe { std::ptr::copy_nonoverlapping(self.raw.0.cast::<u8>(), (&raw mut copy).cast::<u8>(), known) };
        Some(SendPtr(copy))
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("version", &self.version()).field("struct_size", &self.struct_size).finish()
    }
}

/// Appends a payload of an error to the `Vec` that `user_arg` points to. Skips a payload whose key or value is
/// malformed. This function is a `PJRT_Error_PayloadVisitor`.
unsafe extern "C" fn collect_payload(
    key: *const std::ffi::c_char,
    key_size: usize,
    value: *const std::ffi::c_char,
    value_size: usize,
    user_arg: *mut c_void,
) {
    contain(|| {
        // SAFETY: C2 (calls): the key is valid during the call of the visitor.
        let key = unsafe { read::text(key, key_size) };
        // SAFETY: C2 (calls): the value is valid during the call of the visitor.
        let value = unsafe { read::slice(value.cast::<u8>(), value_size) };
        // SAFETY: C2 (calls): the visitor runs within `take_error`, which passed this pointer and does not use the
        // `Vec` meanwhile.
        let payloads = unsafe { &mut *user_arg.cast::<Vec<(String, Vec<u8>)>>() };
        if let (Ok(key), Ok(value)) = (key, value) {
            payloads.push((key.into_owned(), value.to_vec()));
        }
    });
}
