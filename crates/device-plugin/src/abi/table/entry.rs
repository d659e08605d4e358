//! The generic C entry point of all functions in the table.

use std::any::Any;
use std::marker::PhantomData;
use std::panic::AssertUnwindSafe;

use pjrt_sys::{AbiStruct, PJRT_Error, Slot};

use crate::abi::table::error_handle::into_raw;
use crate::abi::table::ffi_read::{copy_struct, local_copy, too_short, too_short_for};
use crate::abi::table::trace;
use crate::contain::panicked;
use crate::{Error, Result};

/// The marker type for the C table of the plugin `P`.
pub(crate) struct Shim<P>(PhantomData<P>);

/// The implementation of one function of the table, and the constants that control how [`entry`] calls it.
///
/// The attribute `#[entry]` implements this trait with a function that has the name of a function of the table. Its
/// arguments set the constants: `hot`, `no_outputs`, `destroys`, `traced`, `caller_context`, `fixed_size`. `extension`
/// and `module = path` select another table. If the function has a second argument, it is the object behind the handle
/// of this name in the argument struct.
pub(crate) trait Entry<S: Slot> {
    /// Returns the plugin's name.
    fn plugin() -> &'static str;
    /// Whether frameworks call the function for each execution or for each buffer of an execution. A hot function is
    /// compiled separately instead of using the shared body.
    const HOT: bool = false;
    /// Whether the function writes outputs to its argument struct.
    const OUTPUTS: bool = true;
    /// Whether the function destroys an object. Such a function succeeds even if vendor code panics, because frameworks
    /// end the process if a destroy function fails.
    const DESTROYS: bool = false;
    /// Whether [`entry`] records the calls in a running profile. `false` for executions, which record themselves. Each
    /// execution then checks only once whether a profile is running.
    const TRACED: bool = false;
    /// Whether frameworks may append a `PJRT_Profiler_Extension` with the id of their current trace event to the
    /// arguments.
    const CALLER_CONTEXT: bool = false;
    /// How [`entry`] determines the size of the argument struct.
    const SIZE: SizeRule = SizeRule::Declared;

    /// Runs the function: reads the inputs from `args`, and on success writes every output to `args`. The framework may
    /// leave the output fields uninitialized before the call.
    ///
    /// # Safety
    ///
    /// V1 (argument structs) to V4 (callbacks) hold for the struct from which `args` was copied.
    unsafe fn call(args: &mut S::Args) -> Result<()>;
}

/// How [`entry`] determines the size of an argument struct.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SizeRule {
    /// The framework writes the size into the first word, `struct_size`.
    Declared,
    /// Frameworks leave the first word uninitialized. The struct has the same size in all versions.
    Fixed,
}

/// The return type of a function of the table, by which it reports an error.
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

/// Functions that return `void`, such as `PJRT_Error_Destroy`, cannot report an error.
impl Outcome for () {
    fn from_result(_: Result<()>) -> Self {}
}

/// Properties of a function that the shared body needs at run time. A plugin has about 150 of them, so the sizes are
/// short.
struct Function {
    name: &'static str,
    size: u16,
    min_size: u16,
    /// A `struct_size` that some frameworks declare although their struct is longer, and the actual size of that
    /// struct. `(0, 0)` if all frameworks declare the actual size.
    understated: (u16, u16),
    has_outputs: bool,
    destroys: bool,
    size_rule: SizeRule,
}

impl Function {
    #[expect(clippy::cast_possible_truncation, reason = "all sizes fit in `Local`, or nothing compiles")]
    const fn of<T: Entry<S>, S: Slot>() -> Self {
        assert!(size_of::<S::Args>() <= size_of::<Local>(), "make `Local` larger");
        assert!(align_of::<S::Args>() <= align_of::<Local>());
        Self {
            name: S::NAME,
            size: S::Args::STRUCT_SIZE as u16,
            min_size: S::Args::MIN_SIZE as u16,
            understated: match S::Args::UNDERSTATED {
                Some((announced, actual)) => {
                    assert!(announced <= size_of::<Local>() && actual <= size_of::<Local>());
                    (announced as u16, actual as u16)
                }
                None => (0, 0),
            },
            has_outputs: T::OUTPUTS,
            destroys: T::DESTROYS,
            size_rule: T::SIZE,
        }
    }
}

/// Aligned memory that can hold the argument struct of any function.
type Local = [u64; 32];

/// The C function in slot `S` of the table.
///
/// The argument struct of a framework with another API version may be shorter or longer than the struct of this crate.
/// `entry` copies the bytes that both versions define into a zeroed local. On success, it copies them back if the
/// function has outputs. A panic becomes an error with the function's name, except in a function that destroys an
/// object.
///
/// Functions that frameworks call for each execution are compiled separately. All other functions share one body,
/// because a plugin has about 150 of them and a body for each would increase its code size.
///
/// # Safety
///
/// V1 (argument structs) to V4 (callbacks) hold for `args`.
pub(crate) unsafe extern "C" fn entry<T: Entry<S>, S: Slot<Return: Outcome>>(args: *mut S::Args) -> S::Return {
    if T::TRACED && trace::is_due() {
        // SAFETY: V1 (argument structs) and V4 (callbacks), which the caller promises.
        return unsafe { trace::record::<S>(args, T::plugin(), T::CALLER_CONTEXT, entry::<T, S>) };
    }
    if !T::HOT {
        // SAFETY: the caller promises valid `args`, and `body::<T, S>` takes the arguments of this function.
        return unsafe { answer(args.cast(), const { &Function::of::<T, S>() }, body::<T, S>) };
    }
    const { assert!(!T::HOT || matches!(T::SIZE, SizeRule::Declared), "a hot function reads the size of its arguments") };
    let call = || {
        if args.is_null() || !args.is_aligned() {
            return Err(args_pointer_error(args.cast()));
        }
        // SAFETY: V1 (argument structs): every struct begins with its size.
        let size = unsafe { args.cast::<usize>().read() };
        if size < S::Args::MIN_SIZE {
            return Err(too_short::<S::Args>(size, "args"));
        }
        let size = S::Args::size_behind(size);
        // SAFETY: V1 (argument structs): `size` bytes are readable.
        let mut local = unsafe { local_copy(args, size) };
        // SAFETY: V1 (argument structs) and V4 (callbacks), which the caller promises.
        unsafe { T::call(&mut local) }?;
        if T::OUTPUTS {
            // SAFETY: V1 (argument structs): `size` bytes are writable.
            unsafe { copy_struct::<S::Args>((&raw const local).cast(), args.cast(), size) };
        }
        Ok(())
    };
    #[expect(clippy::disallowed_methods, reason = "the functions that do not share what contains panics")]
    match std::panic::catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => S::Return::from_result(Ok(())),
        Ok(Err(error)) => error_outcome(error, S::NAME),
        Err(panic) => panic_outcome(panic, S::NAME, T::DESTROYS),
    }
}

/// Returns the C return value of a function that failed.
#[cold]
#[inline(never)]
fn error_outcome<R: Outcome>(error: Error, function: &'static str) -> R {
    R::from_result(Err(error.named(function)))
}

/// Returns the C return value of a function in which vendor code panicked. A function that destroys an object succeeds.
#[cold]
#[inline(never)]
fn panic_outcome<R: Outcome>(panic: Box<dyn Any + Send>, function: &'static str, destroys: bool) -> R {
    match after_panic(panic, destroys) {
        Ok(()) => R::from_result(Ok(())),
        Err(error) => error_outcome(error, function),
    }
}

/// Calls the implementation of the function in slot `S`. The shared body receives a pointer to `body`.
///
/// # Safety
///
/// `local` points to an argument struct of the function in slot `S`, and no other code refers to the struct. V1
/// (argument structs) to V4 (callbacks) hold for the struct from which it was copied.
unsafe fn body<T: Entry<S>, S: Slot>(local: *mut u8) -> Result<()> {
    // SAFETY: V1 (argument structs) and V4 (callbacks), which the caller promises.
    let local = unsafe { &mut *local.cast::<S::Args>() };
    // SAFETY: V1 (argument structs) and V4 (callbacks), which the caller promises.
    unsafe { T::call(local) }
}

/// The type of [`body`], which takes a pointer to a local copy of the argument struct.
type Body = unsafe fn(*mut u8) -> Result<()>;

/// Calls [`shared`] and converts its result to the C return type. An `extern "C"` function never unwinds, so the
/// compiler generates no unwinding code in its callers.
///
/// # Safety
///
/// The requirements of [`shared`] apply.
#[inline(never)]
#[expect(improper_ctypes_definitions, reason = "only Rust calls it")]
unsafe extern "C" fn answer<R: Outcome>(args: *mut u8, function: &Function, body: Body) -> R {
    // SAFETY: the caller promises that `args` are valid and that `body` belongs to `function`.
    R::from_result(unsafe { shared(args, function, body) })
}

/// The shared body of all functions that are not [`HOT`](Entry::HOT).
///
/// # Safety
///
/// V1 (argument structs) to V4 (callbacks) hold for `args`, and `body` belongs to `function`.
unsafe fn shared(args: *mut u8, function: &Function, body: Body) -> Result<()> {
    let call = || {
        let words = args.cast::<usize>();
        if words.is_null() || !words.is_aligned() {
            return Err(args_pointer_error(words.cast()));
        }
        let (whole, min_size) = (usize::from(function.size), usize::from(function.min_size));
        let size = if function.size_rule == SizeRule::Fixed {
            whole
        } else {
            // SAFETY: V1 (argument structs): every struct begins with its size.
            let size = unsafe { words.read() };
            if size < min_size {
                return Err(too_short_for(size, "args", min_size, whole));
            }
            let (announced, actual) = function.understated;
            (if size == usize::from(announced) { usize::from(actual) } else { size }).min(whole)
        };
        let mut local: Local = [0; _];
        let local = (&raw mut local).cast::<u8>();
        // SAFETY: V1 (argument structs): `size` bytes are readable, and `Function::of` has checked that they fit into
        // `Local`.
        unsafe { args.copy_to_nonoverlapping(local, size) };
        // SAFETY: the caller promises valid `args`. Zero is valid for the fields that a shorter struct lacks.
        unsafe { body(local) }?;
        if function.has_outputs {
            // SAFETY: V1 (argument structs): `size` bytes are writable.
            unsafe { local.copy_to_nonoverlapping(args, size) };
        }
        Ok(())
    };
    #[expect(clippy::disallowed_methods, reason = "the one place that contains panics of the other functions")]
    let result =
        std::panic::catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| after_panic(panic, function.destroys));
    result.map_err(|error| error.named(function.name))
}

/// Returns the error for a null or misaligned pointer to an argument struct.
#[cold]
#[inline(never)]
fn args_pointer_error(args: *const u8) -> Error {
    Error::argument(if args.is_null() { "args is null" } else { "args is not aligned" })
}

/// Returns the result of a function in which vendor code panicked.
#[cold]
fn after_panic(panic: Box<dyn Any + Send>, destroys: bool) -> Result<()> {
    let error = panicked(panic).unnamed();
    // The object is destroyed in spite of the panic, and the panic hook has already reported the panic.
    if destroys { Ok(()) } else { Err(error) }
}
