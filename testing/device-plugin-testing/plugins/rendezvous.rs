//! A plugin whose clients find each other through a key-value store. Each process has one device, which the other
//! processes list but cannot address.
//!
//! The options are `node_id` (rank of the process), `num_nodes` (number of processes), `name` (the name that the other
//! processes see) and `timeout_ms` (how long to wait for each of the other processes).
#![allow(missing_debug_implementations, reason = "a test plugin")]
#![forbid(unsafe_code)]

use std::time::Duration;

use device_plugin::features::{Distributed, Features};
use device_plugin::process::{Coordinator, CoordinatorNeed, OptionRule, When};
use device_plugin::{
    Backend, ClientOptions, DeviceInfo, DevicePlugin, Error, NamedValue, OptionSchema, OptionSpec, OptionType,
    ProcessPlan, Result, device_plugin,
};

/// The plugin type, which `#[device_plugin]` exports.
pub struct Rendezvous;

#[device_plugin(export)]
impl DevicePlugin for Rendezvous {
    const NAME: &'static str = "rendezvous";
    type Backend = RendezvousDevice;

    fn options() -> OptionSchema {
        OptionSchema::only([
            OptionSpec::new("node_id", OptionType::Int64, "rank of the process"),
            OptionSpec::new("num_nodes", OptionType::Int64, "number of processes"),
            OptionSpec::new("name", OptionType::String, "how the other processes know this one"),
            OptionSpec::new("timeout_ms", OptionType::Int64, "how long to wait for each of them"),
        ])
    }

    fn process() -> ProcessPlan {
        let option = |name, value| OptionRule {
            when: vec![When::MultiProcess],
            ..OptionRule::new(name, OptionType::Int64, value)
        };
        ProcessPlan {
            options: vec![option("node_id", "{global_rank}"), option("num_nodes", "{world_size}")],
            coordinator: Coordinator { need: CoordinatorNeed::MultiProcess, ..Coordinator::default() },
            ..ProcessPlan::default()
        }
    }
}

/// A backend that lists one device for each process. Only the device of its own process is addressable.
pub struct RendezvousDevice {
    node: i32,
    /// Names of all processes, in the order of their ranks.
    names: Vec<String>,
}

fn key(node: i32) -> String {
    format!("node/{node}")
}

/// Reads an option that is a non-negative integer.
fn count(options: &ClientOptions, name: &str, default: i32) -> Result<i32> {
    let Some(value) = options.int(name)? else { return Ok(default) };
    let count = i32::try_from(value).ok().filter(|count| *count >= 0);
    count.ok_or_else(|| Error::invalid_argument(format!("option {name} is {value}; it counts from 0")))
}

impl Backend for RendezvousDevice {
    device_plugin_testing::host_memory!();
    device_plugin_testing::no_programs!();

    const FEATURES: Features<Self> = Features::none().distributed();

    fn create(options: &ClientOptions) -> Result<Self> {
        options.expect_only(&["node_id", "num_nodes", "name", "timeout_ms"])?;
        let (node, nodes) = (count(options, "node_id", 0)?, count(options, "num_nodes", 1)?);
        if node >= nodes {
            return Err(Error::invalid_argument(format!("node_id {node} is not below num_nodes {nodes}")));
        }
        let timeout = u64::try_from(options.int("timeout_ms")?.unwrap_or(60_000));
        let timeout = timeout.map_err(|_| Error::invalid_argument("timeout_ms is negative"))?;
        let name = options.get("name").map_or_else(|| format!("process {node}"), ToString::to_string);
        let mut names = vec![name.clone()];
        if nodes > 1 {
            let store = options.key_value_store();
            let store = store.ok_or_else(|| Error::failed_precondition("several processes need a key-value store"))?;
            store.put(&key(node), name.as_bytes())?;
            let wait = |other| {
                let value = store.get(&key(other), Duration::from_millis(timeout))?;
                String::from_utf8(value)
                    .map_err(|_| Error::internal(format!("the name of process {other} is not text in UTF-8")))
            };
            names = (0..nodes).map(wait).collect::<Result<_>>()?;
        }
        Ok(Self { node, names })
    }

    fn devices(&self) -> Vec<DeviceInfo> {
        let all = (0i32..).zip(&self.names);
        all.map(|(node, name)| {
            let mut device = DeviceInfo::new(node, "rendezvous");
            device.process_index = node;
            device.local_hardware_id = if node == self.node { 0 } else { -1 };
            device.addressable = node == self.node;
            device.attributes = vec![NamedValue::new("name", name.as_str())];
            device
        })
        .collect()
    }
}

impl Distributed for RendezvousDevice {
    fn process_index(&self) -> i32 {
        self.node
    }
}
