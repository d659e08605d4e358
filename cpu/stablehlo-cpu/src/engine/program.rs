//! A compiled program: a flat list of steps over numbered slots, and the loop that runs them.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::bounded_arrays::{BoundedArray, BoundedArrays};
use super::dtype::TensorType;
use super::kernels::collective::Collective;
use super::kernels::{Context, Kernel};
use super::parallel;
use super::peak::Peak;
use super::pool::{Buffer, Pool};
use super::rendezvous::{Communicator, Member};
use super::settings::CompileSettings;
use super::stop::Stop;
use super::tensor::Tensor;
use super::tile::{TileProgram, fill};
use crate::error::RunError;
use crate::sharding::OpSharding;

/// An operand of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arg {
    /// Reads the slot.
    Slot(u32),
    /// Reads the slot for the last time, so the step may take the buffer.
    Last(u32),
    Const(u32),
}

/// A result of a step.
#[derive(Clone, Debug)]
pub(crate) struct Out {
    pub(crate) slot: u32,
    pub(crate) bytes: usize,
    /// Index of the value in the graph.
    pub(crate) value: u32,
    /// In tile steps, the input whose buffer the output may overwrite. In kernel steps, the input that this output
    /// starts as a copy of.
    pub(crate) from: Option<u16>,
    /// In kernel steps, the element that fills this output before the kernel runs.
    pub(crate) fill: Option<Fill>,
}

/// The element of an array whose elements are equal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    pub(crate) element: [u8; 16],
    /// Size of the element in bytes.
    pub(crate) size: u8,
}

impl Fill {
    fn apply(&self, out: &mut [u8]) {
        let bytes = out.len();
        parallel::chunks(out, 64, bytes, |_, part| self.apply_to(part));
    }

    /// Fills `out` on the calling thread.
    pub(crate) fn apply_to(&self, out: &mut [u8]) {
        fill(out, &self.element[..usize::from(self.size)]);
    }
}

pub(crate) enum Step {
    Tile { program: TileProgram, n: usize, args: Vec<Arg>, outs: Vec<Out>, free: Vec<u32> },
    Kernel { kernel: Arc<dyn Kernel>, args: Vec<Arg>, outs: Vec<Out>, free: Vec<u32> },
    Collective { collective: Box<Collective>, args: Vec<Arg>, outs: Vec<Out>, free: Vec<u32> },
    While { args: Vec<Arg>, carried: Vec<u32>, cond: Block, body: Block, outs: Vec<u32>, free: Vec<u32> },
    Case { index: Arg, select: Select, branches: Vec<Block>, outs: Vec<u32>, free: Vec<u32> },
}

/// How a [`Step::Case`] chooses a branch from its index operand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Select {
    /// `if`: a truth value. True selects the first branch.
    Pred,
    /// `case`: an i32. A value out of range selects the last branch.
    Index,
}

#[derive(Default)]
pub(crate) struct Block {
    pub(crate) steps: Vec<Step>,
    pub(crate) results: Vec<Arg>,
}

impl Block {
    /// Returns whether `is_it` returns true for any kernel in the block or in a nested block.
    fn has_kernel(&self, is_it: fn(&dyn Kernel) -> bool) -> bool {
        self.steps.iter().any(|step| match step {
            Step::Tile { .. } | Step::Collective { .. } => false,
            Step::Kernel { kernel, .. } => is_it(&**kernel),
            Step::While { cond, body, .. } => cond.has_kernel(is_it) || body.has_kernel(is_it),
            Step::Case { branches, .. } => branches.iter().any(|branch| branch.has_kernel(is_it)),
        })
    }

    /// Returns whether a run of the block may take unlimited time, because the block contains a loop or a step that
    /// runs a loop for each element.
    pub(crate) fn has_loop(&self) -> bool {
        self.steps.iter().any(|step| match step {
            Step::Tile { .. } => false,
            Step::Collective { collective, .. } => collective.has_loop(),
            Step::Kernel { kernel, .. } => kernel.has_loop(),
            Step::While { .. } => true,
            Step::Case { branches, .. } => branches.iter().any(Self::has_loop),
        })
    }
}

/// A parameter of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parameter {
    /// Element type and extents.
    pub ty: TensorType,
    /// Index of the output that may take over this parameter's memory (`tf.aliasing_output`).
    pub alias_output: Option<usize>,
    /// Whether any output may take over this parameter's memory (`jax.buffer_donor`).
    pub donor: bool,
}

/// A compiled program. Running it does not change it.
pub struct Program {
    pub(crate) name: String,
    /// The parameters, followed by additional parameters for the sizes of bounded dimensions.
    pub(crate) parameters: Vec<Parameter>,
    /// The outputs, followed by additional outputs for the sizes of bounded dimensions.
    pub(crate) outputs: Vec<TensorType>,
    pub(crate) consts: Vec<Buffer>,
    pub(crate) slots: usize,
    pub(crate) block: Block,
    /// What a run allocates at the same time. `None` if it is little.
    pub(crate) peak: Option<Box<Peak>>,
    pub(crate) pool: Pool,
    pub(crate) settings: CompileSettings,
    /// Number of collectives in the program.
    pub(crate) collectives: u32,
    pub(crate) shardings: Option<Shardings>,
    /// Serialized program that clients can query. `None` if clients receive the program that they compiled.
    pub(crate) readable: Option<Bytes>,
    /// The parameters and outputs with bounded dynamic dimensions, if there are any.
    pub(crate) bounded: Option<Box<BoundedArrays>>,
}

/// The shardings of parameters and outputs.
pub(crate) struct Shardings {
    parameters: Vec<OpSharding>,
    outputs: Vec<OpSharding>,
}

impl Program {
    /// Returns the name of the module, or the name of its entry function if the module has no name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the parameters, in the order of the inputs of [`Program::run`]. Parameters with bounded dimensions have
    /// their maximum shape.
    pub fn parameters(&self) -> &[Parameter] {
        let sizes = self.bounded.as_ref().map_or(0, |bounded| bounded.parameter_sizes());
        &self.parameters[..self.parameters.len() - sizes]
    }

    /// Returns the types of the outputs of [`Program::run`]. Outputs with bounded dimensions have their maximum shape.
    pub fn outputs(&self) -> &[TensorType] {
        let sizes = self.bounded.as_ref().map_or(0, |bounded| bounded.output_sizes());
        &self.outputs[..self.outputs.len() - sizes]
    }

    /// Returns whether a parameter has bounded dimensions. Such a parameter accepts tensors with [dynamic
    /// dimensions](Tensor::dynamic_dimensions).
    pub fn is_bounded_parameter(&self, index: usize) -> bool {
        self.bounded.as_ref().is_some_and(|bounded| BoundedArray::lists(&bounded.parameters, index))
    }

    /// Returns whether an output has bounded dimensions. The tensors of such an output have [dynamic
    /// dimensions](Tensor::dynamic_dimensions).
    #[inline]
    pub fn is_bounded_output(&self, index: usize) -> bool {
        self.bounded.as_ref().is_some_and(|bounded| BoundedArray::lists(&bounded.outputs, index))
    }

    /// Returns the size of the program's constants in bytes.
    pub fn constant_bytes(&self) -> usize {
        self.consts.iter().map(|c| c.bytes().len()).sum()
    }

    /// Returns the number of steps in the outermost block, for tests and diagnostics.
    pub fn step_count(&self) -> usize {
        self.block.steps.len()
    }

    /// Returns the settings that the program was compiled with.
    pub fn settings(&self) -> &CompileSettings {
        &self.settings
    }

    /// Returns whether the program contains collectives. Members wait for one another in a collective, so each member
    /// needs its own thread.
    pub fn has_collectives(&self) -> bool {
        self.collectives > 0
    }

    /// Returns whether a run has effects other than its outputs, because the program contains a custom call with side
    /// effects.
    pub fn has_side_effects(&self) -> bool {
        self.block.has_kernel(|kernel| kernel.has_side_effect())
    }

    /// Returns whether a run may call a handler of a custom call.
    pub fn calls_handlers(&self) -> bool {
        self.block.has_kernel(|kernel| kernel.calls_handler())
    }

    /// Returns the sharding of each parameter, or `None` if the program was not split into several partitions.
    pub fn parameter_shardings(&self) -> Option<&[OpSharding]> {
        self.shardings.as_ref().map(|s| &s.parameters[..])
    }

    /// Returns the sharding of each output, or `None` if the program was not split into several partitions.
    pub fn output_shardings(&self) -> Option<&[OpSharding]> {
        self.shardings.as_ref().map(|s| &s.outputs[..])
    }

    /// Returns the compiled program as StableHLO. This is the program of one partition if the source program was split
    /// into several partitions, or otherwise the source program with storage orders. Returns `None` if the program was
    /// not split and the settings specify no storage orders.
    ///
    /// The bytes are a portable artifact of the same version as the source program, or text if the source was text.
    /// Clients that do not know the PJRT extensions for shardings and layouts read both from module attributes.
    /// `mhlo.spmd_parameters_shardings` and `mhlo.spmd_output_sharding` hold the shardings.
    /// `mhlo.xla_entry_computation_parameter_layouts` and `mhlo.xla_entry_computation_result_layout` hold the layouts.
    pub fn readable_program(&self) -> Option<Bytes> {
        self.readable.clone()
    }

    /// Sets the serialized program that clients can query.
    pub(crate) fn set_readable(&mut self, readable: Option<Bytes>) {
        self.readable = readable;
    }

    /// Sets the parameters and outputs with bounded dimensions.
    pub(crate) fn set_bounded(&mut self, bounded: BoundedArrays) {
        self.bounded = (!bounded.is_empty()).then(|| Box::new(bounded));
    }

    /// Sets the shardings of the parameters and outputs of a partitioned program.
    pub(crate) fn set_shardings(&mut self, parameters: Vec<OpSharding>, outputs: Vec<OpSharding>) {
        self.shardings = Some(Shardings { parameters, outputs });
    }

    /// Runs the program as the only member of a launch. The run may overwrite an input that no other [`Tensor`] shares.
    /// To keep an input, pass a clone.
    pub fn run(&self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, RunError> {
        self.run_in(inputs, &self.pool, None, None)
    }

    /// Runs the program as one member of a launch, with buffers from `pool`. Inputs and outputs are those of this
    /// member. Without a member, the program runs as the only member of a communicator. The run then fails if the
    /// program contains collectives and was compiled for more than one member.
    ///
    /// The member leaves the launch when the run ends. If the run fails, the other members fail too. Members wait for
    /// one another in this function, so each member needs its own thread.
    ///
    /// Pass `stop` if the run may take long. Without `stop`, a program whose loop never ends runs forever.
    pub fn run_in(
        &self,
        inputs: Vec<Tensor>,
        pool: &Pool,
        member: Option<&Member>,
        stop: Option<&Stop>,
    ) -> Result<Vec<Tensor>, RunError> {
        let result = match &self.bounded {
            None => self.run_as(inputs, pool, member, stop),
            Some(bounded) => self.run_bounded(bounded, inputs, pool, |inputs| self.run_as(inputs, pool, member, stop)),
        };
        let Some(member) = member else { return result };
        match &result {
            Ok(_) => member.finish(),
            Err(error) => member.fail(&error.to_string()),
        }
        result
    }

    /// Returns the error for a run with the wrong number of inputs.
    pub(crate) fn takes(&self, got: usize) -> RunError {
        RunError::Input(format!("program `{}` takes {} inputs, not {got}", self.name, self.parameters().len()))
    }

    fn run_as(
        &self,
        inputs: Vec<Tensor>,
        pool: &Pool,
        member: Option<&Member>,
        stop: Option<&Stop>,
    ) -> Result<Vec<Tensor>, RunError> {
        let want = (self.settings.replicas, self.settings.partitions);
        let got =
            member.map_or((1, 1), |member| (member.communicator().replicas(), member.communicator().partitions()));
        if self.collectives > 0 && want != got {
            return Err(RunError::Input(format!(
                "program `{}` is for {} replicas of {} partitions and was launched on {} of {}",
                self.name, want.0, want.1, got.0, got.1
            )));
        }
        if let Some(peak) = &self.peak {
            peak.check(pool)?;
        }
        let mut env = self.env(inputs, pool, member, stop)?;
        env.run(&self.block)?;
        // If a step was stopped, its outputs may be incomplete.
        Stop::check(stop)?;
        self.results(&mut env)
    }

    /// Returns the state of a run before its first step. Returns an error if the inputs do not match the parameters.
    #[inline]
    pub(super) fn env<'p>(
        &'p self,
        inputs: Vec<Tensor>,
        pool: &'p Pool,
        member: Option<&'p Member>,
        stop: Option<&'p Stop>,
    ) -> Result<Env<'p>, RunError> {
        if inputs.len() != self.parameters.len() {
            return Err(self.takes(inputs.len()));
        }
        let mut env = Env { consts: &self.consts, slots: Vec::with_capacity(self.slots), pool, member, stop };
        for (i, (input, parameter)) in inputs.into_iter().zip(&self.parameters).enumerate() {
            // An input may differ from its parameter in dimensions of extent one, which do not affect the bytes.
            if input.ty() != &parameter.ty && !is_stored_as(input.ty(), &parameter.ty) {
                let (want, got) = (&parameter.ty, input.ty());
                return Err(RunError::Input(format!(
                    "input {i} of program `{}` is a {want}, a {got} was given",
                    self.name
                )));
            }
            if input.is_dynamic() {
                return Err(self.takes_one_size(i, &input));
            }
            env.slots.push(Some(input.into_buffer()));
        }
        env.slots.resize(self.slots, None);
        Ok(env)
    }

    /// Returns the outputs of a run after its last step.
    #[inline]
    pub(super) fn results(&self, env: &mut Env<'_>) -> Result<Vec<Tensor>, RunError> {
        self.block
            .results
            .iter()
            .zip(&self.outputs)
            .map(|(&result, ty)| Ok(Tensor::from_parts(ty.clone(), env.take(result)?)))
            .collect()
    }
}

/// Returns whether two types differ at most in dimensions of extent one. Equal arrays of two such types have the same
/// bytes in memory.
#[cold]
fn is_stored_as(one: &TensorType, other: &TensorType) -> bool {
    let long = |ty: &TensorType| ty.dims.iter().copied().filter(|extent| *extent != 1).collect::<Vec<_>>();
    one.dtype == other.dtype && long(one) == long(other)
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("name", &self.name)
            .field("parameters", &self.parameters)
            .field("outputs", &self.outputs)
            .field("steps", &self.block.steps.len())
            .finish()
    }
}

/// Runs a block without collectives, with the inputs in its first slots.
pub(crate) fn run_block(
    block: &Block,
    consts: &[Buffer],
    slots: usize,
    inputs: Vec<Buffer>,
    cx: &Context<'_>,
) -> Result<Vec<Buffer>, RunError> {
    let Context { pool, stop } = *cx;
    let mut env = Env { consts, slots: inputs.into_iter().map(Some).collect(), pool, member: None, stop };
    env.slots.resize(slots, None);
    env.run(block)?;
    Stop::check(stop)?;
    block.results.iter().map(|&result| env.take(result)).collect()
}

/// The state of a run.
pub(super) struct Env<'p> {
    pub(super) consts: &'p [Buffer],
    pub(super) slots: Vec<Option<Buffer>>,
    pub(super) pool: &'p Pool,
    /// The member that runs the program. `None` if the program runs without a communicator.
    pub(super) member: Option<&'p Member>,
    /// The stop request. `None` if the run cannot be stopped.
    pub(super) stop: Option<&'p Stop>,
}

/// The buffers of a kernel's outputs.
pub(super) struct Outputs {
    buffers: Vec<Buffer>,
    /// For each buffer, the index of the input whose memory the buffer reuses. Empty if no buffer reuses memory.
    alias: Vec<Option<u16>>,
}

fn empty(slot: u32) -> RunError {
    RunError::Internal(format!("slot {slot} was read while empty"))
}

impl<'p> Env<'p> {
    fn context(&self) -> Context<'p> {
        Context { pool: self.pool, stop: self.stop }
    }

    fn get(&self, arg: Arg) -> Result<&Buffer, RunError> {
        match arg {
            Arg::Slot(s) | Arg::Last(s) => self.slots[s as usize].as_ref().ok_or_else(|| empty(s)),
            Arg::Const(c) => Ok(&self.consts[c as usize]),
        }
    }

    /// Returns the value, and moves it out of its slot on its last use.
    fn take(&mut self, arg: Arg) -> Result<Buffer, RunError> {
        match arg {
            Arg::Last(s) => self.slots[s as usize].take().ok_or_else(|| empty(s)),
            _ => self.get(arg).cloned(),
        }
    }

    fn free(&mut self, slots: &[u32]) {
        for &slot in slots {
            self.slots[slot as usize] = None;
        }
    }

    fn run(&mut self, block: &Block) -> Result<(), RunError> {
        for step in &block.steps {
            Stop::check(self.stop)?;
            self.step(step)?;
        }
        Ok(())
    }

    #[inline]
    pub(super) fn step(&mut self, step: &Step) -> Result<(), RunError> {
        match step {
            Step::Tile { program, n, args, outs, free } => {
                self.tile(program, *n, args, outs)?;
                self.free(free);
            }
            Step::Kernel { kernel, args, outs, free } => {
                let mut made = self.kernel_outputs(args, outs)?;
                self.run_kernel(args, &mut made, |ins, outs, cx| kernel.run(ins, outs, cx))?;
                self.store(outs, made, free);
            }
            Step::Collective { collective, args, outs, free } => {
                self.run_collective(collective, args, outs)?;
                self.free(free);
            }
            Step::While { args, carried, cond, body, outs, free } => {
                self.repeat(args, carried, cond, body, outs)?;
                self.free(free);
            }
            Step::Case { index, select, branches, outs, free } => {
                let branch = self.choose(*index, *select, branches)?;
                self.run(branch)?;
                // Take all values before storing the first value, because source slots and destination slots may
                // overlap.
                let mut values = Vec::with_capacity(outs.len());
                for &result in &branch.results {
                    values.push(self.take(result)?);
                }
                for (&slot, value) in outs.iter().zip(values) {
                    self.slots[slot as usize] = Some(value);
                }
                self.free(free);
            }
        }
        Ok(())
    }

    /// Takes the buffer of operand `from` if the step is the last to read the operand and the buffer has no other
    /// owner. Returns `None` otherwise.
    fn steal(&mut self, args: &[Arg], from: Option<u16>) -> Option<Buffer> {
        let Arg::Last(slot) = args[usize::from(from?)] else {
            return None;
        };
        let slot = &mut self.slots[slot as usize];
        if slot.as_mut()?.is_unique() { slot.take() } else { None }
    }

    fn tile(&mut self, program: &TileProgram, n: usize, args: &[Arg], outs: &[Out]) -> Result<(), RunError> {
        if let [out] = outs {
            return self.tile_of_one(program, n, args, out);
        }
        let mut buffers = Vec::with_capacity(outs.len());
        let mut alias = Vec::new();
        for (o, out) in outs.iter().enumerate() {
            match self.steal(args, out.from) {
                Some(buffer) => {
                    if alias.is_empty() {
                        alias.resize(outs.len(), None);
                    }
                    alias[o] = out.from;
                    buffers.push(buffer);
                }
                None => buffers.push(self.pool.alloc(out.bytes)?),
            }
        }
        {
            let ins = self.inputs(args, &alias)?;
            let mut targets = targets(&mut buffers)?;
            program.run(n, &ins, &mut targets, &alias);
        }
        for (out, buffer) in outs.iter().zip(buffers) {
            self.slots[out.slot as usize] = Some(buffer);
        }
        Ok(())
    }

    /// Runs a tile step with one output, the most common case. Short lists are kept on the stack, because allocating
    /// them takes longer than a small step.
    fn tile_of_one(&mut self, program: &TileProgram, n: usize, args: &[Arg], out: &Out) -> Result<(), RunError> {
        const FEW: usize = 8;
        let stolen = self.steal(args, out.from);
        let taken = if stolen.is_some() { out.from } else { None };
        let alias = if stolen.is_some() { &[taken][..] } else { &[] };
        let mut buffer = match stolen {
            Some(buffer) => buffer,
            None => self.pool.alloc(out.bytes)?,
        };
        {
            let mut few = [&[][..]; FEW];
            let many;
            let ins = match few.get_mut(..args.len()) {
                Some(ins) => {
                    for (i, (slot, &arg)) in ins.iter_mut().zip(args).enumerate() {
                        if taken.is_none_or(|taken| usize::from(taken) != i) {
                            *slot = self.get(arg)?.bytes();
                        }
                    }
                    &*ins
                }
                None => {
                    many = self.inputs(args, alias)?;
                    &many[..]
                }
            };
            program.run(n, ins, &mut [buffer.write()?], alias);
        }
        self.slots[out.slot as usize] = Some(buffer);
        Ok(())
    }

    /// Prepares the output buffers of a kernel. An output is filled with an element, takes over the memory of an input,
    /// starts as a copy of an input, or has arbitrary contents.
    #[inline]
    pub(super) fn kernel_outputs(&mut self, args: &[Arg], outs: &[Out]) -> Result<Outputs, RunError> {
        let mut buffers = Vec::with_capacity(outs.len());
        let mut alias = Vec::new();
        for (o, out) in outs.iter().enumerate() {
            if let Some(fill) = &out.fill {
                let mut buffer = self.pool.alloc(out.bytes)?;
                fill.apply(buffer.write()?);
                buffers.push(buffer);
                continue;
            }
            match (self.steal(args, out.from), out.from) {
                (Some(buffer), from) => {
                    alias.resize(outs.len(), None);
                    alias[o] = from;
                    buffers.push(buffer);
                }
                (None, Some(from)) => {
                    buffers.push(Buffer::copy_of(self.pool, self.get(args[usize::from(from)])?.bytes())?);
                }
                (None, None) => buffers.push(self.pool.alloc(out.bytes)?),
            }
        }
        Ok(Outputs { buffers, alias })
    }

    /// Calls a kernel with its inputs and outputs.
    #[inline]
    pub(super) fn run_kernel<T>(
        &self,
        args: &[Arg],
        outputs: &mut Outputs,
        run: impl FnOnce(&[&[u8]], &mut [&mut [u8]], &Context<'_>) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        let ins = self.inputs(args, &outputs.alias)?;
        let mut targets = targets(&mut outputs.buffers)?;
        run(&ins, &mut targets, &self.context())
    }

    /// Stores the outputs of a kernel, and empties the slots in `free`.
    #[inline]
    pub(super) fn store(&mut self, outs: &[Out], outputs: Outputs, free: &[u32]) {
        for (out, buffer) in outs.iter().zip(outputs.buffers) {
            self.slots[out.slot as usize] = Some(buffer);
        }
        self.free(free);
    }

    fn run_collective(&mut self, collective: &Collective, args: &[Arg], outs: &[Out]) -> Result<(), RunError> {
        let inputs = args.iter().map(|&arg| self.take(arg)).collect::<Result<_, _>>()?;
        let bytes: Vec<usize> = outs.iter().map(|out| out.bytes).collect();
        let alone;
        let member = match self.member {
            Some(member) => member,
            None => {
                alone = Communicator::new(1, 1).member(0, 0);
                &alone
            }
        };
        let buffers = collective.run(inputs, &bytes, &self.context(), member)?;
        for (out, buffer) in outs.iter().zip(buffers) {
            self.slots[out.slot as usize] = Some(buffer);
        }
        Ok(())
    }

    /// Returns the bytes of all inputs. The slice of an input is empty if an output reuses its memory.
    fn inputs(&self, args: &[Arg], alias: &[Option<u16>]) -> Result<Vec<&[u8]>, RunError> {
        let mut ins = Vec::with_capacity(args.len());
        for (i, &arg) in args.iter().enumerate() {
            let taken = alias.iter().any(|a| a.is_some_and(|a| usize::from(a) == i));
            ins.push(if taken { &[] } else { self.get(arg)?.bytes() });
        }
        Ok(ins)
    }

    fn repeat(
        &mut self,
        args: &[Arg],
        carried: &[u32],
        cond: &Block,
        body: &Block,
        outs: &[u32],
    ) -> Result<(), RunError> {
        let mut values = Vec::with_capacity(args.len());
        for &arg in args {
            values.push(self.take(arg)?);
        }
        loop {
            // A loop body may have no steps, so also check for a stop request here.
            Stop::check(self.stop)?;
            for (&slot, value) in carried.iter().zip(values.drain(..)) {
                self.slots[slot as usize] = Some(value);
            }
            self.run(cond)?;
            let Some(&pred) = cond.results.first() else {
                break;
            };
            if self.take(pred)?.bytes().first() != Some(&1) {
                break;
            }
            self.run(body)?;
            for &result in &body.results {
                values.push(self.take(result)?);
            }
        }
        for (&slot, &from) in outs.iter().zip(carried) {
            let value = self.slots[from as usize].take();
            self.slots[slot as usize] = value;
        }
        Ok(())
    }

    fn choose<'b>(&self, index: Arg, select: Select, branches: &'b [Block]) -> Result<&'b Block, RunError> {
        let bytes = self.get(index)?.bytes();
        let last = branches.len().wrapping_sub(1);
        let chosen = match select {
            Select::Pred => usize::from(bytes.first() != Some(&1)),
            Select::Index => {
                let index = bytes.first_chunk().map_or(-1, |b| i32::from_ne_bytes(*b));
                usize::try_from(index).unwrap_or(last).min(last)
            }
        };
        branches.get(chosen).ok_or_else(|| RunError::Internal("a branch without cases".into()))
    }
}

fn targets(buffers: &mut [Buffer]) -> Result<Vec<&mut [u8]>, RunError> {
    buffers.iter_mut().map(Buffer::write).collect()
}
