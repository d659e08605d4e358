//! Tests of several devices in one client.

use pjrt::{
    ClientOptions, CompileOptions, DeviceAssignment, ErrorCode, NamedValue, Program, TopologyDescription, Upload,
};

use crate::{INCREMENT, client, compile, plugin};

#[test]
fn device_count_option() {
    assert_eq!(client(1).devices().unwrap().len(), 1);
    let client = client(3);
    let devices = client.addressable_devices().unwrap();
    for (device, id) in devices.iter().zip(0..) {
        assert_eq!((device.id().unwrap(), device.local_hardware_id().unwrap()), (id, id));
        assert_eq!(device.kind().unwrap(), "cpu");
        let kinds: Vec<_> = device.memories().unwrap().iter().map(|memory| memory.kind().unwrap()).collect();
        assert_eq!(kinds, ["device", "pinned_host", "unpinned_host"]);
        assert_eq!(device.default_memory().unwrap().kind().unwrap(), "device");
    }
    assert_eq!((devices.len(), client.memories().unwrap().len()), (3, 9));
}

#[test]
fn options_accept_text() {
    let client = |name: &str, value: &str| plugin().client(&ClientOptions::new().with(name, value));
    assert_eq!(client("device_count", "2").unwrap().devices().unwrap().len(), 2);
    let error = client("device_count", "0").map(drop).unwrap_err();
    assert_eq!(error.code(), ErrorCode::INVALID_ARGUMENT);
    let error = client("memory_limit", "lots").map(drop).unwrap_err();
    assert_eq!(error.code(), ErrorCode::INVALID_ARGUMENT, "{error}");
    let error = client("device_cuont", "2").map(drop).unwrap_err();
    assert_eq!(error.code(), ErrorCode::INVALID_ARGUMENT, "{error}");
}

#[test]
fn runs_on_assigned_device() {
    let client = client(3);
    let devices = client.devices().unwrap();
    let options = CompileOptions::default().with_device_assignment(DeviceAssignment::new(1, 1, vec![2]).unwrap());
    let program = client.compile(&Program::mlir(INCREMENT), &options).unwrap();
    let x = client.upload(Upload::of(&[1.0f32, 2.0, 3.0, 4.0]).dims(&[4]).to(&devices[2])).unwrap();
    let out = program.execute(&[&x]).unwrap().remove(0);
    assert_eq!(out.device().unwrap().id().unwrap(), 2);
    assert_eq!(out.to_host::<f32>().unwrap(), [2.0, 3.0, 4.0, 5.0]);
    let elsewhere = client.upload(Upload::of(&[0.0f32; 4]).dims(&[4]).to(&devices[0])).unwrap();
    let error = program.execute(&[&elsewhere]).map(drop).unwrap_err();
    assert_eq!(error.code(), ErrorCode::INVALID_ARGUMENT, "{error}");
}

#[test]
fn topology_has_same_devices_and_compiles() {
    let plugin = plugin();
    let topology = TopologyDescription::create(&plugin, "cpu:4", &[]).unwrap();
    assert_eq!(topology.device_descriptions().unwrap().len(), 4);
    let by_option = [NamedValue::new("device_count", 4)];
    let same = TopologyDescription::create(&plugin, "", &by_option).unwrap();
    assert_eq!(same.fingerprint().unwrap(), topology.fingerprint().unwrap());
    let error = TopologyDescription::create(&plugin, "v5e", &[]).map(drop).unwrap_err();
    assert_eq!(error.code(), ErrorCode::INVALID_ARGUMENT, "{error}");

    let options = CompileOptions::default().with_num_replicas(4);
    let ahead = topology.compile(&Program::mlir(INCREMENT), &options).unwrap();
    let here = client(4);
    let loaded = here.load_executable(&ahead, &options).unwrap();
    assert_eq!(loaded.addressable_devices().len(), 4);
    let again = here.deserialize_and_load(&ahead.serialize().unwrap()).unwrap();
    assert_eq!(again.addressable_devices().len(), 4);
    let too_few = client(2).load_executable(&ahead, &options).map(drop).unwrap_err();
    assert_eq!(too_few.code(), ErrorCode::INVALID_ARGUMENT, "{too_few}");
}

#[test]
fn results_are_independent_of_mode() {
    const REDUCE: &str = "
    func.func @main(%x: tensor<600x600xf32>) -> (tensor<600x600xf32>, tensor<f32>) {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
        : (tensor<600x600xf32>, tensor<600x600xf32>) -> tensor<600x600xf32>
      %1 = stablehlo.tanh %0 : tensor<600x600xf32>
      %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0, 1]
        : (tensor<600x600xf32>, tensor<f32>) -> tensor<f32>
      return %1, %2 : tensor<600x600xf32>, tensor<f32>
    }";
    let data: Vec<f32> = (0..1009u16).cycle().take(360_000).map(|i| f32::from(i) / 500.0 - 1.0).collect();
    let run = |deterministic: bool| {
        let client = plugin().client(&ClientOptions::new().with("deterministic", deterministic)).unwrap();
        let x = client.buffer_from_host(&data, &[600, 600]).unwrap();
        let execution = compile(&client, REDUCE).execute_with(vec![(&x).into()], &Default::default()).unwrap();
        // In deterministic mode, a program has ended when the call returns.
        assert!(!deterministic || execution.done.is_ready().unwrap());
        let bytes: Vec<_> = execution.outputs.iter().map(|output| output.download().bytes().unwrap()).collect();
        (bytes, client.devices().unwrap()[0].memory_stats().unwrap().peak_bytes_in_use)
    };
    let alone = run(true);
    assert_eq!(run(true), alone);
    assert_eq!(run(false).0, alone.0);
}

#[test]
fn platform_name_without_underscore() {
    let named = |plain: bool| {
        let client = plugin().client(&ClientOptions::new().with("plain_platform_name", plain)).unwrap();
        let program = compile(&client, INCREMENT);
        client.deserialize_and_load(&program.executable().serialize().unwrap()).unwrap();
        client.platform_name().unwrap()
    };
    assert_eq!([named(false), named(true)], ["pjrt_cpu", "pjrtcpu"]);
}
