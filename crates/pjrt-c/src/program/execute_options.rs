//! `dp_execute_options`: options of a run.

use std::ffi::CString;

use pjrt::ExecuteOptions;
use pjrt_c_macros::c_function;

use crate::border::error::{dp_code, dp_error};
use crate::border::failure::{Failure, Outcome};
use crate::border::handle;
use crate::client::dp_device;
use crate::registry::dp_options;

/// Options of a run. One object can serve many runs, also at the same time.
#[derive(Default)]
pub struct dp_execute_options {
    pub(crate) inner: ExecuteOptions,
}

/// Creates options without settings.
#[c_function]
pub fn dp_execute_options_new() -> *mut dp_execute_options {
    handle::give(dp_execute_options::default())
}

/// Sets the number by which the devices of one launch, also in other processes, know that their runs belong together.
#[c_function]
pub fn dp_execute_options_set_launch_id(options: &mut dp_execute_options, launch_id: i32) -> Outcome<()> {
    options.inner.launch_id = launch_id;
    Ok(())
}

/// Sets the location in the program's source code, such as `train.cc:12`, for the plugin's messages.
#[c_function]
pub fn dp_execute_options_set_call_location(options: &mut dp_execute_options, location: &str) -> Outcome<()> {
    let location = CString::new(location).map_err(|error| Failure::argument(format!("`location`: {error}")))?;
    options.inner.call_location = Some(location);
    Ok(())
}

/// Sets the device of a program that was compiled as a portable executable.
#[c_function]
pub fn dp_execute_options_set_device(options: &mut dp_execute_options, device: &dp_device) -> Outcome<()> {
    options.inner.device = Some(device.inner.clone());
    Ok(())
}

/// Adds options that are specific to the plugin. Needs API 0.116 or later.
#[c_function]
pub fn dp_execute_options_add_custom(options: &mut dp_execute_options, custom: &dp_options) -> Outcome<()> {
    options.inner.custom_options.extend(custom.to_values());
    Ok(())
}

/// Sets the incarnation of a process that takes part in the run, which changes whenever the process restarts.
#[c_function]
pub fn dp_execute_options_add_incarnation(
    options: &mut dp_execute_options,
    process_index: i32,
    incarnation: i64,
) -> Outcome<()> {
    options.inner = std::mem::take(&mut options.inner).with_incarnation(process_index, incarnation);
    Ok(())
}
