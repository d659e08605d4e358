//! Runs as one of several processes. Detects its rank, configures a plugin for this rank, and creates a client that
//! finds the clients of all other processes.
//!
//! Arguments: the path of the plugin's library, the address of a Redis server (`redis://host:port`) or of an etcd
//! cluster (`http://host:port`), and a name that is unique to this run.

use std::sync::Arc;

use device_plugin::process::{Before, Coordinator, CoordinatorNeed, Explicit, OptionRule, ThisHost, When, detect};
use device_plugin::{Environment, OptionType, ProcessPlan};
use pjrt::{ClientOptions, KeyValueStore};
use plugin_registry::key_value::{Etcd, Prefixed, Redis};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [library, address, run] = arguments.as_slice() else { return Err("arguments: library, address, run".into()) };

    // Detect the rank of this process and the number of processes.
    let environment = Environment::of_this_process();
    let topology = detect(&environment, Some(&ThisHost), &Explicit::default())?.topology;

    // Define the options and the coordinator that the plugin needs in each process. A plugin's manifest usually
    // contains these rules.
    let option =
        |name, value| OptionRule { when: vec![When::MultiProcess], ..OptionRule::new(name, OptionType::Int64, value) };
    let plan = ProcessPlan {
        options: vec![option("node_id", "{global_rank}"), option("num_nodes", "{world_size}")],
        coordinator: Coordinator { need: CoordinatorNeed::MultiProcess, ..Coordinator::default() },
        ..ProcessPlan::default()
    };
    let needs = plan.resolve(&topology, &environment)?;
    if needs.changes(Before::Client).next().is_some() {
        return Err(format!("start this process with these variables:\n{needs}").into());
    }

    // SAFETY: R1 (the library is trusted): whoever runs this example trusts the library.
    let plugin = unsafe { plugin_registry::open_path(library) }?;
    let mut options = ClientOptions::new();
    options.extend(needs.create_options());
    if needs.coordinator.is_some() {
        let store: Arc<dyn KeyValueStore> =
            if address.starts_with("http") { Arc::new(Etcd::open(address)?) } else { Arc::new(Redis::open(address)?) };
        options = options.with_key_value_store(Arc::new(Prefixed::new(store, run, "rendezvous")));
    }
    let client = plugin.client(&options)?;

    let mut seen = Vec::new();
    for device in client.devices()? {
        let whose = if device.is_addressable()? { "mine" } else { "another's" };
        seen.push(format!("device {} ({whose})", device.id()?));
    }
    println!("process {} of {}: {}", topology.global_rank(), topology.world_size(), seen.join(", "));
    Ok(())
}
