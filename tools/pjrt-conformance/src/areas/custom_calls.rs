//! Cases for custom calls whose handlers the framework registers, and for the compilation of Triton kernels.

use pjrt::extensions::{Ffi, GpuCustomCalls};
use pjrt::{ExecuteContext, ExecuteOptions, Function, Input, LoadedExecutable, Value};

use crate::case::Profiles;
use crate::context::{Context, extension};
use crate::raw::{add_data, calls, compile_triton, found, register_counter, register_gpu_counter, register_reader};
use crate::stop::Stop;
use crate::suite::Suite;

/// The `api_version` of a custom call without types. `TYPED` is the `api_version` of a custom call with the types of
/// XLA's FFI.
const UNTYPED: i32 = 1;
const TYPED: i32 = 4;

pub(crate) fn declare(suite: &mut Suite) {
    ffi(suite);
    gpu(suite);
    triton(suite);
}

/// Compiles a program with a custom call to `target`, whose result the program ignores. `version` is [`UNTYPED`] or
/// [`TYPED`].
fn compile(cx: &Context, target: &str, version: i32) -> Result<LoadedExecutable, Stop> {
    let config = if version == TYPED { "{}" } else { "\"\"" };
    cx.compile(&crate::program::main(
        "%x: tensor<2xf32>",
        "tensor<2xf32>",
        &format!(
            "  %y = stablehlo.custom_call @{target}(%x) {{api_version = {version} : i32, backend_config = {config}, has_side_effect = true}} : (tensor<2xf32>) -> tensor<2xf32>
  return %x : tensor<2xf32>"
        ),
    ))
}

/// Executes a program three times, and checks that its custom call ran a counting handler three times.
fn counts(cx: &Context, target: &str, version: i32) -> Result<(), Stop> {
    let executable = compile(cx, target, version)?;
    let input = cx.floats(&[1.0, 2.0])?;
    let before = calls();
    for _ in 0..3 {
        let outputs = executable.execute(&[&input])?;
        outputs[0].wait()?;
    }
    ensure_eq!(calls() - before, 3, "number of calls in three runs");
    Ok(())
}

fn ffi(suite: &mut Suite) {
    suite
        .case(
            "extensions.ffi.handler_runs",
            "pjrt_c_api_ffi_extension.h, PJRT_FFI_Register_Handler: registers the handler of custom calls with this target",
            "JAX's own kernels and its users' are custom calls",
        )
        .profiles(Profiles::JAX)
        .extension(5)
        .functions(&[Function::PJRT_FFI_Register_Handler])
        .isolated()
        .check(|cx| {
            let target = "pjrt_conformance_count";
            register_counter(&extension::<Ffi>(cx)?, cx.client()?, target)?;
            counts(cx, target, TYPED)
        });
    suite
        .case(
            "extensions.ffi.user_data",
            "pjrt_c_api_ffi_extension.h, PJRT_FFI_UserData_Add: the handlers of a run find the data in its context",
            "a framework passes the state of a run to its custom calls",
        )
        .profiles(Profiles::JAX)
        .extension(5)
        .functions(&[Function::PJRT_ExecuteContext_Create, Function::PJRT_FFI_UserData_Add])
        .isolated()
        .check(|cx| {
            let (ffi, target) = (extension::<Ffi>(cx)?, "pjrt_conformance_read");
            let type_id = ffi.register_type("pjrt_conformance_data", None)?;
            register_reader(&ffi, cx.client()?, target, type_id)?;
            let executable = compile(cx, target, TYPED)?;
            let context = ExecuteContext::new(cx.plugin())?;
            let address = add_data(&ffi, &context, type_id)?;
            let input = cx.floats(&[1.0, 2.0])?;
            let options = ExecuteOptions::new().with_context(context);
            let run = executable.execute_with([Input::Borrow(&input)], &options);
            let outcome = run.and_then(|run| run.done.wait().and_then(|()| run.outputs[0].wait()));
            let Some(found) = found() else {
                return Err(Stop::Unsupported("the plugin has no data for handlers in C".to_owned()));
            };
            outcome?;
            ensure_eq!(found, address, "address that the handler found");
            Ok(())
        });
}

fn gpu(suite: &mut Suite) {
    for (name, version) in [("untyped", UNTYPED), ("typed", TYPED)] {
        suite
            .case(
                format!("extensions.gpu_custom_call.runs[api={name}]"),
                "pjrt_c_api_gpu_extension.h: registers a custom call of XLA's GPU plugins",
                "JAX registers the kernels of its GPU libraries in this way",
            )
            .profiles(Profiles::JAX)
            .extension(0)
            .isolated()
            .check(move |cx| {
                let target = format!("pjrt_conformance_{name}");
                register_gpu_counter(&extension::<GpuCustomCalls>(cx)?, &target, version == TYPED)?;
                counts(cx, &target, version)
            });
    }
}

/// A kernel in Triton's MLIR dialect that copies one `f32` element.
const KERNEL: &str = "module {
  tt.func public @pjrt_conformance_copy(%from: !tt.ptr<f32>, %to: !tt.ptr<f32>) {
    %value = tt.load %from : !tt.ptr<f32>
    tt.store %to, %value : !tt.ptr<f32>
    tt.return
  }
}
";

fn triton(suite: &mut Suite) {
    suite
        .case(
            "extensions.triton.compile",
            "pjrt_c_api_triton_extension.h: compiles a module of Triton for the architecture of a device",
            "JAX's Pallas compiles its kernels with it",
        )
        .profiles(Profiles::JAX)
        .extension(7)
        .isolated()
        .check(|cx| {
            let attributes = cx.device()?.description()?.attributes()?;
            let architecture = attributes.iter().find(|attribute| attribute.name == "compute_capability");
            let Some(Value::String(architecture)) = architecture.map(|attribute| &attribute.value) else {
                return Err(Stop::Skip("the device has no attribute compute_capability".to_owned()));
            };
            let size = compile_triton(cx.plugin(), KERNEL, architecture)?;
            ensure!(size > 0, "the compiled kernel is empty");
            Ok(())
        });
}
