//! The one body of every function of the table.

use std::any::Any;
use std::marker::PhantomData;
use std::panic::AssertUnwindSafe;

use pjrt_sys::{AbiStruct, PJRT_Error, Slot};

use crate::abi::error::into_raw;
use crate::abi::raw::{copy_struct, local_copy, too_short};
use crate::abi::recorded;
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

/// The function in slot `S` of the table.
///
/// A struct from a framework of another version may be shorter or longer than ours: the bytes both know are copied
/// into a zeroed local and, on success, back. A panic becomes an error that names the function.
///
/// # Safety
///
/// V1 to V4 hold for `args`.
pub(crate) unsafe extern "C" fn entry<T: Entry<S>, S: Slot<Return: Outcome>>(args: *mut S::Args) -> S::Return {
    if const { recorded::is_traced(S::NAME) } && recorded::is_due() {
        // SAFETY: the caller's contract.
        return unsafe { recorded::record::<T, S>(args) };
    }
    let call = || {
        if args.is_null() || !args.is_aligned() {
            return Err(Error::argument(if args.is_null() { "args is null" } else { "args is not aligned" }));
        }
        let size = if const { leaves_size_open(S::NAME) } {
            S::Args::STRUCT_SIZE
        } else {
            // SAFETY: V1, every struct begins with its size.
            let size = unsafe { args.cast::<usize>().read() };
            if size < S::Args::MIN_SIZE {
                return Err(too_short::<S::Args>(size, "args"));
            }
            S::Args::size_behind(size)
        };
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
    #[expect(clippy::disallowed_methods, reason = "the one place that contains panics of the table's functions")]
    let result = std::panic::catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let error = panicked(panic).unnamed();
        // Frameworks end the process when a destroy function fails. The object is gone, and the panic was reported as
        // it began.
        if const { ends_with(S::NAME.as_bytes(), b"_Destroy") } { Ok(()) } else { Err(error) }
    });
    S::Return::from_result(result.map_err(|error| error.named(S::NAME)))
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
        $(impl<P: $crate::DevicePlugin> $crate::abi::entry::Entry<::pjrt_sys::$module::$slot>
            for $crate::abi::entry::Shim<P>
        {
            const PLUGIN: &'static str = P::NAME;

            unsafe fn call(
                $args: &mut <::pjrt_sys::$module::$slot as ::pjrt_sys::Slot>::Args,
            ) -> $crate::Result<()> {
                $(
                    // SAFETY: V2.
                    let $handle = unsafe {
                        $crate::abi::raw::handle::<P, _>($args.$handle, stringify!($handle))
                    }?;
                )?
                $body
            }
        })*
    };
    ($($entries:tt)*) => {
        $crate::abi::entry::entries! { in slot; $($entries)* }
    };
}
pub(crate) use entries;
