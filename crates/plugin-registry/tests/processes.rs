//! Tests that the clients of two processes find each other through a store on a Redis server or in an etcd cluster.
//!
//! The parent process starts this test binary twice. Each child detects its rank from its environment, like a program
//! under torchrun. It then creates a client of the plugin in `plugins/rendezvous.rs` of `device-plugin-testing`.

#![allow(clippy::unwrap_used, reason = "a test program")]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use device_plugin::process::{Coordinator, CoordinatorNeed, OptionRule, When};
use device_plugin::{Environment, OptionType, ProcessPlan, ProcessTopology, Value};
use device_plugin_testing::{Server, ServerKind};
use pjrt::{ClientOptions, ErrorCode, KeyValueStore, Plugin};
use plugin_registry::key_value::{Etcd, InProcess, Prefixed, Redis};

fn library() -> PathBuf {
    device_plugin_testing::library("rendezvous_plugin")
}

fn plugin() -> Plugin {
    // SAFETY: R1 (the library is trusted): the library is part of this workspace, and its author promises C1 to C11.
    unsafe { Plugin::load(library()) }.unwrap()
}

/// Returns the options and the coordinator that the plugin needs in each process.
fn plan() -> ProcessPlan {
    let option =
        |name, value| OptionRule { when: vec![When::MultiProcess], ..OptionRule::new(name, OptionType::Int64, value) };
    ProcessPlan {
        options: vec![option("node_id", "{global_rank}"), option("num_nodes", "{world_size}")],
        coordinator: Coordinator { need: CoordinatorNeed::MultiProcess, ..Coordinator::default() },
        ..ProcessPlan::default()
    }
}

/// Creates a client, and returns `process name addressable` for each device of all processes, separated by `;`.
fn rendezvous(
    environment: &Environment,
    store: Arc<dyn KeyValueStore>,
    name: &str,
    timeout_ms: i64,
) -> Result<String, pjrt::Error> {
    let topology = ProcessTopology::detect(environment).unwrap();
    let plan = plan().resolve(&topology, environment).unwrap();
    assert_eq!(plan.coordinator.is_some(), topology.world_size() > 1);
    let mut options = ClientOptions::new().with("name", name).with("timeout_ms", timeout_ms);
    options.extend(plan.create_options());
    let client = plugin().client(&options.with_key_value_store(store))?;
    assert_eq!(client.process_index()?, i32::try_from(topology.global_rank()).unwrap());
    let devices = client.devices()?.into_iter().map(|device| {
        let attributes = device.description()?.attributes()?;
        let name = attributes.into_iter().find(|attribute| attribute.name == "name").map(|name| name.value);
        let Some(Value::String(name)) = name else { panic!("device without a name") };
        Ok(format!("{} {name} {}", device.process_index()?, device.is_addressable()?))
    });
    Ok(devices.collect::<Result<Vec<_>, pjrt::Error>>()?.join(";"))
}

/// Environment variables in which the parent passes the address of the server and a timeout in milliseconds to a child.
const ADDRESS: &str = "RENDEZVOUS_TEST_ADDRESS";
const TIMEOUT: &str = "RENDEZVOUS_TEST_TIMEOUT_MS";

/// Creates the clients, if this process is a child that the test started. Otherwise, returns `false`.
fn is_a_started_process() -> bool {
    let environment = Environment::of_this_process();
    let (Some(address), Some(timeout)) = (environment.get(ADDRESS), environment.get(TIMEOUT)) else { return false };
    let rank = environment.get("RANK").unwrap();
    let store: Arc<dyn KeyValueStore> = if address.starts_with("redis://") {
        Arc::new(Redis::open(address).unwrap())
    } else {
        Arc::new(Etcd::open(address).unwrap())
    };
    // Both plugins use the same keys, which the prefixes keep apart.
    for plugin in ["red", "blue"] {
        let part = Arc::new(Prefixed::new(store.clone(), "run1", plugin));
        match rendezvous(&environment, part, &format!("{plugin}{rank}"), timeout.parse().unwrap()) {
            Ok(seen) => println!("SEEN {plugin} {seen}"),
            Err(error) => println!("FAILED {plugin} {} {error}", error.code().as_raw()),
        }
    }
    true
}

/// Starts this test again in a child process with the given rank.
fn start(test: &str, server: &Server, rank: u32, world: u32, timeout_ms: u32) -> Child {
    let (rank, world) = (rank.to_string(), world.to_string());
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env_clear()
        .envs([("RANK", &rank), ("LOCAL_RANK", &rank), ("WORLD_SIZE", &world), ("LOCAL_WORLD_SIZE", &world)])
        .envs([("MASTER_ADDR", "127.0.0.1".to_owned()), (ADDRESS, server.address()), (TIMEOUT, timeout_ms.to_string())])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits for a child, and returns the lines that it printed for the test.
fn finish(child: Child) -> Vec<String> {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    // The test harness prints the name of the test at the start of the same line.
    let said = text.lines().filter_map(|line| Some(&line[line.find("SEEN ").or_else(|| line.find("FAILED "))?..]));
    said.map(str::to_owned).collect()
}

/// Tests two processes whose clients see each other's devices.
fn two_processes(test: &str, kind: ServerKind) {
    if is_a_started_process() {
        return;
    }
    let Some(server) = kind.start(test) else { return };
    library();
    let children = [start(test, &server, 0, 2, 60_000), start(test, &server, 1, 2, 60_000)];
    let [first, second] = children.map(finish);
    assert_eq!(first, ["SEEN red 0 red0 true;1 red1 false", "SEEN blue 0 blue0 true;1 blue1 false"]);
    assert_eq!(second, ["SEEN red 0 red0 false;1 red1 true", "SEEN blue 0 blue0 false;1 blue1 true"]);
}

#[test]
fn two_processes_meet_through_redis() {
    two_processes("two_processes_meet_through_redis", ServerKind::Redis);
}

#[test]
fn two_processes_meet_through_etcd() {
    two_processes("two_processes_meet_through_etcd", ServerKind::Etcd);
}

/// Tests a process that waits for a second process, which never starts.
fn one_of_two_processes(test: &str, kind: ServerKind) {
    if is_a_started_process() {
        return;
    }
    let Some(server) = kind.start(test) else { return };
    library();
    let said = finish(start(test, &server, 0, 2, 200));
    assert_eq!(said.len(), 2, "{said:?}");
    for (line, key) in said.iter().zip(["\"pjrt/4.run1/3.red/node/1\"", "\"pjrt/4.run1/4.blue/node/1\""]) {
        let code = format!(" {} ", ErrorCode::DEADLINE_EXCEEDED.as_raw());
        assert!(line.contains(&code) && line.contains(key), "{line}");
    }
}

#[test]
fn missing_process_is_named_through_redis() {
    one_of_two_processes("missing_process_is_named_through_redis", ServerKind::Redis);
}

#[test]
fn missing_process_is_named_through_etcd() {
    one_of_two_processes("missing_process_is_named_through_etcd", ServerKind::Etcd);
}

#[test]
fn clients_of_one_process_exchange_keys() {
    let store: Arc<dyn KeyValueStore> = Arc::new(InProcess::new());
    let environment =
        |rank: &str| Environment::from([("RANK", rank), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "localhost")]);
    let seen = std::thread::scope(|scope| {
        let clients = ["0", "1"].map(|rank| {
            let part = Arc::new(Prefixed::new(store.clone(), "run", "rendezvous"));
            scope.spawn(move || rendezvous(&environment(rank), part, rank, 60_000).unwrap())
        });
        clients.map(|client| client.join().unwrap())
    });
    assert_eq!(seen, ["0 0 true;1 1 false", "0 0 false;1 1 true"]);
}

#[test]
fn single_process_needs_no_store() {
    let empty = Environment::new();
    let seen = rendezvous(&empty, Arc::new(InProcess::new()), "me", 0).unwrap();
    assert_eq!(seen, "0 me true");
}
