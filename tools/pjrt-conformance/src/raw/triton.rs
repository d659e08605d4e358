//! The extension that compiles Triton kernels.

use std::ffi::c_char;

use pjrt::Plugin;
use pjrt_sys::{AbiStruct, PJRT_Triton_Compile_Args, extension_slot};

use super::failure::{call_extension, called};
use crate::stop::Stop;

/// Compiles a module in Triton's MLIR dialect. Returns the size of the compiled kernel or, if the plugin wrote the
/// kernel to a file, the size of the file's path. The output is leaked, because the extension does not define who frees
/// it.
pub(crate) fn compile_triton(plugin: &Plugin, module: &str, architecture: &str) -> Result<usize, Stop> {
    let mut args = PJRT_Triton_Compile_Args::new();
    args.module = module.as_ptr().cast::<c_char>();
    args.module_size = module.len();
    args.arch_name = architecture.as_ptr().cast::<c_char>();
    args.arch_name_size = architecture.len();
    (args.num_warps, args.num_ctas, args.num_stages) = (1, 1, 1);
    // SAFETY: C2 (calls): the strings are readable during the call.
    let result = unsafe { call_extension::<extension_slot::PJRT_Triton_Compile>(plugin, &raw mut args) };
    called(result, "PJRT_Triton_Compile")??;
    Ok(if args.out_asm.is_null() { args.out_path_size } else { args.out_asm_size })
}
