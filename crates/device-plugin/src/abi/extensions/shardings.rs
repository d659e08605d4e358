//! The shardings extension: reports how a program's arguments and outputs are distributed over devices.

use std::ptr::null;

use plugin_macros::entry;

use crate::abi::extensions::link::extension;
use crate::abi::objects::executable::handles::Executable;
use crate::{DevicePlugin, Result};

extension! {
    /// The shardings extension. Plugins of this SDK always offer it.
    Shardings = PJRT_Shardings_Extension if true;
    PJRT_Shardings_PJRT_Executable_ParameterShardings: PJRT_Shardings_PJRT_Executable_ParameterShardings,
    PJRT_Shardings_PJRT_Executable_OutputShardings: PJRT_Shardings_PJRT_Executable_OutputShardings,
}

#[entry(extension)]
unsafe fn PJRT_Shardings_PJRT_Executable_ParameterShardings<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Shardings_PJRT_Executable_ParameterShardings_Args,
    executable: &Executable<P::Backend>,
) -> Result<()> {
    // Null pointers mean that the program has no shardings.
    (args.num_parameters, args.shardings, args.sharding_sizes) = match &executable.parameter_shardings {
        Some(texts) => (texts.len(), texts.pointers(), texts.sizes()),
        None => (0, null(), null()),
    };
    Ok(())
}

#[entry(extension)]
unsafe fn PJRT_Shardings_PJRT_Executable_OutputShardings<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Shardings_PJRT_Executable_OutputShardings_Args,
    executable: &Executable<P::Backend>,
) -> Result<()> {
    (args.num_outputs, args.shardings, args.sharding_sizes) = match &executable.output_shardings {
        Some(texts) => (texts.len(), texts.pointers(), texts.sizes()),
        None => (0, null(), null()),
    };
    Ok(())
}
