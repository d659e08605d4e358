//! `PJRT_Executable_*`: a compiled program, independent of devices.

use std::borrow::Cow;
use std::ffi::c_char;
use std::fmt;

use pjrt_sys::*;
use pjrt_types::{CompileOptions, CompiledMemoryStats, ElementType, NamedValue, Program, Shape};

use crate::error::Error;
use crate::objects::owners::Client;
use crate::objects::owners::Parent;
use crate::objects::owners::Plugin;
use crate::objects::serialized::{SerializedExecutable, identity};
use crate::table::handle::{Handle, Owned};
use crate::table::query::serialized;
use crate::table::read::{self, Malformed};

/// A compiled program: its properties and its serialized form.
///
/// ```
/// # use pjrt::{ClientOptions, CompileOptions, Program};
/// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// # let program = Program::mlir(
/// #     "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
/// #        %y = stablehlo.add %x, %x : tensor<2xf32>
/// #        return %y : tensor<2xf32>
/// #      }",
/// # );
/// let loaded = client.compile(&program, &CompileOptions::default())?;
/// let executable = loaded.executable();
/// assert_eq!(executable.output_shapes()?[0].to_string(), "f32[2]");
/// let stored = executable.serialize()?;
/// client.deserialize_and_load(&stored)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Executable(Owned<PJRT_Executable, Parent>);

impl Executable {
    /// # Safety
    ///
    /// `raw` is null, or a live executable that the caller owns. The executable stays valid as long as `parent` lives.
    pub(crate) unsafe fn new(raw: *mut PJRT_Executable, parent: Parent, function: &'static str) -> Result<Self, Error> {
        let raw = read::object(raw).map_err(|broken| Error::malformed(function, broken))?;
        // SAFETY: this function's contract: the executable is live, and the caller owned it.
        Ok(Self(unsafe { Owned::new(raw, parent) }))
    }

    pub(crate) fn handle(&self) -> &Handle<PJRT_Executable, Parent> {
        &self.0
    }

    /// Returns the name of the program.
    #[doc(alias = "PJRT_Executable_Name")]
    pub fn name(&self) -> Result<String, Error> {
        self.0.query::<slot::PJRT_Executable_Name>().map(String::from)
    }

    /// Returns the number of replicas. The replicas run the program on different data.
    #[doc(alias = "PJRT_Executable_NumReplicas")]
    pub fn num_replicas(&self) -> Result<usize, Error> {
        self.0.query::<slot::PJRT_Executable_NumReplicas>()
    }

    /// Returns the number of partitions of each replica. Each partition runs on its own device.
    #[doc(alias = "PJRT_Executable_NumPartitions")]
    pub fn num_partitions(&self) -> Result<usize, Error> {
        self.0.query::<slot::PJRT_Executable_NumPartitions>()
    }

    /// Returns the program after optimization, in a format that the plugin chooses. XLA's plugins return an
    /// `HloModuleProtoWithConfig`.
    #[doc(alias = "PJRT_Executable_OptimizedProgram")]
    pub fn optimized_program(&self) -> Result<Program, Error> {
        let sized = self.size_optimized_program()?;
        self.copy_optimized_program(sized)
    }

    /// Returns the optimized program, or `None` if `wanted` rejects its format. If the plugin returns the format
    /// together with the program's size, a rejected program costs one call and no copy.
    pub(crate) fn optimized_program_if(&self, wanted: impl Fn(&str) -> bool) -> Result<Option<Program>, Error> {
        let sized = self.size_optimized_program()?;
        // SAFETY: C3 (objects): the format belongs to the plugin and lives as long as the executable.
        let format = unsafe { program_format(&sized) }?;
        // An empty format means that the plugin returns the format only together with the code.
        if !format.is_empty() && !wanted(&format) {
            return Ok(None);
        }
        let program = self.copy_optimized_program(sized)?;
        Ok(wanted(program.format()).then_some(program))
    }

    /// Queries the size and the format of the optimized program. The field `code` of the returned struct stays null,
    /// and the format is empty if the plugin returns it only together with the code.
    fn size_optimized_program(&self) -> Result<PJRT_Program, Error> {
        let mut program = PJRT_Program::new();
        let mut args = PJRT_Executable_OptimizedProgram_Args::new();
        args.executable = self.0.as_ptr();
        args.program = &raw mut program;
        // SAFETY: C2 (calls): the executable is live. The program has no memory yet, so the function returns the size.
        unsafe { self.0.api().call::<slot::PJRT_Executable_OptimizedProgram>(&mut args) }?;
        Ok(program)
    }

    fn copy_optimized_program(&self, mut program: PJRT_Program) -> Result<Program, Error> {
        type Function = slot::PJRT_Executable_OptimizedProgram;
        let mut code = vec![0u8; program.code_size];
        program.code = code.as_mut_ptr().cast::<c_char>();
        let mut args = PJRT_Executable_OptimizedProgram_Args::new();
        args.executable = self.0.as_ptr();
        args.program = &raw mut program;
        // SAFETY: C2 (calls): the executable is live. The program has memory of the size that the plugin reported.
        unsafe { self.0.api().call::<Function>(&mut args) }?;
        if program.code_size > code.len() {
            return Err(Error::malformed(
                Function::NAME,
                Malformed("a program whose size changed while it was copied"),
            ));
        }
        code.truncate(program.code_size);
        // SAFETY: C3 (objects): the format belongs to the plugin and lives as long as the executable.
        let format = unsafe { program_format(&program) }?.into_owned();
        Ok(Program::new(format, code))
    }

    /// Returns the number of outputs on each device.
    #[doc(alias = "PJRT_Executable_NumOutputs")]
    pub fn num_outputs(&self) -> Result<usize, Error> {
        self.0.query::<slot::PJRT_Executable_NumOutputs>()
    }

    /// Returns the size of the machine code in bytes.
    #[doc(alias = "PJRT_Executable_SizeOfGeneratedCodeInBytes")]
    pub fn size_of_generated_code(&self) -> Result<i64, Error> {
        self.0.query::<slot::PJRT_Executable_SizeOfGeneratedCodeInBytes>()
    }

    /// Returns a fingerprint that is the same for equal programs, options and compilers.
    #[doc(alias = "PJRT_Executable_Fingerprint")]
    pub fn fingerprint(&self) -> Result<Vec<u8>, Error> {
        let bytes = self.0.query::<slot::PJRT_Executable_Fingerprint>()?;
        Ok(bytes.iter().map(|byte| byte.to_ne_bytes()[0]).collect())
    }

    /// Returns the compiler's estimates of the cost of a run.
    #[doc(alias = "PJRT_Executable_GetCostAnalysis")]
    pub fn cost_analysis(&self) -> Result<Vec<NamedValue>, Error> {
        self.0.query::<slot::PJRT_Executable_GetCostAnalysis>()
    }

    /// Returns the amounts of memory that a run needs for its machine code, arguments, outputs and temporary data.
    #[doc(alias = "PJRT_Executable_GetCompiledMemoryStats")]
    pub fn compiled_memory_stats(&self) -> Result<CompiledMemoryStats, Error> {
        let args = self.0.query::<slot::PJRT_Executable_GetCompiledMemoryStats>()?;
        let mut stats = CompiledMemoryStats::default();
        stats.generated_code_size = args.generated_code_size_in_bytes;
        stats.argument_size = args.argument_size_in_bytes;
        stats.output_size = args.output_size_in_bytes;
        stats.alias_size = args.alias_size_in_bytes;
        stats.temp_size = args.temp_size_in_bytes;
        stats.host_generated_code_size = args.host_generated_code_size_in_bytes;
        stats.host_argument_size = args.host_argument_size_in_bytes;
        stats.host_output_size = args.host_output_size_in_bytes;
        stats.host_alias_size = args.host_alias_size_in_bytes;
        stats.host_temp_size = args.host_temp_size_in_bytes;
        stats.peak_memory = args.peak_memory_in_bytes;
        stats.total_size = args.total_size_in_bytes;
        stats.total_allocation_size = args.total_allocation_bytes;
        stats.indefinite_allocation_size = args.indefinite_allocations;
        stats.peak_unpadded_heap = args.peak_unpadded_heap_bytes;
        Ok(stats)
    }

    /// Returns the shapes of the outputs on each device.
    ///
    /// # Errors
    ///
    /// Returns an error if this crate does not know an element type of the outputs.
    #[doc(alias = "PJRT_Executable_OutputElementTypes")]
    #[doc(alias = "PJRT_Executable_OutputDimensions")]
    pub fn output_shapes(&self) -> Result<Vec<Shape>, Error> {
        type Function = slot::PJRT_Executable_OutputDimensions;
        let malformed = |broken| Error::malformed(Function::NAME, broken);
        let types = self.0.query::<slot::PJRT_Executable_OutputElementTypes>()?;
        let args = self.0.query::<Function>()?;
        if args.num_outputs != types.len() {
            return Err(malformed(Malformed("different numbers of outputs for types and dimensions")));
        }
        // SAFETY: C3 (objects): the array has an element for each output and lives as long as the executable.
        let ranks = unsafe { read::slice(args.dim_sizes, types.len()) }.map_err(malformed)?;
        let total = ranks.iter().try_fold(0usize, |sum, rank| sum.checked_add(*rank));
        let total = total.ok_or_else(|| malformed(Malformed("an implausible number of dimensions")))?;
        // SAFETY: C3 (objects): the array has the dimensions of all outputs and lives as long as the executable.
        let mut rest = unsafe { read::slice(args.dims, total) }.map_err(malformed)?;
        let mut shapes = Vec::with_capacity(types.len());
        for (ty, rank) in types.iter().zip(ranks) {
            let (dimensions, others) = rest.split_at(*rank);
            rest = others;
            let element_type =
                ElementType::from_raw(ty.0).ok_or_else(|| malformed(Malformed("an unknown element type")))?;
            shapes.push(Shape::new(element_type, dimensions));
        }
        Ok(shapes)
    }

    /// Returns the memory kinds of the parameters.
    ///
    /// # Errors
    ///
    /// Returns an error of kind [`Unsupported`](crate::ErrorKind::Unsupported) if the plugin is older than API 0.102.
    #[doc(alias = "PJRT_Executable_ParameterMemoryKinds")]
    pub fn parameter_memory_kinds(&self) -> Result<Vec<String>, Error> {
        type Function = slot::PJRT_Executable_ParameterMemoryKinds;
        let args = self.0.query::<Function>()?;
        // SAFETY: C3 (objects): the call returned the arrays, with an element for each parameter.
        unsafe { texts(Function::NAME, args.memory_kinds, args.memory_kind_sizes, args.num_parameters) }
    }

    /// Returns the memory kinds of the outputs.
    #[doc(alias = "PJRT_Executable_OutputMemoryKinds")]
    pub fn output_memory_kinds(&self) -> Result<Vec<String>, Error> {
        type Function = slot::PJRT_Executable_OutputMemoryKinds;
        let args = self.0.query::<Function>()?;
        // SAFETY: C3 (objects): the call returned the arrays, with an element for each output.
        unsafe { texts(Function::NAME, args.memory_kinds, args.memory_kind_sizes, args.num_outputs) }
    }

    /// Serializes the executable. [`Client::deserialize_and_load`](crate::Client::deserialize_and_load) can load it
    /// with the same build of the plugin, in this process or another process.
    #[doc(alias = "PJRT_Executable_Serialize")]
    pub fn serialize(&self) -> Result<SerializedExecutable, Error> {
        type Function = slot::PJRT_Executable_Serialize;
        let args = self.0.query::<Function>()?;
        let (bytes, len) = (args.serialized_bytes, args.serialized_bytes_size);
        let (owner, deleter) = (args.serialized_executable, args.serialized_executable_deleter);
        // SAFETY: the call succeeded and returned the bytes, their length, their owner and the owner's deleter.
        let payload = unsafe { serialized(Function::NAME, bytes, len, owner, deleter) }?;
        let identity = match self.0.owner() {
            Parent::Client(client) => Client::from_inner(client.clone()).identity(),
            // Omit the platform's name and version, because a topology may have another platform version than the
            // client that loads the executable.
            Parent::Topology(topology) => identity(&Plugin::from_inner(topology.owner().clone()), None, None),
        };
        SerializedExecutable::new(identity, &payload)
    }

    /// Returns the options that the program was compiled with.
    ///
    /// # Errors
    ///
    /// Returns an error if the plugin's bytes are not a valid `CompileOptionsProto`.
    #[doc(alias = "PJRT_Executable_GetCompileOptions")]
    pub fn compile_options(&self) -> Result<CompileOptions, Error> {
        type Function = slot::PJRT_Executable_GetCompileOptions;
        let args = self.0.query::<Function>()?;
        let (bytes, len) = (args.serialized_bytes, args.serialized_bytes_size);
        let (owner, deleter) = (args.serialized_compile_options, args.serialized_compile_options_deleter);
        // SAFETY: the call succeeded and returned the bytes, their length, their owner and the owner's deleter.
        let bytes = unsafe { serialized(Function::NAME, bytes, len, owner, deleter) }?;
        CompileOptions::decode(&bytes).map_err(|error| Error::malformed_text(Function::NAME, error.to_string()))
    }
}

/// # Safety
///
/// `data` is null or an array of `len` strings. `lens` is null or an array of the lengths of these strings.
unsafe fn texts(
    function: &'static str,
    data: *const *const c_char,
    lens: *const usize,
    len: usize,
) -> Result<Vec<String>, Error> {
    let malformed = |broken| Error::malformed(function, broken);
    // SAFETY: this function's contract: the array has `len` elements.
    let data = unsafe { read::slice(data, len) }.map_err(malformed)?;
    // SAFETY: this function's contract: the array has `len` elements.
    let lens = unsafe { read::slice(lens, len) }.map_err(malformed)?;
    let one = |(data, len): (&*const c_char, &usize)| {
        // SAFETY: this function's contract: each string is readable for its length.
        unsafe { read::text(*data, *len) }.map(String::from).map_err(malformed)
    };
    data.iter().zip(lens).map(one).collect()
}

impl fmt::Debug for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Executable").field(&self.0).finish()
    }
}

/// Reads the format of an optimized program.
///
/// # Safety
///
/// The plugin filled `program`. The executable of `program` lives as long as the returned string is used (C3).
unsafe fn program_format(program: &PJRT_Program) -> Result<Cow<'_, str>, Error> {
    let name = slot::PJRT_Executable_OptimizedProgram::NAME;
    // SAFETY: this function's contract: the plugin filled `program`.
    unsafe { read::text(program.format, program.format_size) }.map_err(|broken| Error::malformed(name, broken))
}
