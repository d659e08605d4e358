//! The messages of the crate, recorded in `messages/errors.txt`. Other tests match fields and codes.
//!
//! `UPDATE_EXPECT=1 cargo test -p plugin-manifest --test messages` updates the file.

use std::fmt::{Display, Write};

use expect_test::expect_file;
use plugin_manifest::process::{Address, CoordinatorNeed, EnvRule, Explicit, Host, OptionRule, Position, detect};
use plugin_manifest::support::Checker;
use plugin_manifest::{
    Capabilities, Depth, Environment, Manifest, NamedValue, OptionSchema, OptionSpec, OptionType, ProcessPlan,
    ProcessTopology, Program, Support, SupportTable,
};

/// Inputs, each with the message about it.
#[derive(Default)]
struct Messages(String);

impl Messages {
    fn section(&mut self, name: &str) {
        let gap = if self.0.is_empty() { "" } else { "\n" };
        writeln!(self.0, "{gap}# {name}").expect("a string accepts any text");
    }

    /// Adds an invalid input and the message about it.
    #[track_caller]
    fn add<T, E: Display>(&mut self, input: impl Display, result: Result<T, E>) {
        let Err(error) = result else { panic!("{input} is valid") };
        self.write(input, error);
    }

    fn write(&mut self, input: impl Display, message: impl Display) {
        let message = message.to_string().replace('\n', "\n    ");
        writeln!(self.0, "{input}\n    {message}").expect("a string accepts any text");
    }
}

#[test]
fn snapshot() {
    let mut messages = Messages::default();
    manifests(&mut messages);
    capabilities(&mut messages);
    options(&mut messages);
    addresses(&mut messages);
    templates(&mut messages);
    topologies(&mut messages);
    detection(&mut messages);
    support_tables(&mut messages);
    support(&mut messages);
    expect_file!["messages/errors.txt"].assert_eq(&messages.0);
}

fn manifests(messages: &mut Messages) {
    messages.section("Manifests");
    for text in ["", "{", r#"{"name": "x"}"#] {
        messages.add(format_args!("{text:?}"), Manifest::from_json(text));
    }
    let long = "a".repeat(65);
    for fields in [
        r#""format_version": "2.0", "name": "x""#,
        r#""name": "My-Device", "aliases": ["gpu", "gpu"]"#,
        &format!(r#""name": "{long}""#),
        &format!(r#""name": "x", "platform_names": ["{long}"]"#),
        r#""name": "x", "libary": {}"#,
        r#""name": "x", "unlike_any_field": {}"#,
        r#""name": "x", "library": {"path": "", "sha256": "ABC"}"#,
        r#""name": "x", "hardware": {"device_nodes": ["nvidia0", "/dev/../x"]}"#,
        r#""name": "x", "hardware": {"pci": [{"vendor": "10DE", "devices": ["1"], "classes": [""]}]}"#,
        r#""name": "x", "create_options": {"open": false, "options": [{"name": "", "type": "bool"}]}"#,
        r#""name": "x", "create_options": {"options": [{"name": "a", "type": "bool", "default": "maybe"}]}"#,
        r#""name": "x", "create_options": {"options": [{"name": "a", "type": "bool", "default": {}}]}"#,
        r#""name": "x", "create_options": {"options": [{"name": "a", "type": "bool", "default": true, "required": true}]}"#,
        r#""name": "x", "create_options": {"options": [{"name": "a", "type": "bool"}, {"name": "a", "type": "bool"}]}"#,
        r#""name": "x", "create_options": {"open": false, "options": [{"name": "nodes", "type": "bool"}]}, "process": {"options": [{"name": "node", "type": "int64", "value": "1"}, {"name": "nodes", "type": "int64", "value": "1"}]}"#,
        r#""name": "x", "process": {"environment": [{"variable": "A", "value": "1"}, {"variable": "A", "value": "2"}]}"#,
        r#""name": "x", "process": {"environment": [{"variable": "1A", "value": "x", "when": ["one_device", "all_devices"]}]}"#,
        r#""name": "x", "process": {"environment": [{"variable": "B", "value": "x", "unless_set": ["="]}]}"#,
        r#""name": "x", "process": {"options": [{"name": "", "type": "int64", "value": "1"}]}"#,
        r#""name": "x", "process": {"options": [{"name": "o", "type": "int64", "value": "1"}, {"name": "o", "type": "int64", "value": "2"}]}"#,
        r#""name": "x", "process": {"coordinator": {"default_port": 0}}"#,
        r#""name": "x", "process": {"host_index": {"from": "variables", "names": []}}"#,
        r#""name": "x", "process": {"chips": [{"from": "constant", "count": 0}, {"from": "variable", "name": ""}]}"#,
        r#""name": "x", "process": {"chips": [{"from": "device_nodes", "glob": "x"}, {"from": "device_nodes", "glob": "/d*v/x"}]}"#,
    ] {
        let version = if fields.contains("format_version") { "" } else { r#""format_version": "1.0", "# };
        messages.add(fields, Manifest::from_json(&format!("{{{version}{fields}}}")));
    }
}

fn capabilities(messages: &mut Messages) {
    messages.section("Capabilities");
    for json in [
        "[]",
        "{",
        r#"{"donaton": true}"#,
        r#"{"dense_gather_factor": 4294967295}"#,
        r#"{"supported_dtypes": []}"#,
        r#"{"supported_dtypes": ["f32"], "remapped_dtypes": {"f64": "f16", "f32": "f64"}}"#,
        r#"{"supported_dtypes": ["f32"], "bf16": "replace", "int64": "remapped"}"#,
        r#"{"remapped_dtypes": {"f64": "s32", "s64": "s16", "s16": "s16"}}"#,
        r#"{"bf16": "downcast", "remapped_dtypes": {"f64": "f32"}}"#,
        r#"{"autocast": {"kind": "tpu", "dtypes": [], "default_dtype": "bf16"}}"#,
        r#"{"autocast": {"kind": "xla", "dtypes": [], "default_dtype": "bf16"}}"#,
        r#"{"autocast": {"kind": "xla", "dtypes": ["f16", "f16", "s32"], "default_dtype": "bf16"}}"#,
        r#"{"supported_dtypes": ["f32"], "autocast": {"kind": "xla", "dtypes": ["f16"], "default_dtype": "f16"}}"#,
        r#"{"layout": {"tiled": {"tile": [1, 1], "max_padding": 0.5}}}"#,
        r#"{"cache_key_strip_device_assignment": true}"#,
        r#"{"program_formats": []}"#,
        r#"{"program_formats": ["hlo"], "stablehlo": {"minimum": "1.0.0", "current": "0.9.0"}}"#,
        r#"{"stablehlo": {"minimum": "1.0", "current": "1.1.1"}}"#,
        r#"{"dlpack_host_device": "cuda"}"#,
        r#"{"zero_copy_export": ["cpu"]}"#,
        r#"{"memory_kinds": {"names": ["", "device", "device"], "default": "hbm", "host_offload": true}}"#,
        r#"{"dot_algorithms": []}"#,
        r#"{"features": {"Big": 1, "donation": true}}"#,
    ] {
        messages.add(json, Capabilities::from_json(json));
    }
}

fn options(messages: &mut Messages) {
    messages.section("Create options");
    let schema = OptionSchema::only([
        OptionSpec::new("preallocate", OptionType::Bool, ""),
        OptionSpec { required: true, ..OptionSpec::new("node_id", OptionType::Int64, "") },
    ]);
    let node = NamedValue::new("node_id", 1i64);
    for given in [
        vec![],
        vec![node.clone(), NamedValue::new("preallocat", true)],
        vec![node.clone(), NamedValue::new("bogus", true)],
        vec![node, NamedValue::new("preallocate", "much")],
    ] {
        let shown: Vec<String> = given.iter().map(|option| format!("{}={}", option.name, option.value)).collect();
        messages.add(format_args!("[{}]", shown.join(", ")), schema.resolve(&given));
    }
    let bogus = [NamedValue::new("bogus", true)];
    messages.add("a plugin without options: [bogus=true]", OptionSchema::only([]).resolve(&bogus));
}

fn addresses(messages: &mut Messages) {
    messages.section("Addresses");
    for text in ["", "a:0", "[fe80::1", "[fe80::1]1", "a b"] {
        messages.add(format_args!("{text:?}"), text.parse::<Address>());
    }
    messages.add("a, port 0", Address::new("a", Some(0)));
}

fn place((index, count): (u32, u32)) -> Position {
    Position::new(index, count).expect("an index below its count")
}

/// Returns a plan that sets the variable `A` to a template.
fn setting(template: &str) -> ProcessPlan {
    ProcessPlan { environment: vec![EnvRule::new("A", template)], ..ProcessPlan::default() }
}

fn templates(messages: &mut Messages) {
    messages.section("Process plans: templates");
    let topology = ProcessTopology::new(place((6, 8)), place((2, 4)), place((1, 2))).expect("a valid topology");
    let environment =
        Environment::from([("DOWN", "9-8"), ("CORES", "8-9"), ("MESH", "2,2,1"), ("FLAT", "4,4"), ("WORD", "x")]);
    for template in [
        "{",
        "a}b",
        "{local_rnak}",
        "{coordinator_port+1}",
        "{99999999999999999999}",
        "{env:A B}",
        "{env:A[0}",
        "{'a'b}",
        "{process_addresses:0}",
        "{mesh_product:A}",
        "{env:ABSENT|env:UNSET}",
        "{coordinator}",
        "{hosts}",
        "{env:CORES[7]}",
        "{env:DOWN[0]}",
        "{mesh_product:MESH,FLAT}",
        "{mesh_product:WORD,MESH}",
        "{18446744073709551615*world_size}",
    ] {
        messages.add(template, setting(template).resolve(&topology, &environment));
    }
    let named = topology.clone().with_hosts(vec!["a".to_owned(), "b".to_owned()]).expect("one name for each host");
    let ports = "{process_addresses:65534}";
    messages.add(ports, setting(ports).resolve(&named, &environment));
    let options = vec![OptionRule::new("o", OptionType::Int64, "x")];
    let option = ProcessPlan { options, ..ProcessPlan::default() };
    messages.add("the option o of type int64: x", option.resolve(&topology, &environment));
    let mut coordinator = ProcessPlan::default();
    coordinator.coordinator.need = CoordinatorNeed::Always;
    messages.add("a plan that needs a coordinator", coordinator.resolve(&topology, &environment));
}

fn topologies(messages: &mut Messages) {
    messages.section("Process topologies: global rank, local rank and host, each with its count");
    messages.add("rank 4/4", Position::new(4, 4));
    for (global, local, host) in
        [((0, 2), (0, 4), (0, 1)), ((0, 4), (0, 2), (0, 1)), ((1, 4), (2, 4), (0, 1)), ((0, 4), (0, 2), (0, 4))]
    {
        let input = format!("{}/{} {}/{} {}/{}", global.0, global.1, local.0, local.1, host.0, host.1);
        messages.add(input, ProcessTopology::new(place(global), place(local), place(host)));
    }
    let hosts = ProcessTopology::new(place((5, 8)), place((1, 2)), place((2, 4))).expect("a valid topology");
    messages.add("5/8 1/2 2/4, slice 0/3", hosts.clone().with_slice(place((0, 3))));
    messages.add("5/8 1/2 2/4, slice 0/2", hosts.clone().with_slice(place((0, 2))));
    messages.add("5/8 1/2 2/4, host names: a", hosts.with_hosts(vec!["a".to_owned()]));
}

/// A host that has only this metadata.
struct Metadata(&'static [(&'static str, &'static str)]);

impl Host for Metadata {
    fn metadata(&self, attribute: &str) -> Option<String> {
        self.0.iter().find(|(name, _)| *name == attribute).map(|(_, value)| (*value).to_owned())
    }
}

fn detection(messages: &mut Messages) {
    messages.section("Detected topologies");
    for variables in [
        "WORLD_SIZE=4 LOCAL_RANK=1 MASTER_ADDR=a",
        "RANK=x WORLD_SIZE=4",
        "RANK=4 WORLD_SIZE=4",
        "RANK=0 WORLD_SIZE=0",
        "RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=8",
        "RANK=2 WORLD_SIZE=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2",
        "RANK=1 WORLD_SIZE=4 MASTER_ADDR=a/b",
        "RANK=1 WORLD_SIZE=4 MASTER_ADDR=a XLA_COORDINATOR_PORT=0",
        "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4",
        "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1 \
         OMPI_MCA_orte_hnp_uri=1.0;usock",
        "SLURM_JOB_ID=x SLURM_STEP_NODELIST=a",
        "SLURM_JOB_ID=7 SLURM_STEP_NODELIST=host[1-",
        "SLURM_JOB_ID=7 SLURM_STEP_NODELIST=a]",
        "SLURM_JOB_ID=7 SLURM_STEP_NODELIST=a,,b",
        "SLURM_JOB_ID=7 SLURM_STEP_NODELIST=a[2-1]",
        "SLURM_JOB_ID=7 SLURM_STEP_NODELIST=a[x]",
        "SLURM_JOB_ID=7 SLURM_STEP_NODELIST=a[1-99999999]",
        "SLURM_JOB_ID=7 SLURM_STEP_NODELIST=a[0-1023]b[0-1023]c[0-1023]",
        "SLURM_JOB_ID=7 SLURM_STEP_NODELIST=a,b SLURM_NODEID=0 SLURM_STEP_NUM_NODES=3",
        "SLURM_JOB_ID=7 SLURM_STEP_NODELIST=a,b SLURM_NODEID=1 SLURM_STEP_TASKS_PER_NODE=4",
        "SLURM_JOB_ID=7 SLURM_STEP_NODELIST=a,b SLURM_NODEID=1 SLURM_STEP_TASKS_PER_NODE=4(x2",
        "TPU_WORKER_HOSTNAMES=a,b",
        "TPU_WORKER_HOSTNAMES=a, TPU_WORKER_ID=0",
        "TPU_WORKER_HOSTNAMES=a,b TPU_WORKER_ID=2",
        "TPU_WORKER_HOSTNAMES=a TPU_WORKER_ID=0 MEGASCALE_COORDINATOR_ADDRESS=a:1",
        "KUBERNETES_SERVICE_HOST=10.0.0.1 JOB_COMPLETION_INDEX=2",
        "KUBERNETES_SERVICE_HOST=10.0.0.1 JOB_COMPLETION_INDEX=2 WORLD_SIZE=4",
        "NEURON_PJRT_PROCESS_INDEX=1 NEURON_RT_ROOT_COMM_ID=a:1",
    ] {
        let environment: Environment = variables.split(' ').filter_map(|variable| variable.split_once('=')).collect();
        messages.add(variables, ProcessTopology::detect(&environment));
    }
    let empty = Environment::new();
    type Set = fn(&mut Explicit);
    let cases: [(&str, Set); 5] = [
        ("global rank 1", |explicit| explicit.global_rank = Some(1)),
        ("world size 2", |explicit| explicit.world_size = Some(2)),
        ("local rank 1", |explicit| explicit.local_rank = Some(1)),
        ("host index 1", |explicit| explicit.host_index = Some(1)),
        ("host count 0", |explicit| explicit.host_count = Some(0)),
    ];
    for (input, set) in cases {
        let mut explicit = Explicit::default();
        set(&mut explicit);
        messages.add(input, detect(&empty, None, &explicit));
    }
    for metadata in [
        Metadata(&[("agent-worker-number", "0")]),
        Metadata(&[("agent-worker-number", "0"), ("worker-network-endpoints", "a")]),
    ] {
        messages.add(format_args!("metadata {:?}", metadata.0), detect(&empty, Some(&metadata), &Explicit::default()));
    }
}

fn table(json: &str) -> SupportTable {
    serde_json::from_str(json).expect("a table")
}

fn support_tables(messages: &mut Messages) {
    messages.section("Tables of supported programs");
    for json in [
        r#"{"operations": {"add": {}}}"#,
        r#"{"operations": {"stablehlo.sort": {"support": "no"}}}"#,
        r#"{"operations": {"stablehlo.iota": {"types": ["@none", "float32"]}}}"#,
        r#"{"operations": {"stablehlo.pad": {"attributes": {"x": {"at_least": 2, "at_most": 1}}}}}"#,
    ] {
        messages.add(json, Checker::new(&table(json)));
    }
    messages.add("all", "all".parse::<Depth>());
}

fn support(messages: &mut Messages) {
    messages.section("Reasons against a program");
    let table = table(
        r#"{"complete": true, "max_rank": 3, "operations": {
            "stablehlo.add": {"types": ["f32"]},
            "stablehlo.iota": {"attributes": {"iota_dimension": {"at_most": 0}}},
            "stablehlo.transpose": {"attributes": {"permutation": {"max_length": 1, "at_least": 1}}},
            "stablehlo.dot_general": {"attributes": {"precision_config": {"one_of": ["DEFAULT"]}}}}}"#,
    );
    let checker = Checker::new(&table).expect("a valid table");
    let mut check = |code: &str, depth| match checker.program(&program("mlir", code), depth) {
        Support::Yes => panic!("{code} is supported"),
        support => messages.write(code, support),
    };
    check("func.func @main(", Depth::Types);
    for (ty, op) in [
        ("2xf32", "stablehlo.subtract %x, %x"),
        ("2xf64", "stablehlo.add %x, %x"),
        ("1x1x1x2xf32", "stablehlo.add %x, %x"),
        ("?xf32", "stablehlo.add %x, %x"),
        ("2x2xf32", "stablehlo.iota dim = 1"),
    ] {
        check(&main(&format!("tensor<{ty}>"), op, &format!("tensor<{ty}>")), Depth::Types);
    }
    let square = "tensor<2x2xf32>";
    let unary = &format!("({square}) -> {square}");
    check(&main(square, "stablehlo.transpose %x, dims = [1, 0]", unary), Depth::Types);
    let dot = "stablehlo.dot_general %x, %x, contracting_dims = [1] x [0], precision = [HIGHEST, DEFAULT]";
    check(&main(square, dot, &format!("({square}, {square}) -> {square}")), Depth::Types);
    let add = main("tensor<f32>", "stablehlo.add %x, %x", "tensor<f32>");
    check(&add, Depth::Compile);
    messages.write("a program in the format onnx", checker.program(&program("onnx", ""), Depth::Types));
    let unknown = Manifest::new("x").supports(&program("mlir", &add), Depth::Types).expect("there is no table");
    messages.write("a plugin without a table", unknown);
}

fn program(format: &str, code: &str) -> Program {
    Program::new(format.to_owned(), code.to_owned())
}

/// Returns a program whose function `main` contains one op. The argument and the result of `main` have the type `ty`,
/// and `signature` is the type signature of the op.
fn main(ty: &str, op: &str, signature: &str) -> String {
    format!("func.func @main(%x: {ty}) -> {ty} {{ %0 = {op} : {signature} return %0 : {ty} }}")
}
