//! A plugin whose programs exchange values with the host, for the tests of `pjrt conform`. The environment variable
//! `HOST_TRANSFERS_PLUGIN` selects a fault.
#![allow(missing_debug_implementations, reason = "a test plugin")]
#![forbid(unsafe_code)]

use std::sync::Arc;

use device_plugin::stablehlo::ir::{OpKind, ValueId};
use device_plugin::{
    Backend, CompileOptions, Compiled, DevicePlugin, Event, HostChannels, Launch, Program, Result, StablehloVersions,
    device_plugin, stablehlo,
};

/// The plugin type, which `#[device_plugin]` exports.
pub struct HostTransfers;

#[device_plugin(export)]
impl DevicePlugin for HostTransfers {
    const NAME: &'static str = "host_transfers";
    type Backend = Device;

    fn stablehlo_versions() -> Option<StablehloVersions> {
        Some(stablehlo::VERSIONS)
    }
}

/// A device in host memory that runs only the operations that send and receive.
pub struct Device;

/// A compiled program. The fields contain indices into a table of values.
pub struct Executable {
    values: usize,
    arguments: Vec<usize>,
    steps: Vec<Step>,
    outputs: Vec<usize>,
}

/// A transfer: the index of the value, and its channel.
enum Step {
    Send(usize, i64),
    /// The last field is the size of the value in bytes.
    Receive(usize, i64, usize),
}

fn fault() -> String {
    std::env::var("HOST_TRANSFERS_PLUGIN").unwrap_or_default()
}

fn index(value: &ValueId) -> usize {
    value.0 as usize
}

/// Sends a value in two chunks, with the fault that `HOST_TRANSFERS_PLUGIN` selects.
fn send(channels: &HostChannels, channel: i64, value: &[u8]) -> Result<()> {
    let fault = fault();
    let mut value = value.to_vec();
    let total = if fault == "wrong_total" { 4 } else { value.len() };
    if fault == "reversed" {
        value.reverse();
    }
    let (first, second) = value.split_at(value.len() / 2);
    let sent = channels
        .send(channel, first.to_vec(), total, fault == "early_end")
        .and_then(|()| if fault == "half" { Ok(()) } else { channels.send(channel, second.to_vec(), total, true) });
    if fault == "lost_error" { Ok(()) } else { sent }
}

fn receive(channels: &HostChannels, channel: i64, size: usize) -> Result<Arc<[u8]>> {
    let value = channels.recv(channel, size, 4)?.collect()?;
    Ok(if fault() == "zeros" { vec![0; size].into() } else { value.into() })
}

impl Backend for Device {
    device_plugin_testing::unit_device!("host_transfers");
    device_plugin_testing::host_memory!();

    type Executable = Executable;

    fn compile(&self, program: &Program, _: &CompileOptions) -> Result<Compiled<Executable>> {
        let module = stablehlo::parse(program, stablehlo::VerifyLevel::STRUCTURE)?;
        let (info, main) = (stablehlo::info(&module)?, stablehlo::entry(&module)?);
        let (mut steps, mut outputs) = (Vec::new(), Vec::new());
        for op in &main.body.ops {
            match (&op.kind, op.operands.as_slice(), op.results.as_slice()) {
                (OpKind::CreateToken, [], [_]) => {}
                (OpKind::Send { channel, is_host_transfer: true, .. }, [value, _], [_]) => {
                    steps.push(Step::Send(index(value), channel.id));
                }
                (OpKind::Recv { channel, is_host_transfer: true, .. }, [_], [to, _]) => {
                    let size = stablehlo::shape(main.ty(*to))?.host_size().unwrap_or(0);
                    steps.push(Step::Receive(index(to), channel.id, size));
                }
                (OpKind::Return, values, []) => outputs.extend(values.iter().map(index)),
                _ => return Err(stablehlo::unsupported(&module, op)),
            }
        }
        let arguments = main.args().iter().map(index).collect();
        Ok(Compiled::new(Executable { values: main.values.len(), arguments, steps, outputs }, info))
    }

    fn execute(&self, executable: &Arc<Executable>, launch: &mut Launch<'_, Self>) -> Result<Event> {
        let mut values: Vec<Arc<[u8]>> = vec![Arc::from([]); executable.values];
        for (input, argument) in executable.arguments.iter().enumerate() {
            values[*argument] = launch.inputs[input].clone();
        }
        for step in &executable.steps {
            match step {
                Step::Send(value, channel) => send(&launch.channels, *channel, &values[*value])?,
                Step::Receive(to, channel, size) => values[*to] = receive(&launch.channels, *channel, *size)?,
            }
        }
        executable.outputs.iter().try_for_each(|output| launch.outputs.push(values[*output].clone()))?;
        Ok(Event::ready())
    }
}
