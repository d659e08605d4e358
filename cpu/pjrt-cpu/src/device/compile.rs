//! Compiles a framework's program for the CPU device, and answers queries about the compiled program.

use std::sync::Arc;

use device_plugin::{
    Backend, CompileOptions, Compiled, CompiledMemoryStats, ElementType, Error, ExecutableInfo, NamedValue, Program,
    Result, Shape,
};
use stablehlo::ir::{Attribute, Attributes, Func, Module, OpKind, Region, Type};
use stablehlo_cpu::spmd::OpSharding;
use stablehlo_cpu::{self as engine, CompileErrorKind, CompileSettings, Cost, MemoryEstimate, Parameter, Pool, cost};

use super::config::readable;
use super::custom_calls;
use super::dump::dump;
use super::job::{Job, Span};
use super::layouts::Layouts;
use super::memory::KINDS;
use super::recent_runs::RecentRuns;

/// Maximum work of a program that finishes before another thread could start to run it, in scalar operations plus bytes
/// accessed.
const QUICK: f64 = 262_144.0;
/// Cost of a transcendental function, in scalar operations.
const TRANSCENDENTAL: f64 = 16.0;

/// Maximum number of bytes that one process can allocate.
const MOST_BYTES: usize = isize::MAX.unsigned_abs();

/// A compiled program.
#[derive(Debug)]
pub struct CpuExecutable {
    program: engine::Program,
    cost: Cost,
    memory: MemoryEstimate,
    is_quick: bool,
    has_first_part: bool,
    calls_handlers: bool,
    has_side_effects: bool,
    span: Option<Arc<Span>>,
    recent_runs: RecentRuns,
}

impl CpuExecutable {
    /// Returns the engine's program.
    #[inline]
    pub(crate) fn program(&self) -> &engine::Program {
        &self.program
    }

    /// Returns whether a run is faster than handing the run to another thread.
    #[inline]
    pub(crate) fn is_quick(&self) -> bool {
        self.is_quick
    }

    /// Returns whether the caller's thread runs the first part of the program. The program must have loops, and must
    /// contain neither handlers nor side effects. The steps outside of the loops must be faster than handing the run to
    /// another thread. Another thread continues the run only if the loops take longer.
    #[inline]
    pub(crate) fn has_first_part(&self) -> bool {
        self.has_first_part
    }

    /// Returns the record of the latest runs. Runs of programs that [are quick](Self::is_quick) are not recorded.
    #[inline]
    pub(crate) fn recent_runs(&self) -> &RecentRuns {
        &self.recent_runs
    }

    /// Returns whether the latest runs were short and called no handlers, so that the next run on one device is
    /// expected to be short, too. Always returns false for programs with side effects or with devices of several
    /// processes.
    #[inline]
    pub(crate) fn is_expected_quick(&self) -> bool {
        self.recent_runs.are_short() && !self.has_side_effects && self.span.is_none()
    }

    /// Returns whether a run may call a handler of a custom call. A handler may depend on the thread that it runs on.
    #[inline]
    pub(crate) fn calls_handlers(&self) -> bool {
        self.calls_handlers
    }

    /// Returns whether a run has effects other than its outputs.
    ///
    /// If its inputs are ready, such a run ends before the call that starts it returns. XLA's CPU client does the same
    /// for programs with host callbacks, and frameworks rely on the order of the callbacks.
    pub(crate) fn has_side_effects(&self) -> bool {
        self.has_side_effects
    }

    /// Returns the devices of the program, if they belong to several processes.
    pub(crate) fn span(&self) -> Option<&Arc<Span>> {
        self.span.as_ref()
    }

    /// Returns the costs under the names that XLA uses.
    pub(crate) fn costs(&self) -> Vec<NamedValue> {
        #[expect(clippy::cast_possible_truncation, reason = "PJRT's floats are narrow")]
        let float = |value: f64| value as f32;
        vec![
            NamedValue::new("flops", float(self.cost.flops)),
            NamedValue::new("transcendentals", float(self.cost.transcendentals)),
            NamedValue::new("bytes accessed", float(bytes(self.memory.accessed))),
        ]
    }

    /// Returns the sizes of the memory that one execution uses.
    pub(crate) fn memory_stats(&self, info: &ExecutableInfo) -> CompiledMemoryStats {
        let size = |shapes: &mut dyn Iterator<Item = &Shape>| {
            let total = shapes.filter_map(Shape::host_size).fold(0usize, usize::saturating_add);
            i64::try_from(total).unwrap_or(i64::MAX)
        };
        let aliased = self.program.parameters().iter().filter_map(|parameter| parameter.alias_output);
        let alias_size = size(&mut aliased.filter_map(|output| info.outputs.get(output)));
        let (argument_size, output_size) = (size(&mut info.parameters.iter()), size(&mut info.outputs.iter()));
        let temp_size = i64::try_from(self.memory.temporary).unwrap_or(i64::MAX);
        let peak_memory = argument_size.saturating_add(output_size - alias_size).saturating_add(temp_size);
        let mut stats = CompiledMemoryStats::default();
        stats.generated_code_size = info.size_of_generated_code.max(0);
        stats.argument_size = argument_size;
        stats.output_size = output_size;
        stats.alias_size = alias_size;
        stats.temp_size = temp_size;
        stats.peak_memory = peak_memory;
        stats
    }
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn bytes(bytes: usize) -> f64 {
    bytes as f64
}

/// Compiles a program whose custom calls the backend `B` handles. The program's devices may belong to several processes
/// of `job`.
pub(crate) fn compile<B: Backend>(
    program: &Program,
    options: &CompileOptions,
    job: Option<&Job>,
) -> Result<Compiled<CpuExecutable>> {
    let module = device_plugin::stablehlo::parse(program, device_plugin::stablehlo::VerifyLevel::FULL)?;
    let mut compiled = compile_module::<B>(&module, options)?;
    if let (Some(job), Some(assignment)) = (job, &options.device_assignment) {
        let executable = &mut compiled.executable;
        executable.span = job.span(assignment, || (compiled.info.name.clone(), common(&module)))?.map(Arc::new);
        // Only `State::execute_all` starts the members of a launch over several processes.
        executable.is_quick &= executable.span.is_none();
        executable.has_first_part &= executable.span.is_none();
    }
    Ok(compiled)
}

/// The target of the custom calls that call Python functions. The plugin's Python package emits them.
const PYTHON_CALLBACK: &str = "pjrt_plugin_python_callback";

/// Returns the text of a program, for comparison between processes. Omits the data of Python callbacks, because it
/// contains callback IDs that differ between processes. The data of other custom calls must agree.
fn common(module: &Module) -> String {
    fn strip(region: &mut Region) {
        for op in &mut region.ops {
            if let OpKind::CustomCall { call_target_name, backend_config, .. } = &mut op.kind
                && call_target_name == PYTHON_CALLBACK
            {
                *backend_config = Attribute::String(Vec::new().into());
                op.attributes.clear();
            }
            op.regions.iter_mut().for_each(strip);
        }
    }
    let mut module = module.clone();
    module.funcs.iter_mut().for_each(|func| strip(&mut func.body));
    module.to_string()
}

/// Returns the engine's settings for these options, with row-major parameters and outputs.
pub(crate) fn settings<B: Backend>(replicas: usize, partitions: usize, options: &CompileOptions) -> CompileSettings {
    let mut settings = CompileSettings::new(replicas, partitions);
    settings.use_spmd = options.use_spmd_partitioning;
    settings.use_shardy = options.use_shardy_partitioner;
    settings.custom_calls = Some(custom_calls::find::<B>);
    settings
}

/// Compiles a program that is already parsed.
pub(crate) fn compile_module<B: Backend>(module: &Module, options: &CompileOptions) -> Result<Compiled<CpuExecutable>> {
    let count = |n: i64, what: &str| {
        usize::try_from(n).ok().filter(|n| *n > 0).ok_or_else(|| Error::invalid_argument(format!("{n} {what}")))
    };
    let entry = module.entry().ok_or_else(|| Error::invalid_argument("the module has no entry function"))?;
    let (parameters, outputs) = Layouts::of(module, entry)?;
    let (replicas, partitions) =
        (count(options.num_replicas, "replicas")?, count(options.num_partitions, "partitions")?);
    let mut settings = settings::<B>(replicas, partitions, options);
    (settings.parameter_orders, settings.output_orders) = (parameters.orders.clone(), outputs.orders.clone());
    // Constants do not belong to any device. Each launch allocates from its own device's pool.
    let compiled = engine::compile_with(module, &settings, Pool::global()).map_err(|error| match error.kind() {
        CompileErrorKind::Unsupported => Error::unimplemented(error.to_string()),
        CompileErrorKind::TooLarge => Error::resource_exhausted(error.to_string()),
        _ => Error::invalid_argument(error.to_string()),
    })?;
    dump(module, &compiled, options)?;
    // With SPMD, the module describes the work of all partitions together, so each device does its share.
    let shares = if settings.use_spmd { settings.partitions } else { 1 };
    let (cost, memory) = (cost(module).shared(bytes(shares)), compiled.memory_estimate());
    if memory.total > MOST_BYTES {
        return Err(Error::resource_exhausted(format!(
            "a run of the program takes {}, and an address space holds {}: make its arrays smaller",
            readable(memory.total),
            readable(MOST_BYTES)
        )));
    }
    let work = cost.flops + TRANSCENDENTAL * cost.transcendentals + bytes(memory.accessed);
    let executable = CpuExecutable {
        cost,
        memory,
        is_quick: !memory.loops && work <= QUICK,
        has_first_part: compiled.can_pause()
            && work <= QUICK
            && !compiled.calls_handlers()
            && !compiled.has_side_effects(),
        calls_handlers: compiled.calls_handlers(),
        has_side_effects: compiled.has_side_effects(),
        span: None,
        recent_runs: RecentRuns::default(),
        program: compiled,
    };
    let info = info(&executable.program, entry, &parameters, &outputs)?;
    Ok(Compiled::new(executable, info))
}

fn info(program: &engine::Program, entry: &Func, arguments: &Layouts, results: &Layouts) -> Result<ExecutableInfo> {
    let parameters = program.parameters();
    let mut info = ExecutableInfo::new(
        program.name(),
        arguments.named(parameters.iter().map(|parameter| &parameter.ty))?,
        results.named(program.outputs().iter())?,
    );
    // The program computes with empty arrays in place of tokens.
    let declared = entry.args().iter().map(|arg| entry.ty(*arg));
    declare_tokens(&mut info.parameters, declared);
    declare_tokens(&mut info.outputs, entry.results.iter());
    info.parameter_layouts = arguments.layouts(&info.parameters);
    info.output_layouts = results.layouts(&info.outputs);
    info.size_of_generated_code = i64::try_from(program.constant_bytes()).unwrap_or(i64::MAX);
    info.parameter_memory_kinds = memory_kinds(&entry.arg_attributes, info.parameters.len(), "argument")?;
    info.output_memory_kinds = memory_kinds(&entry.result_attributes, info.outputs.len(), "result")?;
    info.donated = donated(parameters, &info);
    let encoded = |shardings: &[OpSharding]| shardings.iter().map(OpSharding::to_proto).collect();
    info.parameter_shardings = program.parameter_shardings().map(encoded);
    info.output_shardings = program.output_shardings().map(|shardings| match shardings {
        // Like XLA, give the empty tuple of results a sharding.
        [] => vec![OpSharding::Replicated.to_proto()],
        shardings => encoded(shardings),
    });
    // Frameworks that do not know the extensions find shardings and layouts in the program.
    info.optimized_program = program.readable_program().map(Program::mlir);
    Ok(info)
}

/// Replaces the shapes of declared tokens with the shape of a token, so that frameworks do not read tokens as arrays.
fn declare_tokens<'a>(shapes: &mut [Shape], declared: impl Iterator<Item = &'a Type>) {
    for (shape, _) in shapes.iter_mut().zip(declared).filter(|(_, ty)| matches!(ty, Type::Token)) {
        *shape = Shape::new(ElementType::Token, []);
    }
}

/// Returns the parameters whose memory a run takes over. A parameter with `jax.buffer_donor` may become any output of
/// the same size and memory kind that no other parameter becomes. Without such an output, the caller keeps the
/// parameter, as in XLA.
fn donated(parameters: &[Parameter], info: &ExecutableInfo) -> Vec<usize> {
    let place = |shapes: &[Shape], kinds: &[String], index: usize| {
        (shapes[index].host_size(), kinds.get(index).map_or(KINDS[0], String::as_str).to_owned())
    };
    let output = |index: usize| place(&info.outputs, &info.output_memory_kinds, index);
    let aliased: Vec<usize> = parameters.iter().filter_map(|parameter| parameter.alias_output).collect();
    let mut free: Vec<_> = (0..info.outputs.len()).filter(|index| !aliased.contains(index)).map(output).collect();
    let mut takes = |index: usize| {
        let wanted = place(&info.parameters, &info.parameter_memory_kinds, index);
        free.iter().position(|output| *output == wanted).map(|found| free.swap_remove(found)).is_some()
    };
    let is_donated = |(index, parameter): &(usize, &Parameter)| {
        parameter.alias_output.is_some() || (parameter.donor && takes(*index))
    };
    parameters.iter().enumerate().filter(is_donated).map(|(index, _)| index).collect()
}

/// Returns the memory kind of each argument or result, as `mhlo.memory_kind` specifies it. Returns an empty list if all
/// arrays are in the default memory.
fn memory_kinds(attributes: &[Attributes], count: usize, what: &str) -> Result<Vec<String>> {
    let kind = |index: usize| {
        let all = attributes.get(index).map_or(&[][..], Vec::as_slice);
        let Some((_, value)) = all.iter().find(|(name, _)| name == "mhlo.memory_kind") else {
            return Ok(KINDS[0].to_owned());
        };
        let known = match value {
            Attribute::String(name) => KINDS.iter().find(|kind| kind.as_bytes() == &name[..]),
            _ => None,
        };
        known.map(|kind| (*kind).to_owned()).ok_or_else(|| {
            let named = match value {
                Attribute::String(name) => String::from_utf8_lossy(name).into_owned(),
                other => format!("{other:?}"),
            };
            Error::invalid_argument(format!(
                "mhlo.memory_kind of {what} {index} is {named:?}; the kinds of this device are {}",
                KINDS.join(", ")
            ))
        })
    };
    let kinds = (0..count).map(kind).collect::<Result<Vec<_>>>()?;
    Ok(if kinds.iter().all(|kind| kind == KINDS[0]) { Vec::new() } else { kinds })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the donated parameters of a program with these parameters and results. The results are constants.
    fn donated(parameters: &str, results: &[&str]) -> Vec<usize> {
        let ty = |result: &str| result.split(' ').next().unwrap_or_default().to_owned();
        let made =
            |(index, result): (usize, &&str)| format!("%{index} = stablehlo.constant dense<0.0> : {}\n", ty(result));
        let made: String = results.iter().enumerate().map(made).collect();
        let values: Vec<String> = (0..results.len()).map(|index| format!("%{index}")).collect();
        let types: Vec<String> = results.iter().map(|result| ty(result)).collect();
        let text = format!(
            "func.func @main({parameters}) -> ({}) {{ {made} return {} : {} }}",
            results.join(", "),
            values.join(", "),
            types.join(", ")
        );
        let module = stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap();
        compile_module::<crate::device::CpuBackend>(&module, &CompileOptions::default()).unwrap().info.donated
    }

    /// The IDs of Python callbacks differ between processes. The data of any other custom call is a part of the
    /// program.
    #[test]
    fn only_numbers_of_callbacks_may_differ() {
        let program = |target: &str, number: u32| {
            let text = format!(
                "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{ %0 = stablehlo.custom_call @{target}(%x) \
                 {{api_version = 4 : i32, backend_config = {{callback = {number} : ui64}}}} : (tensor<4xf32>) -> \
                 tensor<4xf32> return %0 : tensor<4xf32> }}"
            );
            common(&stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap())
        };
        assert_eq!(program("pjrt_plugin_python_callback", 1), program("pjrt_plugin_python_callback", 2));
        assert_ne!(program("scale", 1), program("scale", 2));
        assert_ne!(program("scale", 1), program("pjrt_plugin_python_callback", 1));
    }

    #[test]
    fn donor_needs_output_of_same_size() {
        let two = "%a: tensor<4xf32> {jax.buffer_donor = true}, %b: tensor<4xf32> {jax.buffer_donor = true}";
        assert_eq!(donated(two, &["tensor<4xf32>"]), [0]);
        assert_eq!(donated(two, &["tensor<2xf64>", "tensor<4xf32>"]), [0, 1], "types need not be equal");
        assert_eq!(donated(two, &["tensor<4xf64>"]), [0; 0]);
        assert_eq!(donated(two, &["tensor<4xf32> {mhlo.memory_kind = \"pinned_host\"}"]), [0; 0]);
    }

    #[test]
    fn donor_needs_unclaimed_output() {
        let both = "%a: tensor<4xf32> {jax.buffer_donor = true}, %b: tensor<4xf32> {tf.aliasing_output = 0 : i32}";
        assert_eq!(donated(both, &["tensor<4xf32>"]), [1]);
        assert_eq!(donated(both, &["tensor<4xf32>", "tensor<4xf32>"]), [0, 1]);
    }
}
