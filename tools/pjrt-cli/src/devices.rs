//! `pjrt devices`: lists a plugin's devices and their memories.

use pjrt::{Client, Device, Error, ErrorCode, ErrorKind, NamedValue, Value};
use serde_json::{Map, json};

use crate::open::ClientArgs;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  pjrt devices
  pjrt devices -p cuda -O allocator=platform --json")]
pub(crate) struct Args {
    #[command(flatten)]
    client: ClientArgs,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args) -> Result<String, String> {
    let client = args.client.client()?;
    let text = |error: Error| error.to_string();
    if args.json { Ok(format!("{:#}\n", as_json(&client).map_err(text)?)) } else { as_text(&client).map_err(text) }
}

fn as_text(client: &Client) -> Result<String, Error> {
    let mut out = String::new();
    line!(out, "platform {} ({})", client.platform_name()?, one_line(&client.platform_version()?));
    line!(out, "process {}", client.process_index()?);
    for device in client.devices()? {
        let addressable = if device.is_addressable()? { "" } else { ", not addressable" };
        line!(
            out,
            "device {}: {} (process {}{addressable})",
            device.id()?,
            device.kind()?,
            device.description()?.process_index()?
        );
        if !device.is_addressable()? {
            continue;
        }
        let default = optional(device.default_memory())?.map(|memory| memory.kind()).transpose()?;
        for memory in optional(device.memories())?.unwrap_or_default() {
            let kind = memory.kind()?;
            line!(out, "  memory {kind}{}", if default.as_ref() == Some(&kind) { " (default)" } else { "" });
        }
        for NamedValue { name, value } in attributes(&device)? {
            line!(out, "  {name} = {value}");
        }
        if let Some(stats) = optional(device.memory_stats())? {
            let limit = stats.bytes_limit.map_or_else(String::new, |limit| format!(" of {limit}"));
            line!(out, "  bytes in use {}{limit}", stats.bytes_in_use);
        }
    }
    Ok(out)
}

fn as_json(client: &Client) -> Result<serde_json::Value, Error> {
    let mut devices = Vec::new();
    for device in client.devices()? {
        let addressable = device.is_addressable()?;
        let memories = if addressable { optional(device.memories())?.unwrap_or_default() } else { Vec::new() };
        let memories = memories.iter().map(|memory| memory.kind()).collect::<Result<Vec<_>, _>>()?;
        let default = if addressable { optional(device.default_memory())? } else { None };
        devices.push(json!({
            "id": device.id()?,
            "kind": device.kind()?,
            "process_index": device.description()?.process_index()?,
            "local_hardware_id": device.local_hardware_id()?,
            "addressable": addressable,
            "memories": memories,
            "default_memory": default.map(|memory| memory.kind()).transpose()?,
            "attributes": values_json(&attributes(&device)?),
        }));
    }
    Ok(json!({
        "platform_name": client.platform_name()?,
        "platform_version": client.platform_version()?,
        "process_index": client.process_index()?,
        "devices": devices,
    }))
}

/// Returns the attributes of the device. If the plugin does not implement them, returns the attributes of the device's
/// description.
fn attributes(device: &Device) -> Result<Vec<NamedValue>, Error> {
    match optional(device.attributes())? {
        Some(attributes) => Ok(attributes),
        None => device.description()?.attributes(),
    }
}

/// Returns `None` if the plugin's function table lacks the function, or if the function returns `UNIMPLEMENTED`.
fn optional<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::Unsupported || error.code() == ErrorCode::UNIMPLEMENTED => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn values_json(values: &[NamedValue]) -> Map<String, serde_json::Value> {
    let value = |value: &Value| match value {
        Value::String(text) => json!(text),
        Value::Int64(number) => json!(number),
        Value::Int64List(list) => json!(list),
        Value::Float(number) => json!(number),
        Value::Bool(flag) => json!(flag),
        other => json!(other.to_string()),
    };
    values.iter().map(|named| (named.name.clone(), value(&named.value))).collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
