//! Tests that the backend follows the capabilities that a plugin declares. The same operations run on plugins whose
//! descriptions differ in one field. The programs may differ only in the way that this field describes.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use burn_pjrt::{Pjrt, PjrtDevice, Settings};
use burn_tensor::activation::softmax;
use burn_tensor::{DType, Distribution, IndexingUpdateOp, Int, Tensor};
use pjrt::ElementType;
use plugin_manifest::capabilities::{Int64Policy, LayoutPolicy, RngBitGenerator};
use plugin_manifest::{Autocast, Capabilities, Descriptor};
use plugin_registry::PluginRegistry;

/// Opens the embedded device with a description that declares `capabilities`. The device itself does not use its
/// description, so it works whichever capabilities are declared.
fn described(name: &str, capabilities: Capabilities) -> PjrtDevice {
    with_settings(name, capabilities, Settings::default())
}

fn with_settings(name: &str, capabilities: Capabilities, settings: Settings) -> PjrtDevice {
    let cpu = plugin_registry::open("cpu").expect("the embedded device");
    let mut manifest = cpu.descriptor().manifest().clone();
    (manifest.name, manifest.capabilities) = (name.to_owned(), capabilities);
    manifest.aliases.clear();
    let descriptor = Descriptor::new(manifest, cpu.descriptor().library().clone(), Arc::new(())).expect("a manifest");
    let entry = PluginRegistry::empty().register_descriptor(descriptor).expect("a registration");
    PjrtDevice::with_settings(&entry.load().expect("the plugin"), settings).expect("a client")
}

fn plain() -> Capabilities {
    Capabilities::default()
}

/// Runs two steps of a small model: select rows of a table, draw noise, multiply matrices, and update the table.
/// Returns the result and the program of a step.
fn run(device: &PjrtDevice) -> (Vec<f32>, String) {
    use burn_tensor::backend::Backend;
    Pjrt::seed(device, 7);
    let values: Vec<f32> = (0..32).map(|i| ((i * 13) % 17) as f32 / 17.0 - 0.5).collect();
    let mut table = Tensor::<Pjrt, 1>::from_floats(&values[..], device).reshape([8, 4]);
    let weights = Tensor::<Pjrt, 1>::from_floats(&values[..16], device).reshape([4, 4]);
    let tokens = Tensor::<Pjrt, 1, Int>::from_data([1, 5, 1, 0], device);
    let _ = (table.to_data(), weights.to_data());
    let mut result = Vec::new();
    for _ in 0..2 {
        let rows = table.clone().select(0, tokens.clone());
        let mask = rows.random_like(Distribution::Bernoulli(0.5));
        let scores = softmax(rows.matmul(weights.clone()), 1) + mask * 0.0;
        table = table.select_assign(0, tokens.clone(), scores * 0.1, IndexingUpdateOp::Add);
        result = table.to_data().to_vec().expect("f32");
    }
    (result, device.last_program())
}

/// Counts the ops of a program by name.
fn ops(program: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    // Attributes such as `#stablehlo.dot` have names that look like op names. Remove the prefix of these names, so that
    // they are not counted.
    let program = program.replace("#stablehlo.", "#");
    for word in program.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '.') {
        if let Some(op) = word.strip_prefix("stablehlo.") {
            *counts.entry(op.to_owned()).or_default() += 1;
        }
    }
    counts
}

fn assert_close(found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= tolerance, "{found} is not {expected}");
    }
}

/// Runs a function on another thread and returns the message of its panic.
fn panic_of(function: impl FnOnce() + Send + 'static) -> String {
    let panic = std::thread::spawn(function).join().expect_err("a panic");
    *panic.downcast::<String>().expect("a message")
}

#[test]
fn dense_gather_replaces_gathers() {
    let (expected, sparse) = run(&described("sparse", plain()));
    let capabilities = Capabilities { dense_gather_factor: NonZeroU32::new(1), ..plain() };
    let (found, dense) = run(&described("dense", capabilities));
    assert_close(&found, &expected, 1e-6);
    let (sparse, dense) = (ops(&sparse), ops(&dense));
    assert_eq!((sparse.get("gather"), dense.get("gather")), (Some(&1), None));
    assert_eq!(dense["dot_general"], sparse["dot_general"] + 1);
    assert_eq!(sparse.get("scatter"), dense.get("scatter"));
    // The device gathers sparsely along dimensions that exceed ten times the dense gather factor.
    let device = described("large", Capabilities { dense_gather_factor: NonZeroU32::new(1), ..plain() });
    let x = Tensor::<Pjrt, 1, Int>::arange(0..11, &device).float();
    let _ = x.select(0, Tensor::from_data([10, 0], &device)).into_data();
    assert_eq!(ops(&device.last_program()).get("gather"), Some(&1));
}

#[test]
fn dense_scatter_replaces_scatters() {
    let (expected, sparse) = run(&described("sparse", plain()));
    let capabilities = Capabilities { dense_scatter_factor: NonZeroU32::new(100), ..plain() };
    let (found, dense) = run(&described("dense", capabilities));
    assert_close(&found, &expected, 1e-6);
    let (sparse, dense) = (ops(&sparse), ops(&dense));
    assert_eq!((sparse.get("scatter"), dense.get("scatter")), (Some(&1), None));
    assert_eq!(dense["dot_general"], sparse["dot_general"] + 1);
    assert_eq!(sparse.get("gather"), dense.get("gather"));
}

#[test]
fn random_bits_use_the_declared_generator() {
    let (_, default) = run(&described("default", plain()));
    for (generator, word) in [(RngBitGenerator::Philox, "PHILOX"), (RngBitGenerator::ThreeFry, "THREE_FRY")] {
        let capabilities = Capabilities { rng_bit_generator: generator, ..plain() };
        let (_, chosen) = run(&described("chosen", capabilities));
        assert_eq!(default.matches("DEFAULT").count() - chosen.matches("DEFAULT").count(), 1, "{default}");
        assert_eq!(chosen.matches(word).count(), 1, "{chosen}");
        let restored = chosen.replace(&format!("algorithm = {word}"), "algorithm = DEFAULT");
        assert_eq!(restored, default);
    }
}

#[test]
fn last_uses_are_donated_if_memory_is_reusable() {
    let (expected, kept) = run(&described("kept", plain()));
    let device = described("donated", Capabilities { donation: true, ..plain() });
    let (found, donated) = run(&device);
    assert_eq!(found, expected);
    assert!(!kept.contains("aliasing_output"), "{kept}");
    assert_eq!(donated.matches("tf.aliasing_output").count(), 1, "{donated}");
    assert_eq!(donated.replace(" {tf.aliasing_output = 0 : i32}", ""), kept);
    assert_eq!(device.statistics().donated, 2);
}

#[test]
fn long_dimensions_are_stored_last_if_tiles_need_it() {
    let (expected, rows) = run(&described("rows", plain()));
    let tile = [8, 128].map(|extent| NonZeroU32::new(extent).expect("an extent"));
    let capabilities = Capabilities { layout: LayoutPolicy::Tiled { tile, max_padding: 1.5 }, ..plain() };
    let (found, tiled) = run(&described("tiled", capabilities));
    assert_eq!(found, expected);
    assert!(!rows.contains("layout_mode"), "{rows}");
    // The table has the shape `8x4`, as an argument and as a result. The weights have the shape `4x4`, so neither of
    // their dimensions is longer.
    assert_eq!(tiled.matches("mhlo.layout_mode = \"{0,1}\"").count(), 2, "{tiled}");
    let restored = tiled.replace(" {mhlo.layout_mode = \"{0,1}\"}", "");
    assert_eq!(restored.replace("-> (tensor<8x4xf32>)", "-> tensor<8x4xf32>"), rows);
}

#[test]
fn autocast_shortens_products_on_request() {
    let capabilities = Capabilities { autocast: Some(Autocast::xla([ElementType::Bf16])), ..plain() };
    let (expected, exact) = run(&described("exact", capabilities.clone()));
    let on = Settings::default().autocast(true);
    let (found, short) = run(&with_settings("short", capabilities, on));
    assert_close(&found, &expected, 0.01);
    assert!(!exact.contains("bf16"), "{exact}");
    let product = short.lines().find(|line| line.contains("dot_general")).expect("a product");
    assert!(product.contains("bf16"), "{product}");
    let others = |program: &str| {
        let mut counts = ops(program);
        counts.remove("convert");
        counts
    };
    assert_eq!(others(&short), others(&exact));
    // A plugin that does not declare an autocast type ignores the setting.
    assert_eq!(run(&with_settings("ignored", plain(), on)).1, exact);
}

#[test]
fn types_are_replaced_as_declared() {
    let capabilities = Capabilities {
        int64: Int64Policy::Remapped,
        remapped_dtypes: BTreeMap::from([(ElementType::F64, ElementType::F32)]),
        ..plain()
    };
    let run = |device: &PjrtDevice| {
        let x = Tensor::<Pjrt, 1>::from_data([1.5, -2.0, 0.25], device).cast(DType::F64);
        let n = Tensor::<Pjrt, 1, Int>::from_data([3, 4, -5], device).cast(DType::I64);
        let sum: Vec<f32> = (x.exp() + n.float().cast(DType::F64)).into_data().to_vec().expect("f32");
        (sum, device.last_program())
    };
    let (expected, native) = run(&described("native", plain()));
    let (found, replaced) = run(&described("replaced", capabilities));
    assert_close(&found, &expected, 1e-5);
    assert!(native.contains("f64") && native.contains("xi64"), "{native}");
    assert!(!replaced.contains("f64") && !replaced.contains("xi64"), "{replaced}");
}

#[test]
fn missing_types_are_errors() {
    use burn_tensor::backend::Backend;
    let types = [ElementType::F32, ElementType::S32, ElementType::Pred];
    let device = described("short", Capabilities { supported_dtypes: Some(BTreeSet::from(types)), ..plain() });
    assert!(Pjrt::dtype_usage(&device, DType::F64).is_empty());
    assert!(!Pjrt::dtype_usage(&device, DType::F32).is_empty());
    let message = panic_of(move || drop(Tensor::<Pjrt, 1>::from_floats([1.0], &device).cast(DType::F64)));
    assert!(message.contains("`short`") && message.contains("F64") && message.contains("pred, s32, f32"), "{message}");
    // The device still works after the error.
    let sum = Tensor::<Pjrt, 1>::from_floats([1.0, 2.0], &device).sum();
    assert_eq!(sum.into_scalar(), 3.0);
}

#[test]
fn unsupported_operations_name_themselves() {
    use burn_tensor::module::deform_conv2d;
    use burn_tensor::ops::DeformConvOptions;
    let device = described("plain", plain());
    let message = panic_of(move || {
        let tensor = |shape| Tensor::<Pjrt, 4>::zeros(shape, &device);
        let options = DeformConvOptions::new([1, 1], [0, 0], [1, 1], 1, 1);
        deform_conv2d(tensor([1, 1, 3, 3]), tensor([1, 8, 2, 2]), tensor([1, 1, 2, 2]), None, None, options);
    });
    assert_eq!(message, "the PJRT backend does not support Module::DeformableConv2d: it is not lowered to StableHLO");
}

#[test]
fn graphs_are_cached_and_dropped_tensors_freed() {
    let device = described("cached", plain());
    let step = |factor: f32| {
        let x = Tensor::<Pjrt, 1>::from_floats([1.0, 2.0, 3.0], &device);
        let unused = x.clone().exp();
        drop(unused);
        (x * factor).sum().into_scalar()
    };
    assert_eq!(step(2.0), 12.0);
    // With another scalar, the same program runs.
    assert_eq!(step(3.0), 18.0);
    let statistics = device.statistics();
    assert_eq!((statistics.compiled, statistics.runs, statistics.tensors), (1, 2, 0), "{statistics:?}");
    assert!(!device.last_program().contains("exponential"));
    // The device runs a long graph even without a read.
    let device = with_settings("limited", plain(), Settings::default().max_operations(8));
    let mut x = Tensor::<Pjrt, 1>::from_floats([1.0], &device);
    for _ in 0..20 {
        x = x + 1.0;
    }
    assert_eq!(device.statistics().runs, 2);
    assert_eq!(x.into_scalar(), 21.0);
}

#[test]
fn numbers_that_a_read_would_change_are_errors() {
    let device = described("reads", plain());
    let x = Tensor::<Pjrt, 1, Int>::from_data([i32::MAX], &device).cast(DType::I64) * 2;
    let error = x.try_into_data().expect_err("a number of 33 bits").to_string();
    assert!(error.contains("4294967294") && error.contains("I64"), "{error}");
}
