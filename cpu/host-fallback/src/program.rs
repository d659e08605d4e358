//! Compiles a function of a module, and runs it on the host.

use std::fmt;

use stablehlo::ir::{Module, OpKind};
use stablehlo_cpu::{Pool, Program, RunError, Tensor, compile};
use stablehlo_passes::extract;

use crate::error::{Error, at};
use crate::support::check_device;

/// Maximum number of ops that an error of a run lists.
const LISTED: usize = 8;

/// A function that is compiled for the host. Several threads may run it at the same time.
pub struct HostProgram {
    function: String,
    /// The ops and their source locations, for errors.
    ops: String,
    program: Program,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
}

impl HostProgram {
    /// Compiles a function of the module, such as one that [`outline_unsupported`](crate::outline_unsupported) created.
    ///
    /// # Errors
    ///
    /// Returns an error if the function does not exist, or if the engine does not support one of its ops. The error
    /// names the op, its types and its source location. Collectives, `partition_id` and `replica_id` are not supported,
    /// because the host does not know the device.
    pub fn compile(module: &Module, function: &str) -> Result<Self, Error> {
        let func = module.func(function).ok_or_else(|| Error::NoFunction(function.to_owned()))?;
        let part = extract(module, func.clone());
        check_device(part.funcs.iter().flat_map(|func| &func.body.ops), module)?;
        let program = compile(&part)?;
        let bounded = |what, index| Err(Error::Bounded { function: function.to_owned(), what, index });
        let (parameters, outputs) = (program.parameters(), program.outputs());
        if let Some(index) = (0..parameters.len()).find(|&index| program.is_bounded_parameter(index)) {
            return bounded("argument", index);
        }
        if let Some(index) = (0..outputs.len()).find(|&index| program.is_bounded_output(index)) {
            return bounded("result", index);
        }
        let is_listed = |kind: &OpKind| !matches!(kind, OpKind::Constant(_) | OpKind::Iota { .. } | OpKind::Return);
        let mut ops = func.body.ops.iter().filter(|op| is_listed(&op.kind));
        let names = ops.by_ref().take(LISTED).map(|op| op.kind.name() + &at(&module.location(op.location)));
        let mut listed = names.collect::<Vec<_>>().join(", ");
        match ops.count() {
            0 => {}
            more => listed += &format!(" and {more} more"),
        }
        Ok(Self {
            function: function.to_owned(),
            ops: listed,
            inputs: parameters.iter().map(|parameter| parameter.ty.bytes()).collect(),
            outputs: outputs.iter().map(|ty| ty.bytes()).collect(),
            program,
        })
    }

    /// Returns the name of the function.
    #[must_use]
    pub fn function(&self) -> &str {
        &self.function
    }

    /// Returns the size of each argument in bytes. A token has no bytes.
    #[must_use]
    pub fn input_sizes(&self) -> &[usize] {
        &self.inputs
    }

    /// Returns the size of each result in bytes. A token has no bytes.
    #[must_use]
    pub fn output_sizes(&self) -> &[usize] {
        &self.outputs
    }

    /// Runs the function on arrays in the caller's memory, and copies the results to `outputs`. The arrays are dense
    /// and row-major, in the machine's byte order. Elements of less than a byte take one byte each.
    ///
    /// [`run_with`](Self::run_with) needs no copies.
    ///
    /// # Errors
    ///
    /// Returns an error if the number or the sizes of the arrays are wrong, if there is not enough memory, or if the
    /// handler of a custom call fails. If a run fails, the contents of `outputs` are not specified.
    pub fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), Error> {
        self.check("argument", &self.inputs, inputs.iter().map(|input| input.len()))?;
        self.check("result", &self.outputs, outputs.iter().map(|output| output.len()))?;
        self.run_with(
            |index, memory| {
                memory.copy_from_slice(inputs[index]);
                Ok(())
            },
            |index, memory| {
                outputs[index].copy_from_slice(memory);
                Ok(())
            },
        )
    }

    /// Runs the function on arrays in its own memory. Calls `read` with the index of each argument and the memory for
    /// it, before the run. Calls `write` with the index and the elements of each result, after the run. The functions
    /// can therefore copy from the device and to the device directly. The memory is aligned to 64 bytes. The arrays
    /// have the form that [`run`](Self::run) describes.
    ///
    /// # Errors
    ///
    /// Returns the first error of `read` or `write`. Returns an error if there is not enough memory, or if the handler
    /// of a custom call fails.
    pub fn run_with<E: From<Error>>(
        &self,
        mut read: impl FnMut(usize, &mut [u8]) -> Result<(), E>,
        mut write: impl FnMut(usize, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let pool = Pool::global();
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for (index, parameter) in self.program.parameters().iter().enumerate() {
            let ty = &parameter.ty;
            let mut tensor = Tensor::uninit(pool, ty.dtype, &ty.dims).map_err(|error| self.failed(error))?;
            if let Some(memory) = tensor.bytes_mut() {
                read(index, memory)?;
            }
            inputs.push(tensor);
        }
        let outputs = self.program.run(inputs).map_err(|error| self.failed(error))?;
        outputs.iter().enumerate().try_for_each(|(index, output)| write(index, output.bytes()))
    }

    fn failed(&self, source: RunError) -> Error {
        Error::Run { function: self.function.clone(), ops: self.ops.clone(), source }
    }

    /// Checks the sizes of the caller's arrays.
    fn check(&self, what: &str, want: &[usize], got: impl ExactSizeIterator<Item = usize>) -> Result<(), Error> {
        let fault = |message| Err(Error::Arrays { function: self.function.clone(), message });
        if got.len() != want.len() {
            return fault(format!("needs {} {what}s, but {} were passed", want.len(), got.len()));
        }
        match want.iter().zip(got).enumerate().find(|(_, (want, got))| *want != got) {
            Some((index, (want, got))) => fault(format!("{what} {index} has {want} bytes, but {got} were passed")),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for HostProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostProgram").field("function", &self.function).field("ops", &self.ops).finish_non_exhaustive()
    }
}
