//! Layouts that a plugin chooses.

use pjrt::extensions::Layouts;
use pjrt_c_macros::c_function;

use crate::border::bytes::dp_bytes;
use crate::border::error::{dp_code, dp_error};
use crate::border::failure::Outcome;
use crate::border::handle::Owned;
use crate::border::memory;
use crate::border::memory::Plain;
use crate::buffer::dp_shape;
use crate::client::dp_client;
use crate::extensions::info::extension;
use crate::program::dp_executable;

/// Returns the layout that the plugin gives to arrays of this shape, in the plugin's own format.
#[c_function]
pub fn dp_client_default_layout(client: &dp_client, shape: Plain<dp_shape>) -> Outcome<Owned<dp_bytes>> {
    // SAFETY: K3 (arrays are readable).
    let shape = unsafe { shape.0.read() }?;
    let layouts = extension::<Layouts>(&client.inner.plugin(), "Layouts")?;
    Ok(Owned(dp_bytes::new(layouts.default_layout(&client.inner, &shape)?)))
}

/// Returns the layout of the output at `index` of a program, in the plugin's own format. `client` is a client of the
/// plugin that compiled the program.
#[c_function]
pub fn dp_client_output_layout(
    client: &dp_client,
    executable: &dp_executable,
    index: usize,
) -> Outcome<Owned<dp_bytes>> {
    let layouts = extension::<Layouts>(&client.inner.plugin(), "Layouts")?;
    let found = layouts.output_layouts(executable.get())?;
    Ok(Owned(dp_bytes::new(memory::at(&found, index)?.as_str())))
}

/// Returns the layout of the parameter at `index` of a program, in the plugin's own format. `client` is a client of the
/// plugin that compiled the program.
#[c_function]
pub fn dp_client_parameter_layout(
    client: &dp_client,
    executable: &dp_executable,
    index: usize,
) -> Outcome<Owned<dp_bytes>> {
    let layouts = extension::<Layouts>(&client.inner.plugin(), "Layouts")?;
    let found = layouts.parameter_layouts(executable.get())?;
    Ok(Owned(dp_bytes::new(memory::at(&found, index)?.as_str())))
}
