//! Tests that a client whose programs were rejected or failed can still run every other program.

use pjrt::{Client, CompileOptions, ErrorCode, Program};
use pjrt_cpu::ffi;

use crate::launches::{ALL_REDUCE, replicated, run};
use crate::{INCREMENT, client, compile};

const DEVICES: i64 = 8;

/// Returns a program that calls `target` with four numbers. The call also returns four numbers.
fn call(target: &str) -> String {
    format!(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
           %0 = stablehlo.custom_call @{target}(%x) {{api_version = 4 : i32}} : (tensor<4xf32>) -> tensor<4xf32>
           return %0 : tensor<4xf32>
         }}"
    )
}

/// Compiles new programs and runs them, on one device and on all devices.
fn works(client: &Client, after: &str) {
    let x = client.buffer_from_host(&[1.0f32; 4], &[4]).unwrap();
    let outputs = compile(client, INCREMENT).execute(&[&x]).unwrap();
    assert_eq!(outputs[0].to_host::<f32>().unwrap(), [2.0; 4], "after {after}");
    assert_eq!(run(client, &replicated(client, ALL_REDUCE, DEVICES)), [[28.0; 4]; 8], "after {after}");
}

#[test]
fn client_works_after_rejected_programs() {
    let client = client(DEVICES);
    let kept = compile(&client, INCREMENT);
    let data = client.buffer_from_host(&[5.0f32; 4], &[4]).unwrap();
    let programs = [
        ("text that does not parse", "func.func @main(".to_owned(), 1),
        ("an unknown custom call", call("nobody_registered_this"), 1),
        ("an unknown custom call on all devices", call("nobody_registered_this"), DEVICES),
        ("more replicas than devices", INCREMENT.to_owned(), DEVICES + 1),
        (
            "a program beyond the address space",
            call("x").replace("tensor<4xf32>", "tensor<9223372036854775807xf32>"),
            1,
        ),
    ];
    for (name, text, replicas) in programs {
        let options = CompileOptions::default().with_num_replicas(replicas);
        for _ in 0..2 {
            client.compile(&Program::mlir(text.as_str()), &options).map(drop).expect_err(name);
        }
        works(&client, name);
        let outputs = kept.execute(&[&data]).unwrap();
        assert_eq!(outputs[0].to_host::<f32>().unwrap(), [6.0; 4], "after {name}");
    }
}

#[test]
fn client_works_after_failed_runs() {
    ffi::register("refusals_fail", |_| Err(device_plugin::Error::invalid_argument("the handler rejects its argument")))
        .unwrap();
    let client = client(DEVICES);
    let failing = compile(&client, &call("refusals_fail"));
    let increment = compile(&client, INCREMENT);
    let data = client.buffer_from_host(&[5.0f32; 4], &[4]).unwrap();
    let memory = client.default_device().unwrap().default_memory().unwrap();
    let shape = pjrt::Shape::new(pjrt::ElementType::F32, [4]);
    let lost = memory.buffer(&shape).error(ErrorCode::DATA_LOSS, "the disk is lost").unwrap();
    for _ in 0..3 {
        let failed = failing.execute(&[&data]).unwrap();
        let error = failed[0].to_host::<f32>().unwrap_err();
        assert!(error.message().contains("the handler rejects its argument"), "{error}");
        // The next program reads the failed result.
        let next = increment.execute(&[&failed[0]]).and_then(|outputs| outputs[0].to_host::<f32>());
        assert!(next.unwrap_err().message().contains("the handler rejects its argument"));
        works(&client, "a handler that failed");
        let next = increment.execute(&[&lost]).and_then(|outputs| outputs[0].to_host::<f32>());
        assert_eq!(next.unwrap_err().code(), ErrorCode::DATA_LOSS);
        works(&client, "an argument that failed");
        // The argument of the failed run is unchanged.
        assert_eq!(increment.execute(&[&data]).unwrap()[0].to_host::<f32>().unwrap(), [6.0; 4]);
    }
}

/// As in XLA, the handler of a LAPACK call checks its operands when it runs. A program that never reaches the call
/// compiles and runs.
#[cfg_attr(not(feature = "math"), ignore = "it needs the feature math")]
#[test]
fn lapack_operands_are_checked_at_run_time() {
    let client = client(1);
    let data = client.buffer_from_host(&[5.0f32; 4], &[4]).unwrap();
    for target in ["lapack_sgetrf_ffi", "lapack_dgeqp3_ffi"] {
        let text = format!(
            "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
               stablehlo.custom_call @{target}() {{api_version = 4 : i32, has_side_effect = true}} : () -> ()
               return %x : tensor<4xf32>
             }}"
        );
        let failed = compile(&client, &text).execute(&[&data]).and_then(|outputs| outputs[0].to_host::<f32>());
        let error = failed.unwrap_err();
        assert!(error.message().contains(&format!("custom_call @{target}: 0 operands")), "{error}");
        let unused = text.replace(", has_side_effect = true", "");
        let outputs = compile(&client, &unused).execute(&[&data]).unwrap();
        assert_eq!(outputs[0].to_host::<f32>().unwrap(), [5.0; 4]);
    }
}
