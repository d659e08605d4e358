//! Compilers whose phases run one by one.

use std::ffi::c_void;
use std::ptr::null_mut;

use pjrt::extensions::{PhaseCompile, PhaseCompiler};
use pjrt::{CompileOptions, ErrorCode};
use pjrt_c_macros::c_function;
use plugin_manifest::c_view::capabilities::dp_string;

use crate::border::bytes::dp_bytes;
use crate::border::error::{dp_code, dp_error};
use crate::border::failure::{Failure, Outcome};
use crate::border::handle;
use crate::border::memory;
use crate::border::memory::{Fill, Texts};
use crate::client::dp_client;
use crate::extensions::info::{extension, lend_name};
use crate::program::dp_compile_options;

/// A program between two phases of a compiler.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dp_partial_program {
    /// A serialized `xla.PjRtPartialProgramProto`.
    pub data: *const c_void,
    /// The number of bytes.
    pub size: usize,
}

fn compiler(client: &dp_client) -> Outcome<PhaseCompiler> {
    Ok(extension::<PhaseCompile>(&client.inner.plugin(), "PhaseCompile")?.compiler()?)
}

/// Returns the number of phases of the plugin's compiler. Many plugins have the extension but no such compiler; the
/// error is then that of the plugin.
#[c_function]
pub fn dp_client_phase_count(client: &dp_client) -> Outcome<usize> {
    Ok(compiler(client)?.phase_names()?.len())
}

/// Returns the name of the phase at `index`, counted from 0, in the order in which they run. The text is valid until
/// the process ends.
#[c_function]
pub fn dp_client_phase_name_at(client: &dp_client, index: usize) -> Outcome<dp_string> {
    Ok(lend_name(memory::at(&compiler(client)?.phase_names()?, index)?))
}

/// Runs phases of the plugin's compiler, by name, for the client's devices. Fills `outputs` with the resulting
/// programs, each a serialized `xla.PjRtPartialProgramProto`, and the remaining places with NULL. Returns
/// `DP_OUT_OF_RANGE` if there are more programs than places. `options` may be NULL: one replica, one partition.
#[c_function]
pub fn dp_client_run_phases(
    client: &dp_client,
    phases: Texts<'_>,
    programs: &[dp_partial_program],
    options: Option<&dp_compile_options>,
    outputs: Fill<*mut dp_bytes>,
) -> Outcome<()> {
    let phases = (0..phases.len()).map(|index| phases.get(index)).collect::<Outcome<Vec<&str>>>()?;
    let mut inputs = Vec::with_capacity(programs.len());
    for (index, program) in programs.iter().enumerate() {
        let name = format!("programs[{index}].data");
        // SAFETY: K3 (arrays are readable).
        inputs.push(unsafe { memory::array::<u8>(program.data.cast(), program.size, &name) }?);
    }
    let nothing = CompileOptions::default();
    let options = options.map_or(&nothing, |options| &options.inner);
    let made = compiler(client)?.run_phases(&phases, &inputs, options, &client.inner.topology()?)?;
    let (found, places) = (made.len(), outputs.len());
    if found > places {
        let message = format!("the phases made {found} programs, but `outputs` has {places} places");
        return Err(Failure::new(ErrorCode::OUT_OF_RANGE, message));
    }
    let mut handles: Vec<*mut dp_bytes> = made.into_iter().map(|made| handle::give(dp_bytes::new(made))).collect();
    handles.resize(places, null_mut());
    outputs.each(handles.into_iter())
}
