//! Calls through the tables of objects. The forwarders copy the parameters to a struct, so that a [`Call`] represents
//! these calls as well.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

use pjrt_sys::{
    Bool, PJRT_DeviceEvent, PJRT_DeviceEvent_AndThen, PJRT_DeviceEvent_State, PJRT_DeviceEventPromise,
    PJRT_DeviceEventVector, PJRT_Error, PJRT_Error_Code, PJRT_Error_PayloadVisitor, PJRT_Memory, PJRT_RawBuffer,
};

use super::tables::ObjectKind;
use crate::core::calls::Call;
use crate::core::forwarding::Stack;
use crate::core::forwarding::{Instance, descend};
use crate::core::memory;
use crate::generated::FUNCTIONS;

/// The side that receives a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    Framework,
    Plugin,
}

impl To {
    fn other(self) -> Self {
        match self {
            Self::Framework => Self::Plugin,
            Self::Plugin => Self::Framework,
        }
    }
}

/// A type of the parameters and results of calls through an object's table. Objects that the framework receives refer
/// to the layers' tables. The plugin compares the tables of events with its own tables, so it receives events with
/// their original tables.
///
/// The functions of the trait require contract L13: `self` must be a parameter or result of a call through an object's
/// table.
pub(crate) trait Passed: Copy {
    /// Runs on each parameter before the call.
    unsafe fn enter(&mut self, _stack: &Stack, _to: To) {}

    /// Runs on each parameter after a successful call, and on the result after every call.
    unsafe fn leave(&mut self, _stack: &Stack, _to: To, _is_result: bool) {}
}

macro_rules! plain {
    ($($ty:ty),* $(,)?) => {
        $(impl Passed for $ty {})*
    };
}

type AllocationCallback = Option<unsafe extern "C" fn(*mut PJRT_Error, *mut c_void)>;

plain!(
    (),
    usize,
    isize,
    i64,
    c_int,
    Bool,
    *mut usize,
    *mut u64,
    *mut c_void,
    *const c_void,
    *mut *const c_char,
    *mut PJRT_Error_Code,
    *const PJRT_Error,
    *mut PJRT_RawBuffer,
    *const PJRT_RawBuffer,
    PJRT_Error_Code,
    PJRT_Error_PayloadVisitor,
    PJRT_DeviceEvent_State,
    PJRT_DeviceEvent_AndThen,
    AllocationCallback,
);

impl Passed for *mut PJRT_Error {
    unsafe fn enter(&mut self, stack: &Stack, to: To) {
        // The plugin passes its error as a parameter only to the framework's promises.
        if to == To::Framework {
            stack.show_object(ObjectKind::Error, self.expose_provenance());
        }
    }

    unsafe fn leave(&mut self, stack: &Stack, to: To, is_result: bool) {
        if is_result && to == To::Framework {
            stack.show_object(ObjectKind::Error, self.expose_provenance());
        }
    }
}

impl Passed for *mut PJRT_Memory {
    unsafe fn leave(&mut self, stack: &Stack, to: To, is_result: bool) {
        if is_result && to == To::Framework {
            stack.show_object(ObjectKind::Memory, self.expose_provenance());
        }
    }
}

impl Passed for *mut *mut PJRT_RawBuffer {
    unsafe fn leave(&mut self, stack: &Stack, _: To, _: bool) {
        if !self.is_null() {
            // SAFETY: L13 (objects): the caller provides memory for the object.
            let object = unsafe { memory::read::<usize>(self.cast_const().cast()) };
            stack.show_object(ObjectKind::RawBuffer, object);
        }
    }
}

impl Passed for *mut PJRT_DeviceEventPromise {
    unsafe fn enter(&mut self, stack: &Stack, to: To) {
        // No function returns a promise. The framework creates promises, and the plugin calls the functions in their
        // tables.
        if to == To::Plugin {
            stack.show_object(ObjectKind::Promise, self.expose_provenance());
        }
    }
}

impl Passed for PJRT_DeviceEvent {
    unsafe fn enter(&mut self, stack: &Stack, to: To) {
        translate(self, stack, to);
    }

    unsafe fn leave(&mut self, stack: &Stack, to: To, _: bool) {
        translate(self, stack, to);
    }
}

impl Passed for *mut PJRT_DeviceEvent {
    unsafe fn leave(&mut self, stack: &Stack, to: To, _: bool) {
        // SAFETY: L13 (objects): the caller provides memory for the event.
        if let Some(event) = unsafe { self.as_mut() } {
            translate(event, stack, to);
        }
    }
}

impl Passed for *mut PJRT_DeviceEventVector {
    unsafe fn enter(&mut self, stack: &Stack, to: To) {
        // SAFETY: L13 (objects): the vector is null or live during the call.
        let Some(vector) = (unsafe { self.as_ref() }) else { return };
        for at in 0..vector.size {
            // SAFETY: L13 (objects): the array has this length, and the callee takes ownership of it.
            if let Some(event) = unsafe { vector.data.wrapping_add(at).as_mut() } {
                translate(event, stack, to);
            }
        }
    }
}

/// Replaces the table of an event with the table for the side that receives the event.
fn translate(event: &mut PJRT_DeviceEvent, stack: &Stack, to: To) {
    let table = event.vtable.expose_provenance();
    let other = match to {
        _ if table == 0 => None,
        To::Framework => stack.copy_of_table(ObjectKind::DeviceEvent, table),
        To::Plugin => stack.objects.original(ObjectKind::DeviceEvent, table),
    };
    if let Some(other) = other {
        event.vtable = std::ptr::with_exposed_provenance(other);
    }
}

/// A function in an object's table.
pub(crate) struct Target {
    pub(crate) kind: ObjectKind,
    /// Index of the function in `FUNCTIONS`.
    pub(crate) id: usize,
    /// Index of the table among the known tables of objects of the type `kind`.
    pub(crate) table: usize,
    /// Calls the function in a table with the parameters in a struct, and writes its result to the struct. Returns the
    /// result if it is an error, and null otherwise.
    pub(crate) call: unsafe fn(*const u64, *mut u8, &Stack, To) -> *mut PJRT_Error,
}

/// Calls the layers that select the function, and then the function of the original table unless a layer answers the
/// call. Returns the error, or null.
///
/// # Safety
///
/// Contract L13: `args` must be the struct of the function, with the parameters of a call.
pub(crate) unsafe fn call<I: Instance>(target: &Target, args: *mut u8) -> *mut PJRT_Error {
    match I::cell().get() {
        // SAFETY: L13 (objects): `args` is the struct of the function.
        Some(stack) => unsafe { call_in(stack, target, args) },
        None => null_mut(),
    }
}

/// # Safety
///
/// Contract L13: `args` must be the struct of the function, with the parameters of a call.
unsafe fn call_in(stack: &'static Stack, target: &Target, args: *mut u8) -> *mut PJRT_Error {
    let Some(table) = stack.objects.functions(target.kind, target.table) else { return null_mut() };
    // The framework creates promises. The plugin creates all other objects.
    let to = if target.kind == ObjectKind::Promise { To::Framework } else { To::Plugin };
    // SAFETY: L13 (objects): the table has the size of this crate's header, and the arguments are those of the call.
    let plugin = |args: *mut u8| unsafe { (target.call)(table, args, stack, to) };
    if !stack.sees_objects() {
        return plugin(args);
    }
    // SAFETY: L2 (arguments): the struct begins with its size.
    let mut call = unsafe { Call::new(&stack.plugin, target.id, args, FUNCTIONS[target.id].layout.size_behind) };
    descend(stack, stack.hooks(target.id), &mut call, &plugin)
}

/// Returns the side that receives the results of a call to the side `to`.
pub(crate) fn back(to: To) -> To {
    to.other()
}

/// The result of a function in an object's table.
pub(crate) trait Returned: Copy {
    /// Returns the error in the result, or null.
    fn error(self) -> *mut PJRT_Error {
        null_mut()
    }

    /// Creates the return value from the function's result and the error of the call, which a layer may have replaced.
    fn from_call(result: Self, error: *mut PJRT_Error) -> Self {
        crate::core::plugin::errors::destroy_own(error);
        result
    }
}

macro_rules! infallible {
    ($($ty:ty),* $(,)?) => {
        $(impl Returned for $ty {})*
    };
}

infallible!(
    (),
    usize,
    isize,
    c_int,
    Bool,
    *mut c_void,
    *mut PJRT_Memory,
    PJRT_Error_Code,
    PJRT_DeviceEvent,
    PJRT_DeviceEvent_State,
);

impl Returned for *mut PJRT_Error {
    fn error(self) -> *mut PJRT_Error {
        self
    }

    fn from_call(_: Self, error: *mut PJRT_Error) -> Self {
        error
    }
}
