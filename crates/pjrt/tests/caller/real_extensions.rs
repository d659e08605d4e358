//! Tests extensions on real plugins.

use std::ffi::c_void;
use std::ptr::NonNull;

use crate::real::{compile, each_client, each_plugin};
use pjrt::extensions::{
    AbiVersions, CrossHostTransfers, Ffi, MemoryDescriptions, PhaseCompile, PipelineStage, Profiler, RawBuffers,
    Shardings, Streams, XlaTransforms,
};
use pjrt::{ErrorKind, ExecuteContext, ExecuteOptions, Input};

const DOUBLE: &str = "module { func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %x, %x : tensor<2xf32>
  return %0 : tensor<2xf32>
} }";

#[test]
fn groups_match_extension_chain() {
    each_plugin("groups", |plugin| {
        let chain: Vec<u32> = plugin.extensions().iter().map(|found| found.number).collect();
        let groups = [
            (1, plugin.extension::<Profiler>().is_some()),
            (3, plugin.extension::<Streams>().is_some()),
            (5, plugin.extension::<Ffi>().is_some()),
            (6, plugin.extension::<MemoryDescriptions>().is_some()),
            (9, plugin.extension::<PhaseCompile>().is_some()),
            (8, plugin.extension::<RawBuffers>().is_some()),
            (19, plugin.extension::<Shardings>().is_some()),
            (12, plugin.extension::<CrossHostTransfers>().is_some()),
            (20, plugin.extension::<AbiVersions>().is_some()),
            (24, plugin.extension::<XlaTransforms>().is_some()),
        ];
        for (number, offered) in groups {
            assert_eq!(offered, chain.contains(&number), "extension {number} of {chain:?}");
        }
    });
}

#[test]
fn registered_data_reaches_custom_calls() {
    each_client("ffi", |client| {
        let Some(ffi) = client.plugin().extension::<Ffi>() else { return };
        let id = ffi.register_type("pjrt.tests.data", None).unwrap();
        assert_ne!(id, 0);
        let context = ExecuteContext::new(&client.plugin()).unwrap();
        static NUMBER: u64 = 42;
        let data = NonNull::from(&NUMBER).cast::<c_void>();
        // SAFETY: no program of this test calls a handler that uses the data.
        let added = unsafe { ffi.add_user_data(&context, id, data) };
        added.unwrap();
        // SAFETY: no program of this test calls a handler that uses the data.
        let again = unsafe { ffi.add_user_data(&context, id, data) };
        assert_eq!(again.unwrap_err().kind(), ErrorKind::Plugin);
        let options = ExecuteOptions::new().with_context(context);
        let x = client.buffer_from_host(&[1.0f32, 2.0], &[2]).unwrap();
        let program = compile(client, DOUBLE);
        let runs: Vec<_> = (0..3).map(|_| program.execute_with([Input::from(&x)], &options).unwrap()).collect();
        drop(options);
        for run in runs {
            run.done.wait().unwrap();
            assert_eq!(run.outputs[0].to_host::<f32>().unwrap(), [2.0, 4.0]);
        }
    });
}

#[test]
fn memories_are_described() {
    each_client("memory_descriptions", |client| {
        let Some(memories) = client.plugin().extension::<MemoryDescriptions>() else { return };
        let device = client.default_device().unwrap();
        let described = memories.memories(&device.description().unwrap()).unwrap();
        let default = device.default_memory().unwrap().kind().unwrap();
        let kinds: Vec<_> = device.memories().unwrap().iter().map(|memory| memory.kind().unwrap()).collect();
        for memory in &described {
            assert!(kinds.contains(&memory.kind), "{memory:?} of {kinds:?}");
            assert_eq!(memory.is_default, memory.kind == default, "{described:?}");
        }
    });
}

#[test]
fn reports_shardings() {
    each_client("shardings", |client| {
        let Some(shardings) = client.plugin().extension::<Shardings>() else { return };
        let program = compile(client, DOUBLE);
        let executable = program.executable();
        for found in [shardings.parameter_shardings(executable), shardings.output_shardings(executable)] {
            // For a program on one device, the plugin may report no shardings. Otherwise it reports one sharding for
            // each array.
            let found = found.unwrap();
            assert!(found.as_ref().is_none_or(|found| found.len() == 1), "{found:?}");
        }
    });
}

#[test]
fn phase_compiler_lists_phases() {
    each_plugin("phases", |plugin| {
        let Some(phases) = plugin.extension::<PhaseCompile>() else { return };
        match phases.compiler() {
            Ok(compiler) => assert!(compiler.phase_names().unwrap().iter().all(|name| !name.is_empty())),
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::Plugin | ErrorKind::Unsupported), "{error}");
                assert_eq!(error.function(), Some("PJRT_PhaseCompile_Get_Compiler"));
                eprintln!("{error}");
            }
        }
    });
}

/// XLA's pass pipeline calls a registered transformation only if the compiler has a scheduler, and not every plugin's
/// compiler has one. The test therefore does not check whether the transformation is called.
#[test]
fn transformations_are_registered_and_cleared() {
    each_client("transforms", |client| {
        let Some(transforms) = client.plugin().extension::<XlaTransforms>() else { return };
        let (name, stage) = ("pjrt.tests.same", PipelineStage::PreScheduler);
        assert!(!transforms.clear(name, stage).unwrap(), "nothing is registered yet");
        transforms.register(name, stage, |_| Ok(None)).unwrap();
        let x = client.buffer_from_host(&[1.0f32, 2.0], &[2]).unwrap();
        assert_eq!(compile(client, DOUBLE).execute(&[&x]).unwrap()[0].to_host::<f32>().unwrap(), [2.0, 4.0]);
        assert!(transforms.clear(name, stage).unwrap());
    });
}
