//! A plugin between a framework and another plugin. It records which PJRT functions the framework calls, and removes
//! functions on request. The JAX tests use it to check the book's list of functions that frameworks require.
//!
//! - `PJRT_TRACED_PLUGIN`: path of the library of the other plugin.
//! - `PJRT_TRACED_CALLS`: file to which each call appends a line with the function's name. It is opened for appending,
//!   so that other programs can add lines.
//! - `PJRT_TRACED_WITHOUT`: list of removals, separated by commas. `NAME=null` clears the slot, and
//!   `NAME=unimplemented` makes the function return the error `UNIMPLEMENTED`. `extensions` removes all extensions.
//!   `host_view` makes buffers in host memory look like buffers of an accelerator.
#![allow(missing_debug_implementations, reason = "a test plugin")]
#![allow(
    missing_docs,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::missing_safety_doc,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a tool of tests, which passes through what it gets"
)]

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use pjrt_sys::*;

struct Traced {
    inner: PJRT_Api,
    table: PJRT_Api,
    calls: Option<File>,
}

// SAFETY: tables do not change after they are created.
unsafe impl Send for Traced {}
// SAFETY: the reason for `Send` of this type also applies here.
unsafe impl Sync for Traced {}

static TRACED: OnceLock<Traced> = OnceLock::new();

fn traced() -> &'static Traced {
    TRACED.get().unwrap()
}

/// The address of this variable represents the error that a removed function returns.
static TAKEN_AWAY: u8 = 0;

fn taken_away() -> *mut PJRT_Error {
    (&raw const TAKEN_AWAY).cast_mut().cast()
}

/// The return type of a removed function, with the value to return.
trait Refusal {
    fn refusal() -> Self;
}

impl Refusal for *mut PJRT_Error {
    fn refusal() -> Self {
        taken_away()
    }
}

impl Refusal for () {
    fn refusal() -> Self {}
}

fn note<S: Slot>() {
    if let Some(mut calls) = traced().calls.as_ref() {
        // Use one write per line, so that lines of several threads do not mix.
        calls.write_all(format!("{}\n", S::NAME).as_bytes()).unwrap();
    }
}

unsafe extern "C" fn passed<S: Slot<Table = PJRT_Api>>(args: *mut S::Args) -> S::Return {
    note::<S>();
    let function = S::get(&traced().inner).unwrap();
    unsafe { function(args) }
}

unsafe extern "C" fn refused<S: Slot<Table = PJRT_Api, Return: Refusal>>(_: *mut S::Args) -> S::Return {
    note::<S>();
    S::Return::refusal()
}

unsafe extern "C" fn error_message(args: *mut PJRT_Error_Message_Args) {
    let args_ref = unsafe { &mut *args };
    if args_ref.error.cast_mut() != taken_away() {
        return unsafe { passed::<slot::PJRT_Error_Message>(args) };
    }
    let text = "taken away by a test";
    (args_ref.message, args_ref.message_size) = (text.as_ptr().cast(), text.len());
}

unsafe extern "C" fn error_code(args: *mut PJRT_Error_GetCode_Args) -> *mut PJRT_Error {
    let args_ref = unsafe { &mut *args };
    if args_ref.error.cast_mut() != taken_away() {
        return unsafe { passed::<slot::PJRT_Error_GetCode>(args) };
    }
    args_ref.code = PJRT_Error_Code::PJRT_Error_Code_UNIMPLEMENTED;
    null_mut()
}

unsafe extern "C" fn error_payloads(args: *mut PJRT_Error_ForEachPayload_Args) -> *mut PJRT_Error {
    if unsafe { &*args }.error.cast_mut() == taken_away() {
        return null_mut();
    }
    unsafe { passed::<slot::PJRT_Error_ForEachPayload>(args) }
}

unsafe extern "C" fn error_destroy(args: *mut PJRT_Error_Destroy_Args) {
    if unsafe { &*args }.error != taken_away() {
        unsafe { passed::<slot::PJRT_Error_Destroy>(args) };
    }
}

/// Calls the function of the other plugin, but reports that the buffer is not on a CPU.
unsafe extern "C" fn not_on_cpu(args: *mut PJRT_Buffer_IsOnCpu_Args) -> *mut PJRT_Error {
    let error = unsafe { passed::<slot::PJRT_Buffer_IsOnCpu>(args) };
    if error.is_null() {
        unsafe { &mut *args }.is_on_cpu = false.into();
    }
    error
}

fn make() -> Traced {
    let library = std::env::var_os("PJRT_TRACED_PLUGIN").expect("PJRT_TRACED_PLUGIN names no library");
    let library = Box::leak(Box::new(unsafe { libloading::Library::new(library) }.unwrap()));
    let get: libloading::Symbol<'_, unsafe extern "C" fn() -> *const PJRT_Api> =
        unsafe { library.get(b"GetPjrtApi") }.unwrap();
    let api = unsafe { get() };
    let size = unsafe { api.cast::<usize>().read() }.min(size_of::<PJRT_Api>());
    let mut inner = PJRT_Api::new();
    unsafe { api.cast::<u8>().copy_to_nonoverlapping((&raw mut inner).cast(), size) };

    let without = std::env::var("PJRT_TRACED_WITHOUT").unwrap_or_default();
    let mut without: HashMap<&str, &str> = without
        .split(',')
        .filter(|item| !item.is_empty())
        .map(|item| item.split_once('=').unwrap_or((item, "")))
        .collect();
    let mut table = inner;
    if without.remove("extensions").is_some() {
        table.extension_start = null_mut();
    }
    let host_view = without.remove("host_view").is_none();
    macro_rules! fill {
        ($($name:ident),* $(,)?) => {$(
            table.$name = match (without.remove(stringify!($name)), inner.$name) {
                (None, None) | (Some("null"), _) => None,
                (None, Some(_)) => Some(passed::<slot::$name>),
                (Some("unimplemented"), _) => Some(refused::<slot::$name>),
                (Some(other), _) => panic!("PJRT_TRACED_WITHOUT: {}={other}", stringify!($name)),
            };
        )*};
    }
    for_each_slot!(fill);
    assert!(without.is_empty(), "PJRT_TRACED_WITHOUT: no such function: {without:?}");
    table.PJRT_Error_Message = Some(error_message);
    table.PJRT_Error_GetCode = Some(error_code);
    table.PJRT_Error_Destroy = Some(error_destroy);
    if inner.PJRT_Error_ForEachPayload.is_some() {
        table.PJRT_Error_ForEachPayload = Some(error_payloads);
    }
    if !host_view {
        table.PJRT_Buffer_IsOnCpu = Some(not_on_cpu);
    }
    let calls = std::env::var_os("PJRT_TRACED_CALLS");
    let calls = calls.map(|path| OpenOptions::new().append(true).create(true).open(path).unwrap());
    Traced { inner, table, calls }
}

/// Returns the function table, with the version and size of the other plugin's table.
#[unsafe(no_mangle)]
pub extern "C" fn GetPjrtApi() -> *const PJRT_Api {
    // A panic must not unwind out of a C function. After a panic, return no table, because the framework reports this.
    match std::panic::catch_unwind(|| TRACED.get_or_init(make)) {
        Ok(traced) => &raw const traced.table,
        Err(_) => null(),
    }
}
