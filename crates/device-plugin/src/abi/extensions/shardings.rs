//! The shardings extension: reports how a program's arguments and outputs are distributed over devices.

use std::ptr::null;

use crate::abi::extensions::link::extension;
use crate::abi::table::entry::entries;

extension! {
    /// The shardings extension. Plugins of this SDK always offer it.
    Shardings = PJRT_Shardings_Extension if true;
    PJRT_Shardings_PJRT_Executable_ParameterShardings: PJRT_Shardings_PJRT_Executable_ParameterShardings,
    PJRT_Shardings_PJRT_Executable_OutputShardings: PJRT_Shardings_PJRT_Executable_OutputShardings,
}

entries! {
    in extension_slot;

    PJRT_Shardings_PJRT_Executable_ParameterShardings(args, executable) {
        // Null pointers mean that the program has no shardings.
        (args.num_parameters, args.shardings, args.sharding_sizes) = match &executable.parameter_shardings {
            Some(texts) => (texts.len(), texts.pointers(), texts.sizes()),
            None => (0, null(), null()),
        };
        Ok(())
    }

    PJRT_Shardings_PJRT_Executable_OutputShardings(args, executable) {
        (args.num_outputs, args.shardings, args.sharding_sizes) = match &executable.output_shardings {
            Some(texts) => (texts.len(), texts.pointers(), texts.sizes()),
            None => (0, null(), null()),
        };
        Ok(())
    }
}
