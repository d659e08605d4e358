//! Reads `PJRT_ExecuteOptions`, the options of one execution.

use std::ffi::{CStr, c_char};
use std::mem::offset_of;
use std::sync::Arc;

use pjrt_sys::{AbiStruct, PJRT_ExecuteOptions};

use crate::abi::lend::gate::Gate;
use crate::abi::lend::host_channel::Callbacks;
use crate::abi::lend::output_callbacks::OutputCallbacks;
use crate::abi::table::ffi_read;
use crate::execute_options::FullOptions;
use crate::ffi::ExecuteContext;
use crate::{Error, ExecuteOptions, Result, TaskIncarnation};

/// Reads the field at the byte offset `offset` of the options. Copying the whole struct would take longer than a few
/// loads.
///
/// # Safety
///
/// V1 (argument structs) holds for the options. A field of type `T` is at `offset`, and within the struct's size.
#[inline]
unsafe fn field<T: Copy>(options: *const PJRT_ExecuteOptions, offset: usize) -> T {
    // SAFETY: V1 (argument structs), which the caller promises.
    unsafe { options.wrapping_byte_add(offset).cast::<T>().read() }
}

/// The options that every execution needs.
#[derive(Clone, Copy)]
pub(crate) struct Options<'a> {
    pub(crate) launch_id: i32,
    /// Indices of the arguments that the framework does not donate.
    pub(crate) kept: &'a [i64],
    /// Whether options or callbacks may be set that only the full path supports. [`read_full`] and [`read_callbacks`]
    /// read them.
    pub(crate) needs_full_path: bool,
}

/// Reads the framework's send and receive callbacks. Returns `None` if the framework passed none.
///
/// # Safety
///
/// V1 (argument structs) holds for the options.
#[cold]
pub(crate) unsafe fn read_callbacks(options: *const PJRT_ExecuteOptions) -> Result<Option<Callbacks>> {
    // SAFETY: V1 (argument structs), which the caller promises.
    let options = unsafe { ffi_read::nested(options, "options") }?;
    let callbacks = Callbacks {
        send: options.send_callbacks,
        num_send: options.num_send_ops,
        recv: options.recv_callbacks,
        num_recv: options.num_recv_ops,
    };
    Ok((callbacks.num_send | callbacks.num_recv != 0).then_some(callbacks))
}

/// Reads the options that every execution needs.
///
/// # Safety
///
/// V1 (argument structs) to V3 (arrays and text) hold for the options.
#[inline]
pub(crate) unsafe fn read_options<'a>(options: *const PJRT_ExecuteOptions) -> Result<Options<'a>> {
    // The structs of all supported frameworks contain these options.
    const { assert!(READ_END <= PJRT_ExecuteOptions::MIN_SIZE) };
    if options.is_null() || !options.is_aligned() {
        return Err(options_pointer_error(options));
    }
    // SAFETY: V1 (argument structs): every struct begins with its size.
    let size = unsafe { options.cast::<usize>().read() };
    if size < PJRT_ExecuteOptions::MIN_SIZE {
        return Err(ffi_read::too_short::<PJRT_ExecuteOptions>(size, "options"));
    }
    // SAFETY: V1 (argument structs): the field is within the size.
    let sends: usize = unsafe { field(options, offset_of!(PJRT_ExecuteOptions, num_send_ops)) };
    // SAFETY: V1 (argument structs): the field is within the size.
    let receives: usize = unsafe { field(options, offset_of!(PJRT_ExecuteOptions, num_recv_ops)) };
    // SAFETY: V1 (argument structs): the field is within the size.
    let launch_id: i32 = unsafe { field(options, offset_of!(PJRT_ExecuteOptions, launch_id)) };
    // SAFETY: V1 (argument structs): the field is within the size.
    let kept: *const i64 = unsafe { field(options, offset_of!(PJRT_ExecuteOptions, non_donatable_input_indices)) };
    // SAFETY: V1 (argument structs): the field is within the size.
    let num_kept: usize = unsafe { field(options, offset_of!(PJRT_ExecuteOptions, num_non_donatable_input_indices)) };
    // SAFETY: V3 (arrays and text).
    let kept = unsafe { ffi_read::slice(kept, num_kept, "options->non_donatable_input_indices") }?;
    let has_callbacks = sends | receives != 0;
    // SAFETY: V1 (argument structs) and V3 (arrays and text).
    let needs_full_path = has_callbacks || unsafe { has_full_options(options, size) };
    Ok(Options { launch_id, kept, needs_full_path })
}

/// Returns the error for a null or misaligned pointer to the options.
#[cold]
#[inline(never)]
fn options_pointer_error(options: *const PJRT_ExecuteOptions) -> Error {
    Error::argument(if options.is_null() { "options is null" } else { "options is not aligned" })
}

/// End of the options that [`read_options`] reads from every struct, as an offset.
const READ_END: usize = offset_of!(PJRT_ExecuteOptions, num_non_donatable_input_indices) + size_of::<usize>();
/// End of the options that [`has_default_values`] reads, as an offset.
const HLO_CALLBACKS_END: usize = offset_of!(PJRT_ExecuteOptions, num_hlo_output_callbacks) + size_of::<usize>();
/// End of the last option that [`has_full_options`] reads, as an offset.
const CUSTOM_OPTIONS_END: usize = offset_of!(PJRT_ExecuteOptions, num_custom_options) + size_of::<usize>();

/// Returns whether the framework may have set an option after [`READ_END`]. A struct that ends there has no such
/// option. For a longer struct without all fields that this function checks (API versions before 0.112), returns true.
///
/// # Safety
///
/// V1 (argument structs) and V3 (arrays and text) hold for the options, and `size` is the size of their struct.
#[inline]
unsafe fn has_full_options(options: *const PJRT_ExecuteOptions, size: usize) -> bool {
    if size < CUSTOM_OPTIONS_END {
        // SAFETY: V1 (argument structs) and V3 (arrays and text), which the caller promises.
        return unsafe { short_struct_has_full_options(options, size) };
    }
    // SAFETY: V1 (argument structs): the field is within the size.
    let num_custom_options: usize = unsafe { field(options, offset_of!(PJRT_ExecuteOptions, num_custom_options)) };
    // SAFETY: V1 (argument structs) and V3 (arrays and text), which the caller promises.
    !unsafe { has_default_values(options, num_custom_options) }
}

/// Does the work of [`has_full_options`] for a struct that ends before the last option.
///
/// # Safety
///
/// The requirements of [`has_full_options`] apply.
#[cold]
#[inline(never)]
unsafe fn short_struct_has_full_options(options: *const PJRT_ExecuteOptions, size: usize) -> bool {
    if size < HLO_CALLBACKS_END {
        return size > READ_END;
    }
    // SAFETY: V1 (argument structs) and V3 (arrays and text), which the caller promises.
    !unsafe { has_default_values(options, 0) }
}

/// Returns whether all options between [`READ_END`] and [`HLO_CALLBACKS_END`] are unset, and `num_custom_options` is 0.
///
/// # Safety
///
/// V1 (argument structs) and V3 (arrays and text) hold for the options, and their struct has at least the size
/// [`HLO_CALLBACKS_END`].
#[inline]
unsafe fn has_default_values(options: *const PJRT_ExecuteOptions, num_custom_options: usize) -> bool {
    // SAFETY: V1 (argument structs): the field is within the size.
    let context: usize = unsafe { field(options, offset_of!(PJRT_ExecuteOptions, context)) };
    // SAFETY: V1 (argument structs): the field is within the size.
    let tasks: usize = unsafe { field(options, offset_of!(PJRT_ExecuteOptions, num_tasks)) };
    // SAFETY: V1 (argument structs): the field is within the size.
    let slices: usize = unsafe { field(options, offset_of!(PJRT_ExecuteOptions, multi_slice_config)) };
    // SAFETY: V1 (argument structs): the field is within the size.
    let outputs: usize = unsafe { field(options, offset_of!(PJRT_ExecuteOptions, num_hlo_output_callbacks)) };
    const MAJOR_TO_MINOR: usize = offset_of!(PJRT_ExecuteOptions, use_major_to_minor_data_layout_for_callbacks);
    // SAFETY: V1 (argument structs): the field is within the size.
    let major_to_minor: u8 = unsafe { field(options, MAJOR_TO_MINOR) };
    // SAFETY: V1 (argument structs): the field is within the size.
    let location: *const c_char = unsafe { field(options, offset_of!(PJRT_ExecuteOptions, call_location)) };
    if num_custom_options | context | tasks | slices | outputs | usize::from(major_to_minor) != 0 {
        return false;
    }
    // Most frameworks pass a null pointer or an empty string as `call_location`.
    // SAFETY: V3 (arrays and text): the string ends in a NUL byte, so its first byte is readable.
    location.is_null() || unsafe { location.read() } == 0
}

/// Reads all options that the backend can query. Returns an error if `multi_slice_config` is set.
///
/// # Safety
///
/// V1 (argument structs) to V4 (callbacks) hold for the options.
#[cold]
pub(crate) unsafe fn read_full(options: *const PJRT_ExecuteOptions) -> Result<ExecuteOptions> {
    // SAFETY: V1 (argument structs) and V4 (callbacks), which the caller promises.
    let options = unsafe { ffi_read::nested(options, "options") }?;
    if !options.multi_slice_config.is_null() {
        return Err(Error::unimplemented(
            "options->multi_slice_config is set, but this plugin does not support the Megascale extension; set it to \
             null",
        )
        .unnamed());
    }
    // SAFETY: V2 (handles) and V5 (opaque types): a context that is not null points to an `ExecuteContext`.
    let context = unsafe { options.context.cast::<ExecuteContext>().as_ref() };
    let gate = Arc::new(Gate::default());
    // SAFETY: V3 (arrays and text).
    let tasks = unsafe { ffi_read::slice(options.task_ids.cast_const(), options.num_tasks, "options->task_ids") }?;
    let incarnations = options.incarnation_ids.cast_const();
    // SAFETY: V3 (arrays and text).
    let incarnations = unsafe { ffi_read::slice(incarnations, options.num_tasks, "options->incarnation_ids") }?;
    let incarnation =
        |(task_id, incarnation): (&i32, &i64)| TaskIncarnation { task_id: *task_id, incarnation: *incarnation };
    // SAFETY: V3 (arrays and text) and V4 (callbacks): the callbacks end before the execution's event is ready.
    let outputs =
        unsafe { OutputCallbacks::read(options.hlo_output_callbacks, options.num_hlo_output_callbacks, &gate) }?;
    let (custom, num_custom) = (options.custom_options, options.num_custom_options);
    // SAFETY: V3 (arrays and text).
    let custom_options = unsafe { ffi_read::named_values(custom, num_custom, "options->custom_options") }?;
    let full = FullOptions {
        // SAFETY: V3 (arrays and text).
        call_location: unsafe { text(options.call_location) },
        context: context.map(|context| context.of_execution(&gate)),
        incarnations: tasks.iter().zip(incarnations).map(incarnation).collect(),
        major_to_minor_callbacks: options.use_major_to_minor_data_layout_for_callbacks.get(),
        output_callbacks: outputs,
        gate,
        custom_options,
    };
    let mut all = ExecuteOptions::new(options.launch_id);
    all.set_full(Some(full).filter(|full| !full.is_default()));
    Ok(all)
}

/// Reads a string that ends in a NUL byte. Returns `None` if the pointer is null or the string is empty. Replaces
/// invalid UTF-8, because the string is a source location that is only shown to people.
///
/// # Safety
///
/// V3 (arrays and text): the pointer is null or readable up to a NUL byte.
unsafe fn text(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    #[expect(clippy::disallowed_methods, reason = "the one text of the interface without a length")]
    // SAFETY: V3 (arrays and text), which the caller promises.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned()).filter(|text| !text.is_empty())
}
