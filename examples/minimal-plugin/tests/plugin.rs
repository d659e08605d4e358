//! Calls the plugin as frameworks do, through the C function table.
#![forbid(unsafe_code)]

use pjrt::{Client, ClientOptions, CompileOptions, Error, ErrorCode, LoadedExecutable, Plugin, Program};

/// Includes the source of the plugin, because it is built as a C library, which Rust cannot link.
#[path = "../src/lib.rs"]
mod plugin;

const ADD_ONE: &str = include_str!("../programs/add_one.mlir");

fn client() -> Client {
    let plugin = Plugin::from_static(plugin::Plugin::api()).expect("the table is complete");
    plugin.client(&ClientOptions::new()).expect("a client without options")
}

fn compile(client: &Client, program: &str) -> Result<LoadedExecutable, Error> {
    client.compile(&Program::mlir(program), &CompileOptions::default())
}

/// Returns a program with one argument `%x` and the given lines, which define its result `%y`.
fn program(ty: &str, lines: &str) -> String {
    format!("func.func @main(%x: {ty}) -> {ty} {{\n{lines}\nreturn %y : {ty}\n}}")
}

#[test]
fn x_plus_one() {
    let client = client();
    assert_eq!(client.platform_name().unwrap(), "minimal");
    assert_eq!(client.addressable_devices().unwrap().len(), 1);
    let add_one = compile(&client, ADD_ONE).unwrap();
    let x = client.buffer_from_host(&[0.0f32, 1.5, -2.0, f32::MAX], &[4]).unwrap();
    for _ in 0..3 {
        let outputs = add_one.execute(&[&x]).unwrap();
        assert_eq!(outputs[0].to_host::<f32>().unwrap(), [1.0, 2.5, -1.0, f32::MAX]);
    }
}

#[test]
fn scalars_constants_and_empty_arrays() {
    let client = client();
    let lines = "%c = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
                 %y = stablehlo.add %x, %c : tensor<2x2xf32>";
    let add = compile(&client, &program("tensor<2x2xf32>", lines)).unwrap();
    let x = client.buffer_from_host(&[10.0f32, 20.0, 30.0, 40.0], &[2, 2]).unwrap();
    assert_eq!(add.execute(&[&x]).unwrap()[0].to_host::<f32>().unwrap(), [11.0, 22.0, 33.0, 44.0]);

    let double = compile(&client, &program("tensor<f32>", "%y = stablehlo.add %x, %x : tensor<f32>")).unwrap();
    let x = client.buffer_from_host(&[21.0f32], &[]).unwrap();
    assert_eq!(double.execute(&[&x]).unwrap()[0].to_host::<f32>().unwrap(), [42.0]);

    let double = compile(&client, &program("tensor<0xf32>", "%y = stablehlo.add %x, %x : tensor<0xf32>")).unwrap();
    let x = client.buffer_from_host::<f32>(&[], &[0]).unwrap();
    assert_eq!(double.execute(&[&x]).unwrap()[0].to_host::<f32>().unwrap(), [0.0f32; 0]);
}

#[test]
fn unsupported_operations_are_errors() {
    let client = client();
    let refused = |ty: &str, lines: &str| compile(&client, &program(ty, lines)).expect_err("a program to refuse");

    let error = refused("tensor<2xf32>", "%y = stablehlo.tanh %x : tensor<2xf32> loc(\"tanh\"(\"model.py\":7:3))");
    assert_eq!(error.code(), ErrorCode::UNIMPLEMENTED);
    assert!(error.to_string().contains("stablehlo.tanh (tanh at model.py:7:3)"), "{error}");

    // The error names the op, even if the device does not support the type of the op, either.
    let error = refused(
        "tensor<2xf32>",
        "%i = stablehlo.iota dim = 0 : tensor<2xi32>\n%y = stablehlo.add %x, %x : tensor<2xf32>",
    );
    assert!(error.to_string().contains("stablehlo.iota"), "{error}");

    let error = refused("tensor<2xi32>", "%y = stablehlo.add %x, %x : tensor<2xi32>");
    assert_eq!(error.code(), ErrorCode::UNIMPLEMENTED);
    assert!(error.to_string().contains("s32[2]"), "{error}");

    let error = refused("tensor<999999999999xf32>", "%y = stablehlo.add %x, %x : tensor<999999999999xf32>");
    assert_eq!(error.code(), ErrorCode::RESOURCE_EXHAUSTED);

    let error = compile(&client, "not a program").unwrap_err();
    assert_eq!(error.code(), ErrorCode::INVALID_ARGUMENT);

    let error = client.buffer_from_host(&[1i64], &[1]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::UNIMPLEMENTED);

    let plugin = client.plugin();
    let error = plugin.client(&ClientOptions::new().with("speed", 3i64)).unwrap_err();
    assert!(error.to_string().contains("\"speed\""), "{error}");
}

#[test]
fn description_is_valid() {
    use device_plugin::DevicePlugin;

    assert_eq!(plugin::Plugin::capabilities().validate(), Ok(()));
    assert_eq!(plugin::Plugin::VERSION, env!("CARGO_PKG_VERSION"));
}
