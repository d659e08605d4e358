//! A plugin that takes part in a measurement.

use pjrt::{
    Buffer, Client, CompileOptions, DeviceAssignment, ElementType, HostArray, LoadedExecutable, Outputs, Program,
    Upload,
};

use crate::{Case, Error};

/// A plugin's client, and its name in the report. Programs run on the client's first addressable device.
#[derive(Clone, Debug)]
pub struct Side {
    name: String,
    client: Client,
}

/// A case that was compiled on a side, with its inputs on the device.
pub(crate) struct Compiled<'a> {
    side: &'a Side,
    case: &'a Case,
    program: &'a Program,
    options: CompileOptions,
    executable: LoadedExecutable,
    inputs: Vec<Buffer>,
}

impl Side {
    /// Creates a side from a plugin's client and its name in the report.
    #[must_use]
    pub fn new(name: impl Into<String>, client: Client) -> Self {
        Self { name: name.into(), client }
    }

    /// Returns the name in the report.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the client.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Compiles a case and uploads its inputs. `index` is the index of this side.
    pub(crate) fn compile<'a>(&'a self, index: usize, case: &'a Case) -> Result<Compiled<'a>, Error> {
        let compile = |source| self.error(case, "compile", source);
        let devices = self.client.addressable_devices().map_err(compile)?;
        let Some(device) = devices.into_iter().next() else {
            return Err(Error::NoDevice { side: self.name.clone() });
        };
        let mut options = CompileOptions::default();
        options.device_assignment = DeviceAssignment::new(1, 1, vec![i64::from(device.id().map_err(compile)?)]);
        let program = case.form(index);
        let executable = self.client.compile(program, &options).map_err(compile)?;
        let upload = |array: &HostArray| self.client.upload(Upload::of(array.bytes()).shape(array.shape()).to(&device));
        let inputs: Result<_, _> = case.inputs.iter().map(upload).collect();
        let inputs = inputs.map_err(|source| self.error(case, "upload", source))?;
        Ok(Compiled { side: self, case, program, options, executable, inputs })
    }

    fn error(&self, case: &Case, step: &'static str, source: pjrt::Error) -> Error {
        Error::Plugin { case: case.name.clone(), side: self.name.clone(), step, source }
    }
}

impl Compiled<'_> {
    /// Compiles the program again, and destroys the executable.
    pub(crate) fn compile_again(&self) -> Result<(), Error> {
        let compiled = self.side.client.compile(self.program, &self.options);
        compiled.map(drop).map_err(|source| self.side.error(self.case, "compile", source))
    }

    /// Executes the program once, and waits for the outputs.
    pub(crate) fn execute(&self) -> Result<Outputs, Error> {
        let inputs: Vec<&Buffer> = self.inputs.iter().collect();
        let executed = self.executable.execute(&inputs).and_then(|outputs| {
            outputs.iter().try_for_each(Buffer::wait)?;
            Ok(outputs)
        });
        executed.map_err(|source| self.side.error(self.case, "execute", source))
    }

    /// Executes the program once, and copies the outputs to the host.
    pub(crate) fn outputs(&self) -> Result<Vec<HostArray>, Error> {
        let read = |output: &Buffer| match output.shape()? {
            shape if shape.element_type == ElementType::Token => HostArray::new(shape.clone(), Vec::new()),
            _ => output.download().array(),
        };
        let outputs: Result<_, _> = self.execute()?.iter().map(read).collect();
        outputs.map_err(|source| self.side.error(self.case, "read of an output", source))
    }
}
