//! Tests of the layer `validate` in front of the plugins in `PJRT_TEST_PLUGINS`.

use std::io::Write;

use pjrt::{ClientOptions, CompileOptions, Device, ErrorCode, ExecuteOptions, Plugin, Program, Upload};
use pjrt_layers::validate::{Reports, Validate};
use pjrt_layers::{Call, Function, Instance, Layer, Stack, Step, instance};
use pjrt_sys::StaticApi;

/// Hides the parameters of programs from the framework, so that the framework does not check the arguments itself.
#[derive(Debug)]
struct Hide;

impl Layer for Hide {
    fn name(&self) -> &'static str {
        "hide"
    }

    fn wants(&self, function: &Function) -> bool {
        function.name == "PJRT_Executable_OptimizedProgram"
    }

    fn before(&self, _: &mut Call) -> Step {
        Step::answer(ErrorCode::UNIMPLEMENTED, "hidden")
    }
}

/// A program that adds its second argument to its first argument. The second argument is replicated on two devices. The
/// first argument is split between these devices.
const SHARDED: &str = r#"module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
    func.func @main(
        %x: tensor<4x2xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"},
        %y: tensor<i32> {mhlo.sharding = "{replicated}"}
    ) -> (tensor<4x2xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"}) {
        %0 = stablehlo.convert %y : (tensor<i32>) -> tensor<f32>
        %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<4x2xf32>
        %2 = stablehlo.add %x, %1 : tensor<4x2xf32>
        return %2 : tensor<4x2xf32>
    }
}"#;

/// Runs a program on a plugin with valid arguments, and then with an argument that has the right size but a wrong
/// shape. Checks that the layer reports only the second run.
fn check<I: Instance>(path: &str) {
    // SAFETY: the person who runs the tests is responsible for the plugins.
    let plugin = unsafe { Plugin::load(path) }.unwrap();
    // SAFETY: C1: this is the plugin's table, and the plugin's library stays loaded.
    let api = unsafe { StaticApi::new(plugin.api().as_raw()) };
    let reports = Reports::collected();
    let api = Stack::start::<I>(api, vec![Box::new(Hide), Box::new(Validate::new(reports.clone()))]);
    let options = ClientOptions::new().with("cpu_device_count", 2_i64);
    let client = Plugin::from_static(api).unwrap().client(&options).unwrap();
    let devices = client.addressable_devices().unwrap();

    let options = CompileOptions::default().with_num_partitions(2).with_spmd_partitioning(true);
    let executable = client.compile(&Program::mlir(SHARDED), &options).unwrap();
    let on = |device: &Device, dims: &[i64]| {
        let x = client.upload(Upload::of(&[5.0_f32, 6.0, 7.0, 8.0]).dims(dims).to(device)).unwrap();
        let y = client.upload(Upload::of(&[1_i32]).dims(&[]).to(device)).unwrap();
        vec![x.into(), y.into()]
    };
    let run = |second: &[i64]| {
        let lists = vec![on(&devices[0], &[2, 2]), on(&devices[1], second)];
        executable.execute_sharded(lists, &ExecuteOptions::default())
    };
    let outputs = run(&[2, 2]).unwrap().outputs;
    assert_eq!(outputs[1][0].to_host::<f32>().unwrap(), [6.0, 7.0, 8.0, 9.0]);
    let texts: Vec<String> = reports.all().iter().map(ToString::to_string).collect();
    assert_eq!(texts, [""; 0], "{path}");

    // XLA's plugins only compare the sizes in bytes, so the run succeeds.
    run(&[4]).unwrap();
    let found: Vec<_> = reports.all().iter().map(|report| (report.rule.id, report.what.clone())).collect();
    let what = "argument 2 has the shape f32[4], but the program's parameter has f32[2,2]".to_owned();
    assert_eq!(found, [("execute.wrong-shape", what)], "{path}");
}

#[test]
fn shapes_are_checked() {
    instance!(First);
    instance!(Second);
    instance!(Third);
    let checks = [check::<First>, check::<Second>, check::<Third>];
    let list = std::env::var("PJRT_TEST_PLUGINS").unwrap_or_default();
    let paths: Vec<&str> = list.split(':').filter(|path| !path.is_empty()).collect();
    if paths.is_empty() {
        let line = "SKIPPED shapes_are_checked: PJRT_TEST_PLUGINS names no plugin\n";
        // Write to the stream directly, because the test harness captures `eprintln`.
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    for (check, path) in checks.iter().zip(paths) {
        check(path);
    }
}
