//! The functions in the table that the framework receives.

use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use pjrt_sys::{AbiStruct, PJRT_Error, slot};

use super::stack::{Hook, Stack};
use crate::core::calls::Call;
use crate::core::events::{answer_gated, register};
use crate::core::objects::ObjectKind;
use crate::core::plugin::InsidePlugin;
use crate::core::plugin::errors;
use crate::core::process::contain;
use crate::core::tables::client_table;
use crate::function::ForwardedFunction;
use crate::layer::{Outcome, Step};

/// Identifies a stack of layers in this process. The functions of a table have no argument that identifies the stack,
/// so each instance has its own functions. A library needs one instance, and tests use several.
pub trait Instance: 'static {
    /// Returns the cell in which the stack is stored.
    fn cell() -> &'static OnceLock<Stack>;
}

/// The return type of a function of the PJRT C API.
pub trait Answer: Copy {
    /// Creates the return value for an error, which may be null. The return type `()` cannot report an error, so an
    /// error that a layer created is destroyed.
    fn from_error(error: *mut PJRT_Error) -> Self;
    /// Returns the error, or null after success.
    fn into_error(self) -> *mut PJRT_Error;
}

impl Answer for *mut PJRT_Error {
    #[inline]
    fn from_error(error: *mut PJRT_Error) -> Self {
        error
    }

    #[inline]
    fn into_error(self) -> *mut PJRT_Error {
        self
    }
}

impl Answer for () {
    fn from_error(error: *mut PJRT_Error) {
        errors::destroy_own(error);
    }

    fn into_error(self) -> *mut PJRT_Error {
        null_mut()
    }
}

/// Calls the layers that select the function `S`, and then the plugin unless a layer answers the call. The table of the
/// instance `I` contains this function.
///
/// # Safety
///
/// Contract L2 must hold for `args`.
pub(in crate::core) unsafe extern "C" fn forward<I: Instance, S: ForwardedFunction>(args: *mut S::Args) -> S::Return {
    match I::cell().get() {
        // SAFETY: L2 (arguments): the framework passes the arguments of this function.
        Some(stack) => unsafe { forward_in::<S>(stack, args) },
        None => S::Return::from_error(null_mut()),
    }
}

/// Calls the layers that select the function, and then the plugin unless a layer answers the call. The code does not
/// depend on the instance, so the compiler generates it only once for each function. This matters for tests, which have
/// many instances. A library has a single instance, so the compiler can inline this code into the functions of this
/// instance.
///
/// # Safety
///
/// Contract L2 must hold for `args`.
#[inline]
unsafe fn forward_in<S: ForwardedFunction>(stack: &'static Stack, args: *mut S::Args) -> S::Return {
    if errors::is_error_function::<S>()
        // SAFETY: L2 (arguments): the framework passes the arguments of this function.
        && let Some(error) = unsafe { errors::answer::<S>(args.cast()) }
    {
        return S::Return::from_error(error);
    }
    let real = stack.plugin.function::<S>();
    let plugin = |args: *mut u8| match real {
        Some(function) => {
            if !args.is_null() {
                // SAFETY: L2 (arguments): the arguments are those of this function, and are not null.
                unsafe { client_table::before::<S>(stack, args) };
            }
            // Objects refer to the layers only if the function table of an object has been copied. Without a copy,
            // `InsidePlugin` is not necessary.
            let inside = stack.objects.is_found.load(Ordering::Acquire).then(InsidePlugin::new);
            // SAFETY: L1 (plugin): `function` is the plugin's implementation of `S`. L2 (arguments): `args` are the
            // arguments that the framework passed, or a copy that a layer changed.
            let error = unsafe { function(args.cast()) }.into_error();
            drop(inside);
            if !error.is_null() {
                stack.show_object(ObjectKind::Error, error.expose_provenance());
            } else if !args.is_null() {
                // SAFETY: L2 (arguments): the arguments are those of this function, and are not null.
                unsafe { client_table::after::<S>(stack, args) };
                // SAFETY: L2 (arguments): the arguments are those of this function, and are not null.
                unsafe { stack.show_outputs(S::ID, args) };
            }
            error
        }
        // Frameworks abort the process if a query of an error fails, so a call of a missing error function succeeds and
        // reports no payload.
        None if errors::is_error_function::<S>() => null_mut(),
        None => errors::into_raw(errors::missing(stack.plugin.version().1, S::NAME)),
    };
    if args.is_null() {
        return S::Return::from_error(plugin(args.cast()));
    }
    // SAFETY: L2 (arguments): the arguments are those of this function, and are not null.
    let mut call = unsafe { Call::new(&stack.plugin, S::ID, args.cast(), S::Args::size_behind) };
    S::Return::from_error(descend(stack, stack.hooks(S::ID), &mut call, &plugin))
}

/// Calls the active layers in `hooks` in order, and then the plugin unless a layer answers the call. The first layer is
/// closest to the framework.
pub(in crate::core) fn descend(
    stack: &'static Stack,
    hooks: &[Hook],
    call: &mut Call,
    plugin: &dyn Fn(*mut u8) -> *mut PJRT_Error,
) -> *mut PJRT_Error {
    let Some((hook, below)) = hooks.split_first() else { return reach(stack, call, plugin) };
    if !stack.is_active(hook.index) {
        return descend(stack, below, call, plugin);
    }
    let depth = call.depth();
    match contain(|| hook.layer.before(call)).unwrap_or(Step::Continue(0)) {
        Step::Continue(token) => {
            let error = if below.is_empty() { reach(stack, call, plugin) } else { descend(stack, below, call, plugin) };
            if call.depth() > depth {
                call.restore(depth);
            }
            let outcome = Outcome { error: error.addr(), plugin: call.plugin };
            contain(|| hook.layer.after(call, token, outcome));
            if std::mem::take(&mut call.clears_error) {
                // SAFETY: L4 (errors): the framework does not have the error yet.
                unsafe { errors::discard(&call.plugin.tables, error) };
                return null_mut();
            }
            error
        }
        Step::Answer(error) => {
            call.restore(depth);
            errors::into_raw(*error)
        }
    }
}

/// Calls the plugin. The module `gated_calls` handles calls with a gated event, and the module `callbacks` handles
/// registrations of callbacks.
#[inline]
fn reach(stack: &'static Stack, call: &mut Call, plugin: &dyn Fn(*mut u8) -> *mut PJRT_Error) -> *mut PJRT_Error {
    if stack.plugin.gates.exist()
        && let Some(error) = answer_gated(stack, call, plugin)
    {
        return error;
    }
    if call.is::<slot::PJRT_Event_OnReady>() { register(stack, call, plugin) } else { plugin(call.args) }
}
