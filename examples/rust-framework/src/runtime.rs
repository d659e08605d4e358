//! A device and its compiled programs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pjrt::stablehlo::ForPlugin;
use pjrt::{Client, ClientOptions, CompileOptions, ExecutableCache, LoadedExecutable, Program};
use stablehlo::builder::{self, FunctionBuilder, ModuleBuilder};
use stablehlo::ir::{Module, TensorType};

use crate::Result;

// ANCHOR: runtime
/// A device and its compiled programs. Clones share the device and the programs.
#[derive(Clone)]
pub struct Runtime(Arc<Inner>);

struct Inner {
    client: Client,
    programs: ExecutableCache,
    operations: Mutex<HashMap<Operation, Arc<LoadedExecutable>>>,
}

/// Key of an operation on tensors: its name, and the types of its operands.
type Operation = (&'static str, Vec<TensorType>);

impl Runtime {
    /// Creates a client of the plugin that the registry finds by `name`, such as `cpu`. Tensors are stored on the first
    /// device of the client.
    pub fn open(name: &str) -> Result<Self> {
        let client = plugin_registry::open(name)?.client(&ClientOptions::new())?;
        let (programs, operations) = (ExecutableCache::in_memory(), Mutex::default());
        Ok(Self(Arc::new(Inner { client, programs, operations })))
    }

    /// Compiles a program, or returns the cached executable of an equal program.
    pub(crate) fn compile(&self, module: &Module) -> Result<Arc<LoadedExecutable>> {
        let program = Program::for_plugin(module, &self.0.client.plugin())?;
        Ok(self.0.programs.compile(&self.0.client, &program, &CompileOptions::default())?)
    }
}
// ANCHOR_END: runtime

impl Runtime {
    /// Returns the client, for transfers.
    pub(crate) fn client(&self) -> &Client {
        &self.0.client
    }
}

// ANCHOR: operation
impl Runtime {
    /// Returns the executable of an operation. Builds and compiles its program at the first call with these operand
    /// types.
    pub(crate) fn operation(
        &self,
        name: &'static str,
        types: Vec<TensorType>,
        build: impl FnOnce(&FunctionBuilder, &[builder::Value]) -> stablehlo::Result<builder::Value>,
    ) -> Result<Arc<LoadedExecutable>> {
        let operations = || self.0.operations.lock().unwrap_or_else(PoisonError::into_inner);
        let operation = (name, types);
        if let Some(executable) = operations().get(&operation) {
            return Ok(Arc::clone(executable));
        }
        let module = ModuleBuilder::new(name);
        module.function("main", |f| {
            let operands =
                operation.1.iter().map(|ty| f.argument(ty.clone())).collect::<stablehlo::Result<Vec<_>>>()?;
            build(f, &operands)
        })?;
        // Do not hold the lock while compiling.
        let executable = self.compile(&module.build()?)?;
        operations().insert(operation, Arc::clone(&executable));
        Ok(executable)
    }
}
// ANCHOR_END: operation
