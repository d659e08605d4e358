//! The PJRT plugin `minimal`: a device in host memory that adds 32-bit floats. JAX runs `x + 1` on it.
//!
//! Read the file from top to bottom: the plugin, its device, transfers, compilation, execution. The SDK implements
//! events, errors, reference counts, strides, layouts and the C function table.
#![forbid(unsafe_code)]

use std::sync::Arc;

use device_plugin::capabilities::{ProgramFormat, ProgramFormats};
use device_plugin::stablehlo::ir::{Binary, OpKind, ValueId};
use device_plugin::{
    Backend, Capabilities, ClientOptions, CompileOptions, Compiled, DeviceInfo, DevicePlugin, ElementType, Error,
    Event, HostArray, Launch, Manifest, Placement, Program, Result, Shape, StablehloVersions, device_plugin, stablehlo,
};

/// The plugin. `export` defines the two C functions of its library: `GetPjrtApi`, which frameworks call, and
/// `DevicePlugin_GetDescriptor`, which describes properties of the plugin that PJRT does not cover.
pub struct Plugin;

#[device_plugin(export)]
impl DevicePlugin for Plugin {
    /// The name by which users select the plugin: `JAX_PLATFORMS=minimal`.
    const NAME: &'static str = "minimal";
    type Backend = Device;

    /// Capabilities of the device. This device reads programs in StableHLO.
    fn capabilities() -> Capabilities {
        Capabilities { program_formats: ProgramFormats::preferring(ProgramFormat::Mlir), ..Capabilities::default() }
    }

    /// StableHLO versions that the plugin reads. Frameworks send programs in one of them.
    fn stablehlo_versions() -> Option<StablehloVersions> {
        Some(stablehlo::VERSIONS)
    }

    /// Properties for users, which `pjrt inspect` shows and `pjrt package` writes into the wheel.
    fn manifest(mut manifest: Manifest) -> Manifest {
        manifest.description = env!("CARGO_PKG_DESCRIPTION").to_owned();
        manifest
    }
}

/// The only device. It has no state. A real device would store the driver's handle here.
pub struct Device;

/// A compiled program. A run fills a table with the arguments and computed values. The fields contain its indices.
pub struct Executable {
    values: usize,
    arguments: Vec<usize>,
    steps: Vec<(usize, Step)>,
    outputs: Vec<usize>,
}

/// Computes one value: a constant, the sum of two values, or a repeated scalar.
enum Step {
    Constant(Arc<[f32]>),
    Add(usize, usize),
    Fill(usize, usize),
}

impl Backend for Device {
    /// Device memory. Clones are cheap and share the memory. The SDK drops its clone when the framework deletes the
    /// buffer.
    type Buffer = Arc<[f32]>;
    type Executable = Executable;

    fn create(options: &ClientOptions) -> Result<Self> {
        options.expect_only(&[])?;
        Ok(Self)
    }

    fn devices(&self) -> Vec<DeviceInfo> {
        vec![DeviceInfo::new(0, "minimal")]
    }

    /// Copies data to the device. The SDK passes dense, row-major data.
    fn buffer_from_host(&self, host: HostArray<'_>, _: Placement) -> Result<Arc<[f32]>> {
        elements(host.shape())?;
        Ok(floats(host.bytes()))
    }

    /// Copies data to the host. The length of `to` is the host size of the buffer's shape.
    fn read(&self, buffer: &Arc<[f32]>, to: &mut [u8]) -> Result<()> {
        to.chunks_exact_mut(4).zip(buffer.iter()).for_each(|(to, value)| to.copy_from_slice(&value.to_le_bytes()));
        Ok(())
    }

    /// Compiles a program. Rejects unsupported programs, so that they do not fail during execution.
    fn compile(&self, program: &Program, _: &CompileOptions) -> Result<Compiled<Executable>> {
        let module = stablehlo::parse(program, stablehlo::VerifyLevel::STRUCTURE)?;
        let (info, main) = (stablehlo::info(&module)?, stablehlo::entry(&module)?);
        // The device must be able to hold every value. This line checks the arguments, and the loop below checks the
        // other values.
        info.parameters.iter().try_for_each(|shape| elements(shape).map(drop))?;
        let size = |value: &ValueId| elements(&stablehlo::shape(main.ty(*value))?);
        let (mut steps, mut outputs) = (Vec::new(), Vec::new());
        for op in &main.body.ops {
            match (&op.kind, op.operands.as_slice(), op.results.as_slice()) {
                (OpKind::Constant(literal), [], [to]) => {
                    let (all, data) = (size(to)?, floats(&literal.data));
                    let data = if literal.splat { vec![data[0]; all].into() } else { data };
                    steps.push((index(to), Step::Constant(data)));
                }
                (OpKind::Binary(Binary::Add), [a, b], [to]) => steps.push((index(to), Step::Add(index(a), index(b)))),
                (OpKind::BroadcastInDim { .. }, [from], [to]) if size(from)? == 1 => {
                    steps.push((index(to), Step::Fill(index(from), size(to)?)));
                }
                (OpKind::Return, values, []) => outputs.extend(values.iter().map(index)),
                // Returns an `UNIMPLEMENTED` error that names the op and the line in the user's program.
                _ => return Err(stablehlo::unsupported(&module, op)),
            }
        }
        let arguments = main.args().iter().map(index).collect();
        Ok(Compiled::new(Executable { values: main.values.len(), arguments, steps, outputs }, info))
    }

    /// Reads the inputs and pushes the outputs. All work ends before the function returns, so the event is ready.
    fn execute(&self, executable: &Arc<Executable>, launch: &mut Launch<'_, Self>) -> Result<Event> {
        let mut values: Vec<Arc<[f32]>> = vec![Arc::from([]); executable.values];
        for (input, argument) in executable.arguments.iter().enumerate() {
            values[*argument] = launch.inputs[input].clone();
        }
        for (to, step) in &executable.steps {
            values[*to] = match step {
                Step::Constant(data) => data.clone(),
                Step::Add(a, b) => values[*a].iter().zip(values[*b].iter()).map(|(a, b)| a + b).collect(),
                Step::Fill(from, times) => vec![values[*from][0]; *times].into(),
            };
        }
        executable.outputs.iter().try_for_each(|output| launch.outputs.push(values[*output].clone()))?;
        Ok(Event::ready())
    }
}

fn index(value: &ValueId) -> usize {
    value.0 as usize
}

/// Returns the number of elements of an array. Rejects arrays that the device cannot hold.
fn elements(shape: &Shape) -> Result<usize> {
    if shape.element_type != ElementType::F32 {
        return Err(Error::unimplemented(format!("{shape}: this device has only arrays of f32")));
    }
    let fitting = shape.num_elements().filter(|elements| *elements <= 1 << 28);
    fitting.ok_or_else(|| Error::resource_exhausted(format!("{shape}: this device has 1 GiB of memory")))
}

fn floats(bytes: &[u8]) -> Arc<[f32]> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}
