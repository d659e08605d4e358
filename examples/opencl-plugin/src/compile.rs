//! Compilation: passes over the program, its plan, and the OpenCL program with its kernels.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Mutex;

use device_plugin::{CompileOptions, Compiled, Error, Program, Result, stablehlo};
use host_fallback::HostProgram;
use opencl3::kernel::Kernel;
use opencl3::memory::CL_MEM_READ_ONLY;
use opencl3::program::Program as ClProgram;
use stablehlo::ir::{Module, OpKind};
use stablehlo_passes::plan::Plan;
use stablehlo_passes::{Pipeline, eliminate_dead_code, expand_scans, outline_unsupported, remove_shardings};

use crate::driver::{Memory, OpenCl, cl_error};
use crate::kernels::{Emitter, Source, classify, supports};
use crate::scalar::PRELUDE;
use crate::dot;

/// What a step of the plan runs.
pub(crate) enum Work {
    /// A kernel, with the index in [`Executable::kernels`] and its ranges.
    Kernel(usize, [usize; 3], [usize; 3]),
    /// A function on the host, with the index in [`Executable::functions`].
    Host(usize),
}

/// A compiled program.
pub struct Executable {
    pub(crate) plan: Plan<Work>,
    /// The kernels. Arguments belong to the kernel object, so a launch locks it.
    pub(crate) kernels: Vec<Mutex<Kernel>>,
    pub(crate) names: Vec<String>,
    pub(crate) functions: Vec<HostProgram>,
    pub(crate) constants: Option<Memory>,
    /// Whether launches need the host.
    pub(crate) needs_host: bool,
}

fn invalid(error: ::stablehlo::Error) -> Error {
    Error::invalid_argument(error.to_string())
}

pub(crate) fn compile(driver: &OpenCl, program: &Program, options: &CompileOptions) -> Result<Compiled<Executable>> {
    if options.num_replicas > 1 || options.num_partitions > 1 {
        return Err(Error::unimplemented("the opencl plugin runs programs for one device only"));
    }
    let module = stablehlo::parse(program, stablehlo::VerifyLevel::FULL)?;
    let info = stablehlo::info(&module)?;
    let mut pipeline = Pipeline::new(module).map_err(invalid)?;
    let mut pass = |name: &str, pass: &dyn Fn(&Module) -> ::stablehlo::Result<Option<Module>>| {
        pipeline.pass(name, pass).map_err(invalid)
    };
    pass("inline", &|module| ::stablehlo::inline(module, &[]).map(Some))?;
    pass("remove_shardings", &|module| remove_shardings(module))?;
    pass("expand_scans", &|module| expand_scans(module))?;
    pass("eliminate_dead_code", &|module| Ok(eliminate_dead_code(module)))?;
    let doubles = driver.has_doubles();
    pass("outline_unsupported", &|module| {
        let stays = |op: &_, func: &_| {
            supports(op, func, doubles) || host_fallback::supports(module, func, op).is_err()
        };
        let outlined = outline_unsupported(module, stays)?;
        if let Some(text) = outlined.as_ref().and_then(|outlined| host_fallback::warning(&outlined.functions)) {
            tracing::warn!("{text}");
        }
        Ok(outlined.map(|outlined| outlined.module))
    })?;
    pass("canonical_dots", &|module| dot::canonicalize(module))?;
    let module = pipeline.module().clone();
    let main = stablehlo::entry(&module)?;
    let (mut sources, mut functions) = (Sources::default(), Vec::new());
    let plan = Plan::new(main, 256, |op| classify(op, main), |kernel| {
        let source = match &kernel.op.kind {
            OpKind::Call { callee } => {
                let function = HostProgram::compile(&module, callee);
                functions.push(function.map_err(|error| Error::unimplemented(error.to_string()))?);
                return Ok(Work::Host(functions.len() - 1));
            }
            OpKind::DotGeneral { .. } => dot::emit(&module, kernel, driver.is_cpu())?,
            _ => Emitter::new(&module, kernel).emit()?,
        };
        let (global, local) = (source.global, source.local);
        Ok::<_, PlanError>(Work::Kernel(sources.add(source, &kernel.op.kind.name()), global, local))
    });
    let plan = plan.map_err(|PlanError(error)| error)?;
    let Sources { text, names, .. } = sources;
    pipeline.write("kernels", "cl", &text).map_err(invalid)?;
    let kernels = build(driver, &text, names.len())?;
    let mut constants = None;
    if let Some((offset, last)) = plan.constants.last() {
        let mut bytes = vec![0; offset + last.ty.byte_size().unwrap_or(0)];
        for (offset, literal) in &plan.constants {
            bytes[*offset..][..literal.data.len()].copy_from_slice(&literal.data);
        }
        constants = Some(driver.buffer(CL_MEM_READ_ONLY, bytes.len(), Some(&bytes))?);
    }
    let needs_host = plan.has_control_flow() || !functions.is_empty();
    Ok(Compiled::new(Executable { plan, kernels, names, functions, constants, needs_host }, info))
}

/// An error of a plan or of a kernel.
struct PlanError(Error);

impl From<::stablehlo::Error> for PlanError {
    fn from(error: ::stablehlo::Error) -> Self {
        Self(Error::unimplemented(error.to_string()))
    }
}

impl From<Error> for PlanError {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

/// The text of all kernels, without duplicates.
#[derive(Default)]
struct Sources {
    text: String,
    /// For each kernel, its op.
    names: Vec<String>,
    known: HashMap<String, usize>,
}

impl Sources {
    fn add(&mut self, source: Source, op: &str) -> usize {
        let Self { text, names, known } = self;
        *known.entry(source.text).or_insert_with_key(|source| {
            if names.is_empty() {
                text.push_str(PRELUDE);
            }
            let _ = writeln!(text, "// {op}\n{}", source.replacen("KERNEL", &format!("k{}", names.len()), 1));
            names.push(op.to_owned());
            names.len() - 1
        })
    }
}

fn build(driver: &OpenCl, text: &str, count: usize) -> Result<Vec<Mutex<Kernel>>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let program = ClProgram::create_and_build_from_source(driver.context(), text, driver.build_options());
    let program = program.map_err(|log| Error::internal(format!("the OpenCL compiler rejects the kernels: {log}")))?;
    let kernel = |at: usize| Kernel::create(&program, &format!("k{at}")).map(Mutex::new);
    (0..count).map(kernel).collect::<Result<_, _>>().map_err(|error| cl_error("clCreateKernel", error.0))
}
