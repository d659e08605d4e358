//! `PJRT_PhaseCompile_Extension`: runs the phases of a compiler one by one.

use std::ffi::c_char;

use pjrt_sys::extension_slot as function;
use pjrt_sys::*;
use pjrt_types::CompileOptions;

use super::functions::Functions;
use super::plugin_extension::{PluginExtension, sealed};
use crate::error::Error;
use crate::objects::owners::Plugin;
use crate::objects::topology::TopologyDescription;
use crate::options::encode;
use crate::table::api::Api;
use crate::table::handle::{Destroy, Handle, Owned, Owner};
use crate::table::read;

/// Functions that run a compiler's phases one by one, so that intermediate programs can be stored or inspected.
#[derive(Clone, Debug)]
#[doc(alias = "PJRT_PhaseCompile_Extension")]
pub struct PhaseCompile(Functions<PJRT_PhaseCompile_Extension>);

impl sealed::Sealed for PhaseCompile {}

impl PluginExtension for PhaseCompile {
    fn of(plugin: &Plugin) -> Option<Self> {
        Functions::of(plugin).map(Self)
    }
}

impl Owner for PhaseCompile {
    fn api(&self) -> &Api {
        self.0.plugin.api()
    }
}

impl PhaseCompile {
    /// Returns the plugin's compiler.
    ///
    /// # Errors
    ///
    /// Returns an error if the plugin has no compiler, or if its extension lacks the function that frees the compiler's
    /// results. Many plugins have the extension but no compiler.
    #[doc(alias = "PJRT_PhaseCompile_Get_Compiler")]
    pub fn compiler(&self) -> Result<PhaseCompiler, Error> {
        type Function = function::PJRT_PhaseCompile_Get_Compiler;
        if self.0.table.0.phase_compile_c_buffers_destroy.is_none() {
            let function = function::PJRT_PhaseCompile_C_Buffers_Destroy::NAME;
            return Err(Error::missing_in(function, PJRT_PhaseCompile_Extension::NAME, self.0.plugin.api_version()));
        }
        let mut args = PJRT_PhaseCompile_Get_Compiler_Args::new();
        // SAFETY: C2 (calls): the function takes no input.
        unsafe { self.0.call::<Function>(&mut args) }?;
        let raw = read::object(args.phase_compiler.cast_mut());
        let raw = raw.map_err(|broken| Error::malformed(Function::NAME, broken))?;
        // SAFETY: C3 (objects): the plugin created the compiler for this caller.
        Ok(PhaseCompiler(unsafe { Owned::new(raw, self.clone()) }))
    }

    /// Copies byte strings that the plugin allocated for one call, and frees the originals.
    ///
    /// # Safety
    ///
    /// A successful call of `function` returned `bytes`, `sizes` and `count`.
    unsafe fn take(
        &self,
        function: &'static str,
        bytes: *mut *const c_char,
        sizes: *const usize,
        count: usize,
    ) -> Result<Vec<Vec<u8>>, Error> {
        // SAFETY: C3 (objects): the arrays and the strings that they point to live until they are destroyed below.
        let copies = unsafe { copies(bytes, sizes, count) }.map_err(|broken| Error::malformed(function, broken));
        if let Some(destroy) = self.0.table.0.phase_compile_c_buffers_destroy
            && !(bytes.is_null() && sizes.is_null())
        {
            let mut args = PJRT_PhaseCompile_C_Buffers_Destroy_Args::new();
            (args.char_buffers, args.char_buffer_sizes, args.num_char_buffers) = (bytes, sizes, count);
            // SAFETY: C2 (calls), C3 (objects): one call returned these arrays, and they are destroyed once.
            unsafe { destroy(&mut args) };
        }
        copies
    }
}

/// # Safety
///
/// The requirements of [`read::slice`] apply to both arrays, and to each string that an element of `bytes` points to.
unsafe fn copies(
    bytes: *mut *const c_char,
    sizes: *const usize,
    count: usize,
) -> Result<Vec<Vec<u8>>, read::Malformed> {
    // SAFETY: this function's contract: the array has `count` elements.
    let bytes = unsafe { read::slice(bytes.cast_const(), count) }?;
    // SAFETY: this function's contract: the array has `count` elements.
    let sizes = unsafe { read::slice(sizes, count) }?;
    let one = |(text, size): (&*const c_char, &usize)| {
        // SAFETY: this function's contract: each string is readable for its length.
        unsafe { read::slice(text.cast::<u8>(), *size) }.map(<[u8]>::to_vec)
    };
    bytes.iter().zip(sizes).map(one).collect()
}

// SAFETY: the body is one call of the object's destroy function.
unsafe impl Destroy<PhaseCompile> for PJRT_PhaseCompiler {
    unsafe fn destroy(owner: &PhaseCompile, raw: *mut Self) -> Result<(), Error> {
        if let Some(destroy) = owner.0.table.0.phase_compile_destroy_compiler {
            let mut args = PJRT_PhaseCompile_Destroy_Compiler_Args::new();
            args.phase_compiler = raw;
            // SAFETY: C2 (calls): the only input is a live object that is not used afterwards, by this function's
            // contract.
            unsafe { destroy(&mut args) };
        }
        Ok(())
    }
}

/// A compiler whose phases run separately.
#[derive(Debug)]
#[doc(alias = "PJRT_PhaseCompiler")]
pub struct PhaseCompiler(Owned<PJRT_PhaseCompiler, PhaseCompile>);

impl PhaseCompiler {
    pub(crate) fn handle(&self) -> &Handle<PJRT_PhaseCompiler, PhaseCompile> {
        &self.0
    }

    /// Returns the names of the phases, in the order of execution.
    #[doc(alias = "PJRT_PhaseCompile_Get_PhaseNames")]
    pub fn phase_names(&self) -> Result<Vec<String>, Error> {
        type Function = function::PJRT_PhaseCompile_Get_PhaseNames;
        let mut args = PJRT_PhaseCompile_Get_PhaseNames_Args::new();
        args.phase_compiler = self.0.as_ptr();
        let functions = self.0.owner();
        // SAFETY: C2 (calls): the compiler is live.
        unsafe { functions.0.call::<Function>(&mut args) }?;
        // SAFETY: the call succeeded and returned the strings, their sizes and their count.
        let names =
            unsafe { functions.take(Function::NAME, args.phase_names, args.phase_names_sizes, args.num_phase_names) }?;
        Ok(names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect())
    }

    /// Runs phases on programs, and returns the resulting programs. Each program is a serialized
    /// `xla.PjRtPartialProgramProto` message.
    ///
    /// # Errors
    ///
    /// Returns an error if the topology belongs to another plugin, or if the options are invalid as in
    /// [`Client::compile`](crate::Client::compile). The plugin returns an error if it does not know a phase or if the
    /// phases are in the wrong order.
    #[doc(alias = "PJRT_PhaseCompile_Run_Phase")]
    pub fn run_phases(
        &self,
        phases: &[&str],
        programs: &[&[u8]],
        options: &CompileOptions,
        topology: &TopologyDescription,
    ) -> Result<Vec<Vec<u8>>, Error> {
        type Function = function::PJRT_PhaseCompile_Run_Phase;
        let functions = self.0.owner();
        functions.0.check(topology.handle().api())?;
        let options = encode(options)?;
        // Each name ends in a null byte, which its size does not include.
        let names: Vec<Vec<u8>> = phases.iter().map(|name| [name.as_bytes(), &[0]].concat()).collect();
        let mut name_pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr().cast()).collect();
        let name_sizes: Vec<usize> = phases.iter().map(|name| name.len()).collect();
        let mut program_pointers: Vec<*const c_char> = programs.iter().map(|program| program.as_ptr().cast()).collect();
        let program_sizes: Vec<usize> = programs.iter().map(|program| program.len()).collect();
        let mut args = PJRT_PhaseCompile_Run_Phase_Args::new();
        args.phase_compiler = self.0.as_ptr();
        args.input_programs = program_pointers.as_mut_ptr();
        args.input_programs_sizes = program_sizes.as_ptr();
        args.num_input_programs = program_sizes.len();
        args.phases_to_run = name_pointers.as_mut_ptr();
        args.phases_to_run_sizes = name_sizes.as_ptr();
        args.num_phases_to_run = name_sizes.len();
        args.compile_options = options.as_ptr().cast();
        args.compile_options_size = options.len();
        args.topology = topology.handle().as_ptr();
        // SAFETY: C2 (calls): the compiler and topology are live and belong to this plugin. The programs, names and
        // options live through the call.
        unsafe { functions.0.call::<Function>(&mut args) }?;
        let (programs, sizes, count) = (args.output_programs, args.output_programs_sizes, args.num_output_programs);
        // SAFETY: the call succeeded and returned the strings, their sizes and their count.
        unsafe { functions.take(Function::NAME, programs, sizes, count) }
    }
}
