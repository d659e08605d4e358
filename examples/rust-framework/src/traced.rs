//! Functions that are compiled as a whole.

use std::sync::Arc;

use pjrt::{ExecuteOptions, Input, LoadedExecutable};
use stablehlo::builder::{Argument, FunctionBuilder, ModuleBuilder, Value};

use crate::{Result, Runtime, Tensor};

// ANCHOR: trace
/// A compiled function of tensors.
pub struct Function {
    runtime: Runtime,
    executable: Arc<LoadedExecutable>,
}

impl Function {
    /// Calls `body` once with a value for each argument, and compiles the function that it builds.
    pub fn trace(
        runtime: &Runtime,
        arguments: impl IntoIterator<Item = Argument>,
        body: impl FnOnce(&FunctionBuilder, &[Value]) -> stablehlo::Result<Vec<Value>>,
    ) -> Result<Self> {
        let module = ModuleBuilder::new("traced");
        module.function("main", |f| {
            let arguments = arguments.into_iter().map(|argument| f.argument(argument));
            body(f, &arguments.collect::<stablehlo::Result<Vec<_>>>()?)
        })?;
        Ok(Self { runtime: runtime.clone(), executable: runtime.compile(&module.build()?)? })
    }
}
// ANCHOR_END: trace

// ANCHOR: call
impl Function {
    /// Runs the function. Its first arguments are the tensors of `donated`, followed by those of `read`. Results may
    /// reuse the memory of donated tensors.
    pub fn call(&self, donated: Vec<Tensor>, read: &[&Tensor]) -> Result<Vec<Tensor>> {
        let donated = donated.into_iter().map(|tensor| tensor.into_buffer().map(Input::Donate));
        let read = read.iter().map(|tensor| Ok(Input::Borrow(tensor.buffer())));
        let inputs = donated.chain(read).collect::<Result<Vec<_>>>()?;
        let run = self.executable.execute_with(inputs, &ExecuteOptions::default())?;
        run.outputs.into_iter().map(|output| Tensor::from_buffer(&self.runtime, output)).collect()
    }
}
// ANCHOR_END: call
