//! Compilation: passes over the program, its plan, and the OpenCL program with its kernels.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use ::stablehlo::ErrorKind;
use device_plugin::{CompileOptions, Compiled, Error, Program, Result, stablehlo};
use host_fallback::HostProgram;
use host_fallback::spmd::{self, OpSharding};
use opencl3::kernel::Kernel;
use opencl3::program::Program as ClProgram;
use stablehlo::ir::{Module, Op, OpKind};
use stablehlo_passes::plan::{self, Plan};
use stablehlo_passes::{
    Pipeline, canonicalize_dots, eliminate_dead_code, expand_scans, outline_unsupported, remove_shardings,
    replica_groups,
};

use crate::dot;
use crate::driver::{Memory, OpenCl, failed};
use crate::kernels::{Source, classify, combine, emit, supports, tensor};
use crate::scalar::PRELUDE;

/// Alignment of values in scratch memory, for vectors of any type.
const ALIGNMENT: usize = 256;

/// What a step of the plan runs.
pub(crate) enum Work {
    /// A kernel, with the index in [`Executable::kernels`] and its ranges.
    Kernel(usize, [usize; 3], [usize; 3]),
    /// A function on the host, with the index in [`Executable::functions`].
    Host(usize),
    /// An all-reduce: its number in the program, its groups, its kernel and the number of its elements.
    AllReduce(u64, Vec<Vec<usize>>, usize, usize),
    /// The id of the replica or of the partition: the id of the device, divided by a number, modulo another one.
    Id(usize, usize),
}

/// A compiled program.
pub struct Executable {
    pub(crate) plan: Plan<Work>,
    /// The kernels. Arguments belong to the kernel object, so a launch locks it.
    pub(crate) kernels: Vec<Mutex<Kernel>>,
    pub(crate) names: Vec<String>,
    pub(crate) functions: Vec<HostProgram>,
    pub(crate) constants: Option<Arc<Memory>>,
    /// Whether launches need the host.
    pub(crate) needs_host: bool,
}

fn failed_pass(error: ::stablehlo::Error) -> Error {
    match error.kind() {
        ErrorKind::Unsupported | ErrorKind::Limit => Error::unimplemented(error.to_string()),
        _ => Error::invalid_argument(error.to_string()),
    }
}

pub(crate) fn compile(driver: &OpenCl, program: &Program, options: &CompileOptions) -> Result<Compiled<Executable>> {
    let count = |count: i64| usize::try_from(count).unwrap_or(1).max(1);
    let (replicas, partitions) = (count(options.num_replicas), count(options.num_partitions));
    let mut module = stablehlo::parse(program, stablehlo::VerifyLevel::FULL)?;
    let mut shardings = None;
    if partitions > 1 && options.use_spmd_partitioning {
        let split = spmd::partition(&module, replicas, partitions);
        let split = split.map_err(|error| Error::unimplemented(error.to_string()))?;
        shardings = Some([split.parameter_shardings, split.output_shardings]);
        module = split.module;
    }
    let mut info = stablehlo::info(&module)?;
    if let Some(shardings) = shardings {
        let encoded = shardings.map(|all| Some(all.iter().map(OpSharding::to_proto).collect()));
        [info.parameter_shardings, info.output_shardings] = encoded;
    }
    let mut pipeline = Pipeline::new(module).map_err(failed_pass)?;
    let mut pass = |name: &str, pass: &dyn Fn(&Module) -> ::stablehlo::Result<Option<Module>>| {
        pipeline.pass(name, pass).map_err(failed_pass)
    };
    pass("inline", &|module| ::stablehlo::inline(module, &[]).map(Some))?;
    pass("remove_shardings", &|module| remove_shardings(module))?;
    pass("expand_scans", &|module| expand_scans(module))?;
    pass("eliminate_dead_code", &|module| Ok(eliminate_dead_code(module)))?;
    let doubles = driver.has_doubles();
    pass("outline_unsupported", &|module| {
        let stays =
            |op: &_, func: &_| supports(op, func, doubles) || host_fallback::supports(module, func, op).is_err();
        let outlined = outline_unsupported(module, stays)?;
        if let Some(text) = outlined.as_ref().and_then(|outlined| host_fallback::warning(&outlined.functions)) {
            tracing::warn!("{text}");
        }
        Ok(outlined.map(|outlined| outlined.module))
    })?;
    pass("canonicalize_dots", &|module| canonicalize_dots(module))?;
    let module = pipeline.module().clone();
    let main = stablehlo::entry(&module)?;
    let is_wrong = |op: &&Op| !matches!(op.kind, OpKind::Call { .. }) && !supports(op, main, doubles);
    if let Some(op) = main.body.ops.iter().find(is_wrong) {
        return Err(stablehlo::unsupported(&module, op));
    }
    let (mut sources, mut functions, mut collectives) = (Sources::default(), Vec::new(), 0);
    let compile = |kernel: &plan::Kernel<'_>| {
        let source = match &kernel.op.kind {
            OpKind::Call { callee } => {
                let function = HostProgram::compile(&module, callee);
                functions.push(function.map_err(|error| ::stablehlo::Error::new(ErrorKind::Unsupported, error))?);
                return Ok(Work::Host(functions.len() - 1));
            }
            OpKind::PartitionId => return Ok(Work::Id(1, partitions)),
            OpKind::ReplicaId => return Ok(Work::Id(partitions, usize::MAX)),
            OpKind::AllReduce { .. } => {
                let ty = tensor(main, kernel.writes[0]);
                let source = ty.and_then(|ty| Some((combine(kernel.op, ty.element)?, ty.num_elements()?)));
                let (source, elements) =
                    source.ok_or_else(|| ::stablehlo::Error::new(ErrorKind::Unsupported, "all_reduce"))?;
                let groups = replica_groups(&module, &kernel.op.kind, replicas, partitions)?;
                collectives += 1;
                return Ok(Work::AllReduce(collectives, groups, sources.add(source, "all_reduce"), elements));
            }
            OpKind::DotGeneral { .. } => dot::emit(kernel, driver.is_cpu())?,
            _ => emit(kernel)?,
        };
        let (global, local) = (source.global, source.local);
        Ok(Work::Kernel(sources.add(source, &kernel.op.kind.name()), global, local))
    };
    let plan = Plan::new(main, ALIGNMENT, |op| classify(op, main), compile).map_err(failed_pass)?;
    let Sources { text, names, .. } = sources;
    pipeline.write("kernels", "cl", &text).map_err(failed_pass)?;
    let kernels = build(driver, &text, names.len())?;
    let constants = Some(&plan.constants).filter(|bytes| !bytes.is_empty());
    let constants = constants.map(|bytes| OpenCl::buffer(bytes.len(), Some(bytes)).map(Arc::new));
    let constants = constants.transpose()?;
    let needs_host = plan.has_control_flow() || !functions.is_empty() || replicas > 1 || partitions > 1;
    Ok(Compiled::new(Executable { plan, kernels, names, functions, constants, needs_host }, info))
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
    let program = ClProgram::create_and_build_from_source(&driver.platform.context, text, &driver.build_options);
    let program = program.map_err(|log| Error::internal(format!("the OpenCL compiler rejects the kernels: {log}")))?;
    let kernel = |at: usize| Kernel::create(&program, &format!("k{at}")).map(Mutex::new);
    (0..count).map(kernel).collect::<Result<_, _>>().map_err(failed("clCreateKernel"))
}
