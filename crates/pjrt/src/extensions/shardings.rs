//! `PJRT_Shardings_Extension`: shardings of a program's parameters and outputs.

use std::ffi::c_char;

use pjrt_sys::extension_slot as function;
use pjrt_sys::*;

use super::functions::Functions;
use super::plugin_extension::{PluginExtension, sealed};
use crate::error::Error;
use crate::objects::executable::Executable;
use crate::objects::owners::Plugin;
use crate::table::read::{self, Malformed};

/// Functions for the shardings of compiled programs. A sharding is a serialized `xla.OpSharding` message.
///
/// ```
/// # use pjrt::{ClientOptions, CompileOptions, Program};
/// # use pjrt::extensions::Shardings;
/// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// # let program = Program::mlir(
/// #     "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
/// #        %y = stablehlo.add %x, %x : tensor<2xf32>
/// #        return %y : tensor<2xf32>
/// #      }",
/// # );
/// # let double = client.compile(&program, &CompileOptions::default())?;
/// let shardings = client.plugin().extension::<Shardings>().ok_or("the plugin reports no shardings")?;
/// // The program runs on one device, so it has no shardings.
/// assert_eq!(shardings.output_shardings(double.executable())?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "PJRT_Shardings_Extension")]
pub struct Shardings(Functions<PJRT_Shardings_Extension>);

impl sealed::Sealed for Shardings {}

impl PluginExtension for Shardings {
    fn of(plugin: &Plugin) -> Option<Self> {
        Functions::of(plugin).map(Self)
    }
}

impl Shardings {
    /// Returns the shardings of a program's parameters, or `None` if the plugin does not report shardings for the
    /// program.
    ///
    /// # Errors
    ///
    /// Returns an error if the executable belongs to another plugin.
    #[doc(alias = "PJRT_Shardings_PJRT_Executable_ParameterShardings")]
    pub fn parameter_shardings(&self, executable: &Executable) -> Result<Option<Vec<Vec<u8>>>, Error> {
        type Function = function::PJRT_Shardings_PJRT_Executable_ParameterShardings;
        self.0.check(executable.handle().api())?;
        let mut args = PJRT_Shardings_PJRT_Executable_ParameterShardings_Args::new();
        args.executable = executable.handle().as_ptr();
        // SAFETY: C2 (calls): the executable is live and belongs to this plugin.
        unsafe { self.0.call::<Function>(&mut args) }?;
        // SAFETY: C3 (objects): the arrays belong to the executable.
        let texts = unsafe { texts(args.shardings, args.sharding_sizes, args.num_parameters) };
        texts.map_err(|broken| Error::malformed(Function::NAME, broken))
    }

    /// Returns the shardings of a program's outputs, or `None` if the plugin does not report shardings for the program.
    ///
    /// # Errors
    ///
    /// Returns an error if the executable belongs to another plugin.
    #[doc(alias = "PJRT_Shardings_PJRT_Executable_OutputShardings")]
    pub fn output_shardings(&self, executable: &Executable) -> Result<Option<Vec<Vec<u8>>>, Error> {
        type Function = function::PJRT_Shardings_PJRT_Executable_OutputShardings;
        self.0.check(executable.handle().api())?;
        let mut args = PJRT_Shardings_PJRT_Executable_OutputShardings_Args::new();
        args.executable = executable.handle().as_ptr();
        // SAFETY: C2 (calls): the executable is live and belongs to this plugin.
        unsafe { self.0.call::<Function>(&mut args) }?;
        // SAFETY: C3 (objects): the arrays belong to the executable.
        let texts = unsafe { texts(args.shardings, args.sharding_sizes, args.num_outputs) };
        texts.map_err(|broken| Error::malformed(Function::NAME, broken))
    }
}

/// Copies an array of byte strings. Returns `None` if both pointers are null, which means that there are no shardings.
///
/// # Safety
///
/// The requirements of [`read::slice`] apply to both arrays, and to each string that an element of `texts` points to.
unsafe fn texts(
    texts: *const *const c_char,
    sizes: *const usize,
    count: usize,
) -> Result<Option<Vec<Vec<u8>>>, Malformed> {
    if texts.is_null() && sizes.is_null() {
        return Ok(None);
    }
    // SAFETY: this function's contract: the array has `count` elements.
    let texts = unsafe { read::slice(texts, count) }?;
    // SAFETY: this function's contract: the array has `count` elements.
    let sizes = unsafe { read::slice(sizes, count) }?;
    let one = |(text, size): (&*const c_char, &usize)| {
        // SAFETY: this function's contract: each string is readable for its length.
        unsafe { read::slice(text.cast::<u8>(), *size) }.map(<[u8]>::to_vec)
    };
    texts.iter().zip(sizes).map(one).collect::<Result<_, _>>().map(Some)
}
