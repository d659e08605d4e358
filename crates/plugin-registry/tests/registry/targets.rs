//! Tests one model on plugins that differ only in their capabilities.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;

use pjrt::stablehlo::ForPlugin;
use pjrt::stablehlo::builder::{Argument, Gather, ModuleBuilder};
use pjrt::stablehlo::ir::{ElementType, Module, RngAlgorithm, TensorType};
use pjrt::{ClientOptions, CompileOptions, Program};
use plugin_manifest::capabilities::{ProgramFormat, ProgramFormats, RngBitGenerator};
use plugin_manifest::{Autocast, Capabilities};
use plugin_registry::{LoadedPlugin, PluginRegistry};

/// Loads the embedded device with the given capabilities instead of its own.
fn described(capabilities: Capabilities) -> LoadedPlugin {
    let cpu = plugin_registry::find("cpu").unwrap();
    let cpu = cpu.descriptor().unwrap();
    let mut manifest = cpu.manifest().clone();
    manifest.capabilities = capabilities;
    let descriptor = plugin_manifest::Descriptor::new(manifest, cpu.library().clone(), Arc::new(())).unwrap();
    PluginRegistry::empty().register_descriptor(descriptor).unwrap().load().unwrap()
}

/// Returns a model with an embedding, a dense layer and random bits. The first argument is donated.
fn model() -> Module {
    let module = ModuleBuilder::new("model");
    module
        .function("main", |f| {
            let table = f.argument(Argument::new(TensorType::new([8, 4], ElementType::F32)).donated_to(0))?;
            let ids = f.argument(TensorType::new([3, 1], ElementType::I32))?;
            let state = f.argument(TensorType::new([2], ElementType::Ui64))?;
            let rows = Gather::new([1, 4]).offset_dims([1]).collapsed_slice_dims([0]).start_index_map([0]);
            let rows = f.gather(table, ids, rows.index_vector_dim(1usize))?;
            let weights = f.splat(0.5f32, &[4, 4])?;
            let layer = f.dot(rows, weights)?;
            let (state, bits) =
                f.rng_bit_generator(state, RngAlgorithm::Default, TensorType::new([3, 4], ElementType::Ui32))?;
            Ok(vec![table, layer, state, bits])
        })
        .unwrap();
    module.build().unwrap()
}

fn text(program: &Program) -> String {
    stablehlo::parse(program.code().clone(), stablehlo::VerifyLevel::FULL).unwrap().to_string()
}

fn layer(plugin: &LoadedPlugin, program: &Program) -> Vec<f32> {
    let client = plugin.client(&ClientOptions::new()).unwrap();
    let executable = client.compile(program, &CompileOptions::default()).unwrap();
    let numbers: Vec<f32> = (0..32u8).map(f32::from).collect();
    let table = client.buffer_from_host(&numbers, &[8, 4]).unwrap();
    let ids = client.buffer_from_host(&[6i32, 0, 9], &[3, 1]).unwrap();
    let state = client.buffer_from_host(&[1u64, 2], &[2]).unwrap();
    executable.execute(&[&table, &ids, &state]).unwrap()[1].to_host().unwrap()
}

#[test]
fn same_model_on_two_described_plugins() {
    let mlir = ProgramFormats::preferring(ProgramFormat::Mlir);
    let plain = described(Capabilities { program_formats: mlir.clone(), donation: true, ..Capabilities::default() });
    let special = described(Capabilities {
        program_formats: mlir,
        dense_gather_factor: NonZeroU32::new(1),
        rng_bit_generator: RngBitGenerator::Philox,
        autocast: Some(Autocast::xla([plugin_manifest::ElementType::Bf16])),
        ..Capabilities::default()
    });
    let model = model();
    let (one, other) = (plain.program(&model).unwrap(), special.program(&model).unwrap());
    for (part, expected) in [
        ("stablehlo.gather", [true, false]),
        ("stablehlo.clamp", [false, true]),
        ("PHILOX", [false, true]),
        ("tf.aliasing_output", [true, false]),
        ("bf16", [false, false]),
    ] {
        assert_eq!([text(&one).contains(part), text(&other).contains(part)], expected, "{part}");
    }
    // The third index is out of bounds. `gather` clamps it to the last row.
    let expected = [51.0f32, 3.0, 59.0].map(|sum| [sum; 4]).concat();
    assert_eq!(layer(&plain, &one), expected);
    assert_eq!(layer(&special, &other), expected);

    // Programs use mixed precision only on request.
    let mixed = Program::for_target(&model, special.plugin(), &special.autocast_target()).unwrap();
    assert!(text(&mixed).contains("tensor<3x4xbf16>"), "{}", text(&mixed));
    assert_eq!(plain.autocast_target(), plain.target());
}

#[test]
fn compiler_that_reads_only_hlo() {
    let hlo = ProgramFormats::preferring(ProgramFormat::Hlo);
    let plugin = described(Capabilities { program_formats: hlo, donation: true, ..Capabilities::default() });
    let program = plugin.program(&model()).unwrap();
    assert_eq!(program.format(), "hlo");
    assert_eq!(layer(&plugin, &program), [51.0f32, 3.0, 59.0].map(|sum| [sum; 4]).concat());
    let config = ProgramFormats::preferring(ProgramFormat::HloWithConfig);
    let error =
        described(Capabilities { program_formats: config, ..Capabilities::default() }).program(&model()).unwrap_err();
    assert_eq!(error.kind(), pjrt::ErrorKind::Unsupported, "{error}");
}

#[test]
fn element_types_that_the_devices_lack() {
    let element = plugin_manifest::ElementType::F32;
    let plugin =
        described(Capabilities { supported_dtypes: Some(BTreeSet::from([element])), ..Capabilities::default() });
    let error = plugin.program(&model()).unwrap_err();
    assert_eq!(error.kind(), pjrt::ErrorKind::Unsupported);
}
