//! Error objects of the plugin, and calls of functions that may return them.

use std::ffi::{c_char, c_void};
use std::fmt;
use std::ptr::NonNull;

use pjrt::raw::AsRaw;
use pjrt::{Client, Plugin};
use pjrt_sys::{
    AbiStruct, Extension, PJRT_Api, PJRT_Client_Compile_Args, PJRT_Error, PJRT_Error_Destroy_Args,
    PJRT_Error_ForEachPayload_Args, PJRT_Error_GetCode_Args, PJRT_Error_Message_Args,
    PJRT_LoadedExecutable_Destroy_Args, PJRT_Program, Slot, slot,
};

use super::table::{extension_function, function};
use crate::stop::Stop;

/// Owner of a plugin's error object. Dropping it destroys the object.
pub(crate) struct Failure {
    plugin: Plugin,
    error: NonNull<PJRT_Error>,
}

// SAFETY: C4 (threads): functions may be called on any thread, and an error may be destroyed on another thread.
unsafe impl Send for Failure {}
// SAFETY: C4 (threads): several threads may use one object at the same time, except while it is destroyed.
unsafe impl Sync for Failure {}

impl Failure {
    /// Takes ownership of an error object.
    ///
    /// # Safety
    ///
    /// `error` must be a live error of `plugin` that the caller owns.
    pub(super) unsafe fn new(plugin: &Plugin, error: NonNull<PJRT_Error>) -> Self {
        Self { plugin: plugin.clone(), error }
    }

    /// Returns the error code. Returns `None` if the plugin does not report the code.
    pub(crate) fn code(&self) -> Option<u32> {
        let mut args = PJRT_Error_GetCode_Args::new();
        args.error = self.error.as_ptr();
        // SAFETY: C2 (calls): the error is live.
        let result = unsafe { call::<slot::PJRT_Error_GetCode>(&self.plugin, &raw mut args) };
        result.filter(Result::is_ok).map(|_| args.code.0)
    }

    /// Returns the message, and the address at which the plugin stores the message.
    pub(crate) fn message(&self) -> (String, usize) {
        let mut args = PJRT_Error_Message_Args::new();
        args.error = self.error.as_ptr();
        // SAFETY: C2 (calls): the error is live.
        let _ = unsafe { call::<slot::PJRT_Error_Message>(&self.plugin, &raw mut args) };
        (text(args.message, args.message_size), args.message.addr())
    }

    /// Returns the keys and values of the payloads. Returns `None` if the plugin does not report the payloads.
    pub(crate) fn payloads(&self) -> Option<Vec<(String, Vec<u8>)>> {
        let mut list: Vec<(String, Vec<u8>)> = Vec::new();
        let mut args = PJRT_Error_ForEachPayload_Args::new();
        args.error = self.error.as_ptr();
        args.visitor = Some(visit);
        args.user_arg = (&raw mut list).cast();
        // SAFETY: C2 (calls): the error is live, and the visitor is called with `list` during this call only.
        let result = unsafe { call::<slot::PJRT_Error_ForEachPayload>(&self.plugin, &raw mut args) }?;
        result.ok().map(|()| list)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error code {:?}: {}", self.code(), self.message().0)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        let code = failure.code().unwrap_or(2);
        let name = pjrt::ErrorCode::from_raw(code).name().unwrap_or("an unknown code");
        let text = format!("{name}: {}", failure.message().0);
        if code == pjrt::ErrorCode::UNIMPLEMENTED.as_raw() { Self::Unsupported(text) } else { Self::Fail(text) }
    }
}

impl Drop for Failure {
    fn drop(&mut self) {
        let mut args = PJRT_Error_Destroy_Args::new();
        args.error = self.error.as_ptr();
        // SAFETY: C2 (calls): the error is live, and nothing uses it afterwards.
        let _ = unsafe { call::<slot::PJRT_Error_Destroy>(&self.plugin, &raw mut args) };
    }
}

/// Return type of a function in the `PJRT_Api` table: nothing, or an error that the caller owns.
pub(super) trait Returned {
    fn into_failure(self, plugin: &Plugin) -> Result<(), Failure>;
}

impl Returned for () {
    fn into_failure(self, _: &Plugin) -> Result<(), Failure> {
        Ok(())
    }
}

impl Returned for *mut PJRT_Error {
    fn into_failure(self, plugin: &Plugin) -> Result<(), Failure> {
        match NonNull::new(self) {
            None => Ok(()),
            // SAFETY: C2 (calls): an error that a function returned is live, and the caller owns it.
            Some(error) => Err(unsafe { Failure::new(plugin, error) }),
        }
    }
}

/// Calls a function of the `PJRT_Api` table. Returns `None` if the table does not contain the function.
///
/// # Safety
///
/// `args` must point to a struct that meets the header's contract for the size in its `struct_size` field.
pub(super) unsafe fn call<S>(plugin: &Plugin, args: *mut S::Args) -> Option<Result<(), Failure>>
where
    S: Slot<Table = PJRT_Api>,
    S::Return: Returned,
{
    let function = function::<S>(plugin)?;
    // SAFETY: C2 (calls): the arguments are valid by this function's contract.
    let returned = unsafe { function(args) };
    Some(returned.into_failure(plugin))
}

/// Calls a function of an extension. Returns `None` if the plugin does not have the function.
///
/// # Safety
///
/// `args` must point to a struct that meets the header's contract for the size in its `struct_size` field.
pub(super) unsafe fn call_extension<S>(plugin: &Plugin, args: *mut S::Args) -> Option<Result<(), Failure>>
where
    S: Slot<Table: Extension>,
    S::Return: Returned,
{
    let function = extension_function::<S>(plugin)?;
    // SAFETY: C2 (calls): the arguments are valid by this function's contract.
    let returned = unsafe { function(args) };
    Some(returned.into_failure(plugin))
}

/// Converts `None`, which means that the plugin lacks `function`, to [`Stop::Unsupported`].
pub(super) fn called<T>(result: Option<T>, function: &str) -> Result<T, Stop> {
    result.ok_or_else(|| Stop::Unsupported(format!("the plugin lacks {function}")))
}

/// Copies a string that the plugin owns.
pub(super) fn text(data: *const c_char, len: usize) -> String {
    String::from_utf8_lossy(&bytes(data, len)).into_owned()
}

fn bytes(data: *const c_char, len: usize) -> Vec<u8> {
    let mut copy = vec![0u8; if data.is_null() { 0 } else { len }];
    // SAFETY: C3 (objects): the string lives as long as the error, and has this length.
    unsafe { std::ptr::copy_nonoverlapping(data.cast::<u8>(), copy.as_mut_ptr(), copy.len()) };
    copy
}

/// `PJRT_Error_PayloadVisitor` that appends the payload to the vector to which `user_arg` points.
unsafe extern "C" fn visit(
    key: *const c_char,
    key_size: usize,
    value: *const c_char,
    value_size: usize,
    user_arg: *mut c_void,
) {
    // SAFETY: C2 (calls): the visitor runs within `payloads`, which passed this pointer and does not use the list
    // meanwhile.
    let list = unsafe { &mut *user_arg.cast::<Vec<(String, Vec<u8>)>>() };
    list.push((text(key, key_size), bytes(value, value_size)));
}

/// Compiles a program that is not valid, and returns the plugin's error.
pub(crate) fn failing_compile(client: &Client) -> Result<Failure, Stop> {
    match compile_followed_by(client, "this is not a program", "")? {
        Ok(()) => Err(Stop::Fail("the plugin compiled text that is not a program".to_owned())),
        Err(failure) => Ok(failure),
    }
}

/// Compiles `code` as an MLIR program, and destroys the executable. In memory, `rest` and a zero byte follow the
/// program, so that a plugin that ignores the program's size reads `rest`, too. The inner result is the outcome that
/// the plugin reported.
pub(crate) fn compile_followed_by(client: &Client, code: &str, rest: &str) -> Result<Result<(), Failure>, Stop> {
    let mut memory = [code.as_bytes(), rest.as_bytes(), b"\0"].concat();
    let format = *b"mlir";
    let mut program = PJRT_Program::new();
    program.code = memory.as_mut_ptr().cast();
    program.code_size = code.len();
    program.format = format.as_ptr().cast();
    program.format_size = format.len();
    let options = pjrt::CompileOptions::default().encode();
    let mut args = PJRT_Client_Compile_Args::new();
    args.client = client.as_raw();
    args.program = &raw const program;
    args.compile_options = options.as_ptr().cast();
    args.compile_options_size = options.len();
    let plugin = client.plugin();
    // SAFETY: C2 (calls), P1 (programs): the client is live, and the program and the options are readable during the
    // call.
    match unsafe { call::<slot::PJRT_Client_Compile>(&plugin, &raw mut args) } {
        None => return Err(Stop::Unsupported("the plugin lacks PJRT_Client_Compile".to_owned())),
        Some(Err(failure)) => return Ok(Err(failure)),
        Some(Ok(())) => {}
    }
    let mut destroy = PJRT_LoadedExecutable_Destroy_Args::new();
    destroy.executable = args.executable;
    // SAFETY: C3 (objects): the caller owns the executable of a successful call, and does not use it afterwards.
    match unsafe { call::<slot::PJRT_LoadedExecutable_Destroy>(&plugin, &raw mut destroy) } {
        None => Err(Stop::Unsupported("the plugin lacks PJRT_LoadedExecutable_Destroy".to_owned())),
        Some(destroyed) => Ok(destroyed),
    }
}
