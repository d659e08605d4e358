//! Tests that the Python modules of a wheel apply a plugin's plan, options and shutdown in the same way as the Rust
//! crates.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::process::{Command, Output};

use crate::wheel_support::{Folder, PLUGIN};
use device_plugin::process::{
    Before, ChipProbe, Coordinator, CoordinatorNeed, DeviceShare, EnvRule, Host, HostIndex, OptionRule, Position,
    SetMode, When,
};
use device_plugin::{
    Environment, Manifest, NamedValue, OptionSchema, OptionSpec, OptionType, ProcessPlan, ProcessTopology, builtin,
    value_from_json, value_to_json,
};
use serde_json::{Value, json};

/// Runs a script in Python, with a wheel's contents in the module search path. Returns `None` if Python 3.9 or newer is
/// not installed.
fn python(test: &str, folder: &Folder, wheel: &Path, script: &str, data: &str) -> Option<Output> {
    let version = "import sys; sys.exit(sys.version_info < (3, 9))";
    if !Command::new("python3").args(["-c", version]).status().is_ok_and(|status| status.success()) {
        println!("SKIPPED {test}: no python3 of version 3.9 or later");
        return None;
    }
    let content = folder.path("content");
    zip::ZipArchive::new(std::fs::File::open(wheel).unwrap()).unwrap().extract(&content).unwrap();
    folder.write("data.json", data);
    folder.write("script.py", script);
    let mut python = Command::new("python3");
    python.arg("-B").arg(folder.path("script.py")).arg(folder.path("data.json")).env("PYTHONPATH", content);
    Some(python.output().unwrap())
}

fn answers(test: &str, script: &str, cases: &[Value]) -> Option<Vec<Value>> {
    let folder = Folder::new(test);
    let library = folder.library("libexample.so", PLUGIN);
    let wheel = folder.package(&["--library", library.to_str().unwrap(), "--name", "example", "--version", "1"]);
    let output = python(test, &folder, &wheel, script, &json!(cases).to_string())?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answers: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answers.len(), cases.len());
    Some(answers)
}

/// Returns a plan with every kind of template, condition and option.
fn everything() -> ProcessPlan {
    let mut environment = Vec::new();
    for (index, value) in [
        "plain {{text}}",
        "{local_rank}/{local_world_size},{global_rank}/{world_size},{host_index}/{host_count}",
        "{host_in_slice}/{hosts_per_slice},{slice_index}/{slice_count}",
        "{ host_in_slice*local_world_size + local_rank }",
        "{2*3*world_size+1}",
        "{env:CORES[local_rank]|local_rank}",
        "{env:EMPTY|env:ABSENT|'a|{b}'}",
        "{env:META|'none'}",
        "{coordinator|'nowhere'}",
        "{coordinator_host|'localhost'}:62182",
        "{coordinator_port|8547}",
        "{hosts|'unknown'}",
        "{process_addresses:8476|'unknown'}",
        "{mesh_product:MESH,ALSO|env:MESH|'1'}",
    ]
    .iter()
    .enumerate()
    {
        environment.push(EnvRule::new(format!("V{index}"), *value));
    }
    let conditions = [
        When::SingleProcess,
        When::MultiProcess,
        When::SoleOnHost,
        When::SharedHost,
        When::OneDevice,
        When::AllDevices,
    ];
    for (index, when) in conditions.into_iter().enumerate() {
        environment.push(EnvRule { when: vec![when], ..EnvRule::new(format!("W{index}"), "1") });
    }
    let (set, when) = (SetMode::Override, vec![When::OneDevice]);
    environment.extend([
        EnvRule { set, when, ..EnvRule::new("CORES", "{env:CORES[local_rank]|local_rank}") },
        EnvRule { before: Before::Client, ..EnvRule::new("MESH", "9,9,9") },
        EnvRule { unless_set: vec!["MESH".to_owned()], ..EnvRule::new("UNLESS", "x") },
        EnvRule::new("EMPTY", "{env:ABSENT}"),
    ]);
    let (option, when, unless_set) = (OptionRule::new, vec![When::SharedHost], vec!["CORES".to_owned()]);
    ProcessPlan {
        environment,
        options: vec![
            option("text", OptionType::String, "{local_rank}"),
            option("number", OptionType::Int64, "{global_rank}"),
            OptionRule { when, ..option("list", OptionType::Int64List, "{local_rank}, 7") },
            option("share", OptionType::Float, "0.25"),
            OptionRule { unless_set, ..option("flag", OptionType::Bool, "true") },
        ],
        coordinator: Coordinator { need: CoordinatorNeed::MultiProcess, default_port: 1234 },
        chips: vec![ChipProbe::Variable { name: "N".to_owned() }, ChipProbe::Constant { count: 3 }],
        host_index: HostIndex::Variables { names: vec!["A".to_owned(), "B".to_owned()] },
    }
}

/// Returns the topology of every process in several arrangements of hosts, with and without the optional values.
fn topologies() -> Vec<ProcessTopology> {
    let at = |index, count| Position::new(index, count).unwrap();
    let mut topologies = vec![ProcessTopology::single()];
    for (hosts, on_host, slices) in [(1, 1, 1), (1, 2, 1), (1, 8, 1), (2, 1, 1), (2, 4, 2), (4, 4, 2), (8, 1, 4)] {
        for host in 0..hosts {
            for local in 0..on_host {
                let global = at(host * on_host + local, hosts * on_host);
                let topology = ProcessTopology::new(global, at(local, on_host), at(host, hosts)).unwrap();
                let topology = topology.with_slice(at(host / (hosts / slices), slices)).unwrap();
                let names = (0..hosts / slices).map(|index| format!("host{index}")).collect();
                let mut known = topology.clone().with_hosts(names).unwrap();
                known.attributes.insert("META".to_owned(), "m".to_owned());
                for coordinator in ["node0", "[fe80::1]:99"] {
                    known.coordinator = Some(coordinator.parse().unwrap());
                    topologies.push(known.clone());
                }
                for share in [DeviceShare::One, DeviceShare::All] {
                    let mut sharing = topology.clone();
                    sharing.device_share = share;
                    topologies.push(sharing);
                }
            }
        }
    }
    topologies
}

fn environments() -> Vec<Environment> {
    vec![
        Environment::new(),
        Environment::from([
            ("CORES", "8-9, 4,1,20-30"),
            ("MESH", "2,2,1"),
            ("ALSO", "1,2,3"),
            ("EMPTY", ""),
            ("N", "5"),
        ]),
        Environment::from([("CORES", "9-8"), ("MESH", "2,2"), ("ALSO", "1,2,3"), ("A", ""), ("B", "3"), ("N", "many")]),
        Environment::from([("V0", "plain {text}"), ("V1", "other"), ("W1", ""), ("A", "+7"), ("MESH", "wide")]),
        Environment::from([
            ("TPU_HOST_BOUNDS", "2,1,1"),
            ("TPU_CHIPS_PER_HOST_BOUNDS", "2,2,1"),
            ("TPU_WORKER_ID", "1"),
            ("TPU_VISIBLE_CHIPS", "7"),
            ("NEURON_RT_VISIBLE_CORES", "0-15"),
            ("NEURONCORE_NUM_DEVICES", "16"),
            ("GPU_NUM_DEVICES", "4"),
        ]),
    ]
}

/// The device nodes of a machine that has every kind of device.
struct Nodes;

const FOLDERS: &[(&str, &[&str])] = &[
    ("/dev", &["accel0", "accel1", "accel", "nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm"]),
    ("/dev/dri", &["card0", "renderD128", "renderD129"]),
    ("/dev/vfio", &["0", "vfio"]),
];

impl Host for Nodes {
    fn file(&self, _: &str) -> Option<String> {
        None
    }

    fn folder(&self, path: &str) -> Vec<String> {
        let found = FOLDERS.iter().find(|(folder, _)| *folder == path);
        found.map_or(Vec::new(), |(_, names)| names.iter().map(|&name| name.to_owned()).collect())
    }

    fn metadata(&self, _: &str) -> Option<String> {
        None
    }
}

const RESOLVE: &str = r#"
import json, sys
from pjrt_plugin_example import process

def of(case):
    topology = process.Topology.from_json(case["topology"])
    environment, plan = case["environment"], case["plan"]
    folders = {folder: names for folder, names in case["folders"]}
    def attempt(f):
        try:
            return f()
        except ValueError as error:
            assert str(error), "an error has a message"
            return "error"
    def resolve():
        resolved = process.resolve(plan, topology, environment)
        after = dict(environment)
        resolved.apply(after)
        steps = [[s.variable, s.value, s.effect, s.before] for s in resolved.steps]
        return {"steps": steps, "options": resolved.options, "coordinator": resolved.coordinator, "after": after}
    return {
        "plan": attempt(resolve),
        "chips": attempt(lambda: process.chip_count(plan, environment, lambda path: folders.get(path, []))),
        "host_index": attempt(lambda: process.host_index(plan, topology, environment)),
    }

print(json.dumps([of(case) for case in json.load(open(sys.argv[1]))]))
"#;

#[test]
fn plans_are_carried_out_as_in_rust() {
    let mut plans = vec![ProcessPlan::default(), everything()];
    plans.extend(["tpu", "neuron", "cuda", "rocm"].map(|name| builtin::find(name).unwrap().process));
    let mut cases = Vec::new();
    let mut expected = Vec::new();
    let (mut filled, mut refused) = (0, 0);
    for plan in &plans {
        // Write the plan to a manifest, and read its JSON form from there.
        let mut manifest = Manifest::new("example");
        manifest.process = plan.clone();
        let written: Value = serde_json::from_str(&manifest.to_json()).unwrap();
        for topology in topologies() {
            for environment in environments() {
                let variables: Value =
                    environment.iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
                cases.push(json!({
                    "plan": written["process"], "topology": topology, "environment": variables, "folders": FOLDERS,
                }));
                let resolved = match plan.resolve(&topology, &environment) {
                    Err(_) => {
                        refused += 1;
                        json!("error")
                    }
                    Ok(resolved) => {
                        filled += 1;
                        let mut after = environment.clone();
                        for (name, value) in resolved.for_child() {
                            after.set(name, value);
                        }
                        let said = serde_json::to_value(&resolved).unwrap();
                        let steps: Vec<Value> = said["steps"]
                            .as_array()
                            .unwrap()
                            .iter()
                            .map(|step| json!([step["variable"], step["value"], step["effect"], step["before"]]))
                            .collect();
                        let options: Value = resolved
                            .create_options()
                            .into_iter()
                            .map(|NamedValue { name, value }| (name, value_to_json(&value)))
                            .collect();
                        let after: Value = after.iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
                        json!({
                            "steps": steps, "options": options, "coordinator": said["coordinator"], "after": after,
                        })
                    }
                };
                let number = |answer: Result<Option<u32>, _>| answer.map_or(json!("error"), |number| json!(number));
                expected.push(json!({
                    "plan": resolved,
                    "chips": number(plan.chip_count(&environment, &Nodes)),
                    "host_index": number(plan.host_index(&topology, &environment).map(Some)),
                }));
            }
        }
    }
    assert!(cases.len() > 3000 && filled > 1000 && refused > 100, "{}: {filled}, {refused}", cases.len());
    let Some(answers) = answers("plans_are_carried_out_as_in_rust", RESOLVE, &cases) else { return };
    for ((case, expected), answer) in cases.iter().zip(&expected).zip(&answers) {
        assert_eq!(answer, expected, "{case:#}");
    }
}

const OPTIONS: &str = r#"
import json, sys
from pjrt_plugin_example import options

def of(case):
    try:
        return options.resolve(case["schema"], case["given"])
    except ValueError as error:
        assert str(error), "an error has a message"
        return "error"

print(json.dumps([of(case) for case in json.load(open(sys.argv[1]))]))
"#;

#[test]
fn options_are_converted_as_in_rust() {
    let specs = || {
        [
            OptionSpec::new("memory_fraction", OptionType::Float, "share").with_default(0.75),
            OptionSpec::new("preallocate", OptionType::Bool, ""),
            OptionSpec::new("count", OptionType::Int64, "").with_default(2i64),
            OptionSpec::new("visible_devices", OptionType::Int64List, ""),
            OptionSpec::new("allocator", OptionType::String, ""),
        ]
    };
    let schemas = [
        OptionSchema::any(),
        OptionSchema::only([]),
        OptionSchema::only(specs()),
        OptionSchema { open: true, options: specs().into() },
        OptionSchema::only([OptionSpec { required: true, ..OptionSpec::new("count", OptionType::Int64, "") }]),
    ];
    let given = [
        json!({}),
        json!({"count": "3"}),
        json!({"count": " -4 ", "preallocate": "TRUE", "visible_devices": "[0, 2]", "memory_fraction": "0.1"}),
        json!({"preallocate": "0", "visible_devices": "", "allocator": " bfc ", "memory_fraction": 1}),
        json!({"visible_devices": 3, "preallocate": false, "count": 9}),
        json!({"visible_devices": [4, 5], "allocator": "3"}),
        json!({"count": "9223372036854775808"}),
        json!({"count": "1e3"}),
        json!({"count": true}),
        json!({"preallocate": 1}),
        json!({"preallocate": "yes"}),
        json!({"memory_fraction": "much"}),
        json!({"memory_fraction": true}),
        json!({"visible_devices": "1,x"}),
        json!({"allocator": 3}),
        json!({"bogus": 1}),
        json!({"preallocat": true}),
    ];
    let mut cases = Vec::new();
    let mut expected = Vec::new();
    for schema in &schemas {
        for given in &given {
            cases.push(json!({ "schema": schema, "given": given }));
            let values = given.as_object().unwrap().iter();
            let values: Vec<NamedValue> =
                values.map(|(name, json)| NamedValue::new(name, value_from_json(json).unwrap())).collect();
            expected.push(match schema.resolve(&values) {
                Err(_) => json!("error"),
                Ok(resolved) => {
                    resolved.iter().map(|given| (given.name.clone(), value_to_json(&given.value))).collect()
                }
            });
        }
    }
    assert!(expected.iter().filter(|answer| *answer == "error").count() > 20);
    let Some(answers) = answers("options_are_converted_as_in_rust", OPTIONS, &cases) else { return };
    for ((case, expected), answer) in cases.iter().zip(&expected).zip(&answers) {
        // In Python, 1.0 and 1 are equal, so compare numbers by value.
        let same = |a: &Value, b: &Value| a == b || (a.is_number() && a.as_f64() == b.as_f64());
        let equal = match (answer.as_object(), expected.as_object()) {
            (Some(a), Some(b)) => {
                a.len() == b.len() && a.iter().all(|(name, value)| b.get(name).is_some_and(|b| same(value, b)))
            }
            _ => answer == expected,
        };
        assert!(equal, "{case:#}: {answer} in Python, {expected} in Rust");
    }
}

#[test]
fn shutdown_function_runs_once_after_python() {
    let folder = Folder::new("shutdown");
    let source = format!(
        "{PLUGIN}#[unsafe(no_mangle)]\npub extern \"C\" fn example_shutdown() {{ eprintln!(\"shut down\"); }}\n"
    );
    let library = folder.library("libexample.so", &source);
    let manifest = json!({ "format_version": "1.0", "name": "example", "version": "1",
        "shutdown_symbol": "example_shutdown" });
    folder.write("pjrt_plugin.json", &manifest.to_string());
    let wheel = folder.package(&["--library", library.to_str().unwrap()]);
    let script = "
import atexit, sys
from pjrt_plugin_example import shutdown
atexit.register(lambda: print('Python ends', file=sys.stderr))
shutdown.register()
shutdown.register()
";
    let test = "shutdown_function_runs_once_after_python";
    let Some(output) = python(test, &folder, &wheel, script, "") else { return };
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "Python ends\nshut down\n");
}

#[test]
fn python_reads_the_descriptor_of_a_library() {
    use device_plugin::c_view::descriptor::{DP_DESCRIPTOR_VERSION, dp_descriptor};
    let folder = Folder::new("descriptor");
    let library = folder.library("libexample.so", PLUGIN);
    let wheel = folder.package(&["--library", library.to_str().unwrap(), "--name", "example", "--version", "1"]);
    let script = "
import ctypes, json
from pjrt_plugin_example.shutdown import VERSION, _Descriptor
print(json.dumps([VERSION, _Descriptor.version.offset, _Descriptor.shutdown.offset, ctypes.sizeof(_Descriptor)]))
";
    let Some(output) = python("python_reads_the_descriptor_of_a_library", &folder, &wheel, script, "") else { return };
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let version = std::mem::offset_of!(dp_descriptor, version);
    let shutdown = std::mem::offset_of!(dp_descriptor, shutdown);
    // Python declares the descriptor only up to the field `shutdown`, which Python calls. Plugins of older SDKs have
    // all of these fields.
    assert_eq!(said, json!([DP_DESCRIPTOR_VERSION, version, shutdown, shutdown + size_of::<usize>()]));
}
