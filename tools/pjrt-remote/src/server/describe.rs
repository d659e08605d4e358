//! Descriptions of the served client and of compiled programs, as messages.

use pjrt::extensions::{PluginExtension as _, Shardings};
use pjrt::{Client, Device, Error, LoadedExecutable, Memory, NamedValue, Program, Shape};

use crate::wire::messages as wire;

impl From<&Error> for wire::Failure {
    fn from(error: &Error) -> Self {
        Self::new(error.code().as_raw(), error.message(), error.payloads())
    }
}

fn values(values: Vec<NamedValue>) -> Vec<wire::NamedValue> {
    values.into_iter().map(wire::NamedValue::from).collect()
}

/// Returns the first message of the server. `devices` and `memories` have the order in which messages name them.
pub(crate) fn welcome(client: &Client, devices: &[Device], memories: &[Memory]) -> Result<wire::Welcome, Error> {
    let topology = client.topology().and_then(|topology| topology.attributes());
    Ok(wire::Welcome {
        version: wire::NEWEST,
        platform_name: client.platform_name()?,
        platform_version: client.platform_version()?,
        process_index: client.process_index().unwrap_or_default(),
        devices: devices.iter().map(device).collect::<Result<_, _>>()?,
        memories: memories.iter().map(|own| memory(own, devices)).collect::<Result<_, _>>()?,
        plugin_attributes: values(client.plugin().attributes()?),
        // Plugins need not describe their topology.
        topology_attributes: values(topology.unwrap_or_default()),
        ..wire::Welcome::default()
    })
}

fn device(device: &Device) -> Result<wire::Device, Error> {
    let description = device.description()?;
    // Plugins before API 0.92 report the attributes only with the description.
    let attributes = device.attributes().or_else(|_| description.attributes());
    Ok(wire::Device {
        id: description.id()?,
        process_index: description.process_index()?,
        local_hardware_id: device.local_hardware_id().unwrap_or(-1),
        addressable: device.is_addressable()?,
        kind: description.kind()?,
        debug_string: description.debug_string()?,
        display_string: description.display_string()?,
        attributes: values(attributes.unwrap_or_default()),
    })
}

fn memory(memory: &Memory, devices: &[Device]) -> Result<wire::Memory, Error> {
    let served = memory.devices()?.into_iter().filter(|device| devices.contains(device));
    let ids = served.map(|device| device.id()).collect::<Result<_, _>>()?;
    Ok(wire::Memory { kind: memory.kind()?, kind_id: memory.kind_id().unwrap_or_default(), devices: ids })
}

/// Returns the properties of a compiled program, and its optimized form.
pub(crate) fn compiled(
    ticket: u64,
    client: &Client,
    loaded: &LoadedExecutable,
    outputs: &[Shape],
) -> Result<(wire::Compiled, Option<Program>), Error> {
    let executable = loaded.executable();
    let parameters = loaded.parameters().and_then(|all| {
        let shapes = all.iter().map(|parameter| parameter.shape().map(wire::Shape::from)).collect::<Option<_>>()?;
        Some(wire::Shapes { shapes })
    });
    let shardings = Shardings::of(&client.plugin());
    let (mut output_shardings, mut parameter_shardings) = (None, None);
    if let Some(extension) = shardings {
        let convert = |shardings| wire::Shardings { shardings };
        output_shardings = extension.output_shardings(executable).ok().flatten().map(convert);
        parameter_shardings = extension.parameter_shardings(executable).ok().flatten().map(convert);
    }
    // Frameworks can do without the properties below that a plugin does not report.
    let program = executable.optimized_program().ok();
    let message = wire::Compiled {
        ticket,
        name: executable.name()?,
        outputs: outputs.iter().map(wire::Shape::from).collect(),
        parameters,
        output_memory_kinds: executable.output_memory_kinds().unwrap_or_default(),
        parameter_memory_kinds: executable.parameter_memory_kinds().unwrap_or_default(),
        output_shardings,
        parameter_shardings,
        fingerprint: executable.fingerprint().ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        size_of_generated_code: executable.size_of_generated_code().unwrap_or(-1),
        format: program.as_ref().map(|program| program.format().to_owned()).unwrap_or_default(),
        bytes: program.as_ref().map_or(0, |program| program.code().len() as u64),
    };
    Ok((message, program))
}
