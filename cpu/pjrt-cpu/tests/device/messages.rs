//! Compares the messages of the device's errors with `messages.txt`. Other tests only check error codes and kinds.
//!
//! `UPDATE_EXPECT=1 cargo test -p pjrt-cpu --test device` updates the file.

use expect_test::expect_file;
use pjrt::{
    ClientOptions, CompileOptions, DeviceAssignment, Error, OptionOverride, Program, TopologyDescription, Upload,
};

use crate::{INCREMENT, client, plugin};

fn options() -> Vec<Error> {
    let client = |name: &str, value: &str| plugin().client(&ClientOptions::new().with(name, value)).map(drop);
    [("device_count", "0"), ("memory_limit", "lots"), ("device_cuont", "2")]
        .map(|(name, value)| client(name, value).unwrap_err())
        .into()
}

fn compile_options() -> Vec<Error> {
    let compile = |name: &str, value| {
        let options = CompileOptions::default().with_option_override(name, value);
        client(1).compile(&Program::mlir(INCREMENT), &options).map(drop)
    };
    vec![
        compile("xla_embed_ir_in_exectable", OptionOverride::Bool(true)).unwrap_err(),
        compile("xla_embed_ir_in_executable", OptionOverride::Int64(3)).unwrap_err(),
    ]
}

fn programs() -> Vec<Error> {
    let compile = |text: &str| client(1).compile(&Program::mlir(text), &CompileOptions::default()).map(drop);
    let vector = "tensor<4xf32>";
    let memory_kind = format!(
        "func.func @main(%x: {vector}) -> ({vector} {{mhlo.memory_kind = \"hbm\"}}) {{ return %x : {vector} }}"
    );
    let call = format!(
        "func.func @main(%x: {vector}) -> {vector} {{ %0 = stablehlo.custom_call @unknown(%x) : ({vector}) -> {vector}\n return %0 : {vector} }}"
    );
    [memory_kind, call].map(|text| compile(&text).unwrap_err()).into()
}

fn devices() -> Vec<Error> {
    let client = client(3);
    let devices = client.devices().unwrap();
    let options = CompileOptions::default().with_device_assignment(DeviceAssignment::new(1, 1, vec![2]).unwrap());
    let program = client.compile(&Program::mlir(INCREMENT), &options).unwrap();
    let input = client.upload(Upload::of(&[0.0f32; 4]).dims(&[4]).to(&devices[0])).unwrap();
    let topology = TopologyDescription::create(&plugin(), "cpu:4", &[]).unwrap();
    let options = CompileOptions::default().with_num_replicas(4);
    let executable = topology.compile(&Program::mlir(INCREMENT), &options).unwrap();
    vec![
        program.execute(&[&input]).map(drop).unwrap_err(),
        TopologyDescription::create(&plugin(), "v5e", &[]).map(drop).unwrap_err(),
        client.load_executable(&executable, &options).map(drop).unwrap_err(),
    ]
}

fn memory() -> Vec<Error> {
    let client = plugin().client(&ClientOptions::new().with("memory_limit", "1MiB").with("device_count", 2)).unwrap();
    let data = vec![0.0f32; 160 << 10];
    let _first = client.buffer_from_host(&data, &[160 << 10]).unwrap();
    vec![client.buffer_from_host(&data, &[160 << 10]).map(drop).unwrap_err()]
}

#[test]
fn snapshot() {
    let mut text = String::new();
    for (name, errors) in [
        ("Client options", options()),
        ("Compile options", compile_options()),
        ("Programs", programs()),
        ("Devices", devices()),
        ("Memory", memory()),
    ] {
        text += &format!("# {name}\n");
        for error in errors {
            text += &format!("{}: {}\n", error.code(), error.message());
        }
        text.push('\n');
    }
    expect_file!["messages.txt"].assert_eq(&text);
}
