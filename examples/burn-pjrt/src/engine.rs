//! The state of a device: its tensors, the recorded operations that have not run yet, and the compiled programs.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use burn_backend::TensorData;
use burn_ir::{OperationIr, TensorId, TensorIr, TensorStatus};
use pjrt::stablehlo::ForPlugin;
use pjrt::{
    Buffer, Client, CompileOptions, ElementType, ExecuteOptions, Input, LoadedExecutable, Outputs, Program, Shape,
    Upload,
};
use plugin_manifest::Capabilities;
use stablehlo::ir::{Literal, Module, TensorType};

use crate::device::PjrtDevice;
use crate::dtype::Types;
use crate::error::Error;
use crate::graph::Graph;
use crate::lower;
use crate::scalars::Scalars;
use crate::settings::Settings;

/// Maximum number of compiled programs that a device keeps. The least recently used program is dropped first.
const MAX_PROGRAMS: usize = 2048;

/// Counters of a device, which [`PjrtDevice::statistics`] returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Number of compiled programs.
    pub compiled: u64,
    /// Number of program runs.
    pub runs: u64,
    /// Number of buffers that were donated to runs.
    pub donated: u64,
    /// Number of existing tensors, including results of recorded operations.
    pub tensors: usize,
}

/// A device with its tensors, recorded operations and programs.
pub(crate) struct Engine {
    device: PjrtDevice,
    plugin: String,
    client: Client,
    types: Types,
    settings: Settings,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    tensors: HashMap<TensorId, Tensor>,
    /// Operations that have not run yet, in the order of recording.
    recorded: Vec<OperationIr>,
    /// Ids of the tensors that the operations in `recorded` read.
    read: HashSet<TensorId>,
    /// Buffers of tensors that Burn has dropped, but that operations in `recorded` still read.
    last_uses: HashMap<TensorId, Arc<Buffer>>,
    programs: HashMap<Vec<u8>, Compiled>,
    last_module: Option<Arc<Module>>,
    seed: u64,
    /// Offset of the next generator, which is at least the number of 64-bit values drawn since the seed was set.
    drawn: u64,
    statistics: Statistics,
}

enum Tensor {
    /// The result of a recorded operation that has not run yet.
    Recorded,
    Ready(Arc<Buffer>),
    Failed(Arc<Error>),
}

struct Compiled {
    executable: Arc<LoadedExecutable>,
    last_run: u64,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("device", &self.device).field("plugin", &self.plugin).finish_non_exhaustive()
    }
}

impl Engine {
    pub(crate) fn new(
        device: PjrtDevice,
        plugin: String,
        client: Client,
        capabilities: Capabilities,
        settings: Settings,
    ) -> Self {
        let types = Types::new(plugin.clone(), capabilities);
        Self { device, plugin, client, types, settings, state: Mutex::default() }
    }

    pub(crate) fn new_id() -> TensorId {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        TensorId::new(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn device(&self) -> PjrtDevice {
        self.device
    }

    pub(crate) fn plugin(&self) -> &str {
        &self.plugin
    }

    pub(crate) fn types(&self) -> &Types {
        &self.types
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let state = self.state();
        Statistics { tensors: state.tensors.len(), ..state.statistics }
    }

    pub(crate) fn last_program(&self) -> String {
        let module = self.state().last_module.clone();
        module.map_or(String::new(), |module| module.to_string())
    }

    pub(crate) fn seed(&self, seed: u64) {
        let mut state = self.state();
        (state.seed, state.drawn) = (seed, 0);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn upload(&self, data: TensorData) -> Result<TensorId, Error> {
        let buffer = self.types.upload(&self.client, data)?;
        let id = Self::new_id();
        self.state().tensors.insert(id, Tensor::Ready(Arc::new(buffer)));
        Ok(id)
    }

    /// Records an operation. If the number of recorded operations reaches the limit, runs them. A drop is not recorded,
    /// because it releases its tensor at once. An initialization is not recorded, because it computes nothing.
    pub(crate) fn record(&self, op: OperationIr) -> Result<(), Error> {
        let mut state = self.state();
        match &op {
            OperationIr::Drop(tensor) => {
                state.release(tensor.id);
                return Ok(());
            }
            OperationIr::Init(_) => return Ok(()),
            _ => {}
        }
        let consumed: Vec<TensorId> =
            op.inputs().filter(|input| input.status == TensorStatus::ReadWrite).map(|input| input.id).collect();
        let recorded = lower::check(&op, &self.types).and_then(|()| state.record(op));
        for id in consumed {
            state.release(id);
        }
        recorded?;
        if state.recorded.len() >= self.settings.max_operations {
            // On failure, `run` stores the error in the result tensors, so that reading them returns it.
            let _ = self.run(&mut state);
        }
        Ok(())
    }

    pub(crate) fn read(&self, tensor: &TensorIr) -> Result<TensorData, Error> {
        let mut state = self.state();
        if matches!(state.tensors.get(&tensor.id), Some(Tensor::Recorded)) {
            // On failure, `run` stores the error in the tensor.
            let _ = self.run(&mut state);
        }
        let found = match state.tensors.get(&tensor.id) {
            Some(Tensor::Ready(buffer)) => Ok(Arc::clone(buffer)),
            Some(Tensor::Failed(error)) => Err(Error::clone(error)),
            Some(Tensor::Recorded) | None => Err(Error::Missing(tensor.id.value())),
        };
        if tensor.status == TensorStatus::ReadWrite {
            state.release(tensor.id);
        }
        // Release the lock, so that other threads can use the device during the transfer.
        drop(state);
        self.types.download(&*found?, tensor)
    }

    /// Runs the recorded operations and waits until the device has finished all work.
    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        self.run(&mut self.state())?;
        Ok(self.client.synchronize(Duration::MAX)?)
    }

    /// Runs the recorded operations that contribute to tensors in use, and discards the others.
    fn run(&self, state: &mut State) -> Result<(), Error> {
        let recorded = std::mem::take(&mut state.recorded);
        state.read.clear();
        let graph = Graph::new(recorded, |id| matches!(state.tensors.get(&id), Some(Tensor::Recorded)));
        let outputs: Vec<TensorId> = graph.outputs.iter().map(|output| output.id).collect();
        if outputs.is_empty() {
            state.last_uses.clear();
            return Ok(());
        }
        match self.execute(state, graph) {
            Ok(buffers) => {
                for (id, buffer) in outputs.into_iter().zip(buffers) {
                    state.tensors.insert(id, Tensor::Ready(Arc::new(buffer)));
                }
                Ok(())
            }
            Err(error) => {
                let shared = Arc::new(error.clone());
                for id in outputs {
                    state.tensors.insert(id, Tensor::Failed(Arc::clone(&shared)));
                }
                Err(error)
            }
        }
    }

    fn execute(&self, state: &mut State, mut graph: Graph) -> Result<Outputs, Error> {
        let mut last_uses = std::mem::take(&mut state.last_uses);
        if self.types.capabilities().donation {
            graph.donate(|id| last_uses.get(&id).is_some_and(|buffer| Arc::strong_count(buffer) == 1));
        }
        let scalars = Scalars::collect(graph.ops.iter(), &self.types)?;
        let executable = self.compiled(state, &graph, &scalars)?;
        let borrowed: Vec<Option<Arc<Buffer>>> = (graph.inputs.iter().zip(&graph.donations))
            .map(|(input, donation)| match (donation, state.tensors.get(&input.id), last_uses.get(&input.id)) {
                (Some(_), ..) => Ok(None),
                (None, Some(Tensor::Ready(buffer)), _) | (None, _, Some(buffer)) => Ok(Some(Arc::clone(buffer))),
                (None, Some(Tensor::Failed(error)), _) => Err(Error::Earlier(Arc::clone(error))),
                (None, ..) => Err(Error::Missing(input.id.value())),
            })
            .collect::<Result<_, _>>()?;
        let more = self.arguments(state, &graph, &scalars)?;
        let mut inputs: Vec<Input<'_>> = Vec::with_capacity(borrowed.len() + more.len());
        for (input, buffer) in graph.inputs.iter().zip(&borrowed) {
            inputs.push(match buffer {
                Some(buffer) => Input::Borrow(buffer),
                None => {
                    let donated = last_uses.remove(&input.id).and_then(Arc::into_inner);
                    state.statistics.donated += 1;
                    Input::Donate(donated.ok_or(Error::Missing(input.id.value()))?)
                }
            });
        }
        inputs.extend(more.iter().map(Input::Borrow));
        state.statistics.runs += 1;
        Ok(executable.execute_with(inputs, &ExecuteOptions::default())?.outputs)
    }

    /// Returns the cached executable of an equal graph, or compiles the graph.
    fn compiled(&self, state: &mut State, graph: &Graph, scalars: &Scalars) -> Result<Arc<LoadedExecutable>, Error> {
        let key = graph.key();
        let now = state.statistics.runs;
        if let Some(known) = state.programs.get_mut(&key) {
            known.last_run = now;
            return Ok(Arc::clone(&known.executable));
        }
        let module = lower::module(graph, scalars, &self.types, self.settings.autocast)?;
        let program = Program::for_plugin(&module, &self.client.plugin())?;
        state.last_module = Some(Arc::new(module));
        let executable = Arc::new(self.client.compile(&program, &CompileOptions::default())?);
        state.statistics.compiled += 1;
        if state.programs.len() >= MAX_PROGRAMS {
            let oldest = state.programs.iter().min_by_key(|(_, program)| program.last_run).map(|(key, _)| key.clone());
            oldest.and_then(|key| state.programs.remove(&key));
        }
        state.programs.insert(key, Compiled { executable: Arc::clone(&executable), last_run: now });
        Ok(executable)
    }

    /// Creates the arguments that follow the input tensors: a vector of scalars for each element type, and the states
    /// of the random number generators.
    fn arguments(&self, state: &mut State, graph: &Graph, scalars: &Scalars) -> Result<Vec<Buffer>, Error> {
        let device = self.client.default_device()?;
        let mut arguments = Vec::new();
        for (element, values) in &scalars.vectors {
            let literal = Literal::numbers(values, TensorType::new([values.len() as i64], *element))?;
            let element =
                ElementType::try_from(*element).map_err(|error| Error::unsupported("a scalar", error.to_string()))?;
            let shape = Shape::new(element, [values.len() as i64]);
            arguments.push(self.client.upload(Upload::of(&literal.data).shape(&shape).to(&device))?);
        }
        let mut generators = Vec::new();
        for output in graph.ops.iter().filter_map(lower::random_output) {
            generators.extend([state.seed, state.drawn]);
            // Advance the offset by at least the number of 64-bit values that the generator draws, so that the next
            // generator does not draw the same values. An element has at most 64 bits, and some distributions draw two
            // values for each element.
            state.drawn = state.drawn.wrapping_add(2 * output.shape.num_elements() as u64 + 16);
        }
        if !generators.is_empty() {
            arguments.push(self.client.buffer_from_host(&generators, &[generators.len() as i64 / 2, 2])?);
        }
        Ok(arguments)
    }
}

impl State {
    fn record(&mut self, op: OperationIr) -> Result<(), Error> {
        let mut failed = None;
        for input in op.inputs() {
            match self.tensors.get(&input.id) {
                Some(Tensor::Failed(error)) => failed = Some(Arc::clone(error)),
                Some(_) => {}
                None => return Err(Error::Missing(input.id.value())),
            }
        }
        if let Some(error) = failed {
            let error = if matches!(*error, Error::Earlier(_)) { error } else { Arc::new(Error::Earlier(error)) };
            for output in op.outputs() {
                self.tensors.insert(output.id, Tensor::Failed(Arc::clone(&error)));
            }
            return Ok(());
        }
        for output in op.outputs() {
            self.tensors.insert(output.id, Tensor::Recorded);
        }
        self.read.extend(op.inputs().map(|input| input.id));
        self.recorded.push(op);
        Ok(())
    }

    /// Removes a tensor that Burn has dropped. Keeps its buffer if a recorded operation still reads it.
    fn release(&mut self, id: TensorId) {
        if let Some(Tensor::Ready(buffer)) = self.tensors.remove(&id)
            && self.read.contains(&id)
        {
            self.last_uses.insert(id, buffer);
        }
    }
}
