//! The one body of every function of the table.

use std::any::Any;
use std::marker::PhantomData;
use std::panic::AssertUnwindSafe;

use pjrt_sys::{AbiStruct, PJRT_Error, Slot};

use crate::abi::objects::error::into_raw;
use crate::abi::table::ffi_read::{copy_struct, local_copy, too_short, too_short_for};
use crate::abi::table::trace;
use crate::{Error, Result};

/// The plugin `P` seen through the C table.
pub(crate) struct Shim<P>(PhantomData<P>);

/// What a function of the table does with its arguments.
pub(crate) trait Entry<S: Slot> {
    /// Name of the plugin.
    const PLUGIN: &'static str;

    /// Reads the inputs, does the work, and writes every output on success. Outputs arrive uninitialized.
    ///
    /// # Safety
    ///
    /// V1 to V4 hold for what `args` was copied from.
    unsafe fn call(args: &mut S::Args) -> Result<()>;
}

/// How a function of the table reports an error.
pub(crate) trait Outcome: Copy {
    fn from_result(result: Result<()>) -> Self;
}

impl Outcome for *mut PJRT_Error {
    #[inline]
    fn from_result(result: Result<()>) -> Self {
        match result {
            Ok(()) => std::ptr::null_mut(),
            Err(error) => into_raw(error),
        }
    }
}

/// Two functions of the table cannot report one.
impl Outcome for () {
    fn from_result(_: Result<()>) -> Self {}
}

/// What the shared body of most functions knows of one.
struct Function {
    name: &'static str,
    size: usize,
    min_size: usize,
    size_behind: fn(usize) -> usize,
}

impl Function {
    const fn of<S: Slot>() -> Self {
        assert!(size_of::<S::Args>() <= size_of::<Local>(), "make `Local` larger");
        assert!(align_of::<S::Args>() <= align_of::<Local>());
        Self {
            name: S::NAME,
            size: S::Args::STRUCT_SIZE,
            min_size: S::Args::MIN_SIZE,
            size_behind: S::Args::size_behind,
        }
    }
}

/// Room for the arguments of any function.
type Local = [u64; 32];

/// The function in slot `S` of the table.
///
/// A struct from a framework of another version may be shorter or longer than ours: the bytes both know are copied
/// into a zeroed local and, on success, back. A panic becomes an error that names the function.
///
/// Functions that frameworks call for each execution have this body to themselves; the others share one, since a plugin
/// has a hundred and fifty of them.
///
/// # Safety
///
/// V1 to V4 hold for `args`.
pub(crate) unsafe extern "C" fn entry<T: Entry<S>, S: Slot<Return: Outcome>>(args: *mut S::Args) -> S::Return {
    if const { trace::is_traced(S::NAME) } && trace::is_due() {
        // SAFETY: the caller's contract.
        return unsafe { trace::record::<T, S>(args) };
    }
    if const { !is_frequent(S::NAME) } {
        // SAFETY: the caller's contract; `body` takes the arguments of this function.
        return unsafe { answer(args.cast(), const { &Function::of::<S>() }, body::<T, S>) };
    }
    let call = || {
        if args.is_null() || !args.is_aligned() {
            return Err(no_struct(args.is_null()));
        }
        // SAFETY: V1, every struct begins with its size.
        let size = unsafe { args.cast::<usize>().read() };
        if size < S::Args::MIN_SIZE {
            return Err(too_short::<S::Args>(size, "args"));
        }
        let size = S::Args::size_behind(size);
        // SAFETY: V1, `size` bytes are readable.
        let mut local = unsafe { local_copy(args, size) };
        // SAFETY: the caller's contract.
        unsafe { T::call(&mut local) }?;
        if const { has_outputs(S::NAME) } {
            // SAFETY: V1, `size` bytes are writable.
            unsafe { copy_struct::<S::Args>((&raw const local).cast(), args.cast(), size) };
        }
        Ok(())
    };
    #[expect(clippy::disallowed_methods, reason = "the functions that do not share what contains panics")]
    let result = std::panic::catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| after(panic, S::NAME));
    S::Return::from_result(result.map_err(|error| error.named(S::NAME)))
}

/// What a function does, for the shared body.
///
/// # Safety
///
/// `local` is a struct of this function that nothing else refers to, and V1 to V4 hold for what it was copied from.
unsafe fn body<T: Entry<S>, S: Slot>(local: *mut u8) -> Result<()> {
    // SAFETY: the caller's contract.
    let local = unsafe { &mut *local.cast::<S::Args>() };
    // SAFETY: the caller's contract.
    unsafe { T::call(local) }
}

/// What a function does, with a local copy of its arguments.
type Body = unsafe fn(*mut u8) -> Result<()>;

/// [`shared`] for a kind of result. As a C function it does not unwind, so that its callers need no code for that.
///
/// # Safety
///
/// As for [`shared`].
#[inline(never)]
#[expect(improper_ctypes_definitions, reason = "only Rust calls it")]
unsafe extern "C" fn answer<R: Outcome>(args: *mut u8, function: &Function, body: Body) -> R {
    // SAFETY: the caller's contract.
    R::from_result(unsafe { shared(args, function, body) })
}

/// The body of the functions that are not called for each execution.
///
/// # Safety
///
/// V1 to V4 hold for `args`, and `body` is that of `function`.
unsafe fn shared(args: *mut u8, function: &Function, body: Body) -> Result<()> {
    let call = || {
        let words = args.cast::<usize>();
        if words.is_null() || !words.is_aligned() {
            return Err(no_struct(words.is_null()));
        }
        let size = if leaves_size_open(function.name) {
            function.size
        } else {
            // SAFETY: V1, every struct begins with its size.
            let size = unsafe { words.read() };
            if size < function.min_size {
                return Err(too_short_for(size, "args", function.min_size, function.size));
            }
            (function.size_behind)(size).min(function.size)
        };
        let mut local: Local = [0; _];
        let local = (&raw mut local).cast::<u8>();
        // SAFETY: V1, `size` bytes are readable, and `Function::of` has seen that they fit.
        unsafe { args.copy_to_nonoverlapping(local, size) };
        // SAFETY: the caller's contract; zero is valid for what the struct of another version lacks.
        unsafe { body(local) }?;
        if has_outputs(function.name) {
            // SAFETY: V1, `size` bytes are writable.
            unsafe { local.copy_to_nonoverlapping(args, size) };
        }
        Ok(())
    };
    #[expect(clippy::disallowed_methods, reason = "the one place that contains panics of the other functions")]
    let result = std::panic::catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| after(panic, function.name));
    result.map_err(|error| error.named(function.name))
}

#[cold]
fn no_struct(null: bool) -> Error {
    Error::argument(if null { "args is null" } else { "args is not aligned" })
}

/// What a function that panicked answers.
#[cold]
fn after(panic: Box<dyn Any + Send>, function: &str) -> Result<()> {
    let error = panicked(panic).unnamed();
    // Frameworks end the process when a destroy function fails. The object is gone, and the panic was reported as it
    // began.
    if ends_with(function.as_bytes(), b"_Destroy") { Ok(()) } else { Err(error) }
}

/// Whether frameworks call a function for each execution, or for each buffer of one. None of these leaves its size open.
const fn is_frequent(name: &str) -> bool {
    const FREQUENT: &[&str] = &[
        "PJRT_LoadedExecutable_Execute",
        "PJRT_Event_Destroy",
        "PJRT_Event_IsReady",
        "PJRT_Event_Await",
        "PJRT_Event_OnReady",
        "PJRT_Buffer_Destroy",
        "PJRT_Buffer_ReadyEvent",
    ];
    let mut i = 0;
    while i < FREQUENT.len() {
        if FREQUENT[i].len() == name.len() && ends_with(name.as_bytes(), FREQUENT[i].as_bytes()) {
            return true;
        }
        i += 1;
    }
    false
}

/// Whether a function writes to its arguments. What those that frameworks call most put out lies elsewhere.
const fn has_outputs(name: &str) -> bool {
    const WITHOUT: &[&str] = &["_Destroy", "_Execute", "_Await"];
    let mut i = 0;
    while i < WITHOUT.len() {
        if ends_with(name.as_bytes(), WITHOUT[i].as_bytes()) {
            return false;
        }
        i += 1;
    }
    true
}

/// Whether frameworks leave the first word of the arguments uninitialized: JAX does so for the functions of the profiler,
/// whose structs are the same in all versions.
const fn leaves_size_open(name: &str) -> bool {
    const START: &[u8] = b"PLUGIN_";
    let name = name.as_bytes();
    let mut i = 0;
    while i < START.len() {
        if i >= name.len() || name[i] != START[i] {
            return false;
        }
        i += 1;
    }
    true
}

const fn ends_with(text: &[u8], end: &[u8]) -> bool {
    if text.len() < end.len() {
        return false;
    }
    let start = text.len() - end.len();
    let mut i = 0;
    while i < end.len() {
        if text[start + i] != end[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// Runs vendor code outside the table's functions: a panic becomes an error.
pub(crate) fn contain<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    #[expect(clippy::disallowed_methods, reason = "vendor code that runs on a completing thread or in a deleter")]
    std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(panic)))
}

/// The same within a function of the table that has more to do after a panic.
pub(crate) fn contain_in<T>(function: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    #[expect(clippy::disallowed_methods, reason = "vendor code after which the framework's memory is looked after")]
    std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(panic).context(function)))
}

#[cold]
fn panicked(panic: Box<dyn Any + Send>) -> Error {
    let text = |panic: &Box<dyn Any + Send>| -> Option<String> {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        text.or_else(|| panic.downcast_ref::<String>().cloned())
    };
    let message = text(&panic);
    let error = Error::internal(format!("the plugin panicked: {}", message.as_deref().unwrap_or("(no message)")));
    // What was thrown is the vendor's, and its destructor may panic, too. Who goes on like that is leaked.
    #[expect(clippy::disallowed_methods, reason = "the vendor's value, outside what contained the panic")]
    if let Err(again) = std::panic::catch_unwind(AssertUnwindSafe(|| drop(panic)))
        && text(&again).is_none()
    {
        std::mem::forget(again);
    }
    error
}

/// Implements functions of the table: `slot(args, handle) { … }` first turns the handle in the field `handle` into a
/// reference, `slot(args) { … }` has none.
macro_rules! entries {
    (in $module:ident; $($slot:ident($args:ident $(, $handle:ident)?) $body:block)*) => {
        $(impl<P: $crate::DevicePlugin> $crate::abi::table::entry::Entry<::pjrt_sys::$module::$slot>
            for $crate::abi::table::entry::Shim<P>
        {
            const PLUGIN: &'static str = P::NAME;

            unsafe fn call(
                $args: &mut <::pjrt_sys::$module::$slot as ::pjrt_sys::Slot>::Args,
            ) -> $crate::Result<()> {
                $(
                    // SAFETY: V2.
                    let $handle = unsafe {
                        $crate::abi::table::ffi_read::handle::<P, _>($args.$handle, stringify!($handle))
                    }?;
                )?
                $body
            }
        })*
    };
    ($($entries:tt)*) => {
        $crate::abi::table::entry::entries! { in slot; $($entries)* }
    };
}
pub(crate) use entries;
