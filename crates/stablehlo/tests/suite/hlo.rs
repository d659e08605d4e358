//! Tests the reader for HLO protos with programs that `make_hlo.py` created.
#![cfg(feature = "hlo")]

use std::path::Path;

use crate::common::{XorShift, mutate};
use stablehlo::ErrorKind;
use stablehlo::ir::{Attribute, Module, Op, OpKind, Region};

fn bytes(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn read(name: &str) -> Module {
    let module =
        stablehlo::parse_hlo(bytes(name), stablehlo::VerifyLevel::FULL).unwrap_or_else(|e| panic!("{name}: {e}"));
    stablehlo::verify(&module, stablehlo::VerifyLevel::FULL).unwrap_or_else(|e| panic!("{name}: {e}"));
    module
}

/// Returns the number of matching ops in all functions and regions.
fn count(module: &Module, is: impl Fn(&Op) -> bool + Copy) -> usize {
    fn inside(region: &Region, is: impl Fn(&Op) -> bool + Copy) -> usize {
        region.ops.iter().map(|op| usize::from(is(op)) + op.regions.iter().map(|r| inside(r, is)).sum::<usize>()).sum()
    }
    module.funcs.iter().map(|func| inside(&func.body, is)).sum()
}

fn named(module: &Module, name: &str) -> usize {
    count(module, |op| op.kind.name() == name)
}

#[test]
fn training_step_matches_jax() {
    let module = read("mlp_step.hlo");
    let main = module.entry().expect("an entry");
    assert_eq!((main.args().len(), main.results.len()), (6, 5));
    assert_eq!(main.ty(main.args()[0]).to_string(), "tensor<8x16xf32>");
    // The forward pass has two matrix multiplications. The backward pass has two for the gradients of the weights, and
    // one for the gradient of the values between the layers.
    assert_eq!(named(&module, "stablehlo.dot_general"), 5);
    assert_eq!(named(&module, "stablehlo.tanh"), 2);
    let aliases = |argument| main.arg_attribute(argument, "tf.aliasing_output").and_then(Attribute::as_integer);
    assert_eq!([0, 1, 2, 3, 4, 5].map(aliases), [Some(0), Some(1), Some(2), Some(3), None, None]);
}

#[test]
fn fusions_are_calls() {
    let (module, lowered) = (read("mlp_step.optimized.hlo"), read("mlp_step.hlo"));
    assert!(count(&module, |op| matches!(op.kind, OpKind::Call { .. })) > 0);
    assert_eq!(module.entry().expect("an entry").results, lowered.entry().expect("an entry").results);
}

#[test]
fn asynchronous_collectives() {
    let module = read("collectives.hlo");
    for (name, times) in [
        ("stablehlo.all_reduce", 1),
        ("stablehlo.all_gather", 1),
        ("stablehlo.reduce_scatter", 1),
        ("stablehlo.collective_permute", 1),
        ("stablehlo.all_to_all", 1),
        ("stablehlo.replica_id", 1),
    ] {
        assert_eq!(named(&module, name), times, "{name}");
    }
    let groups = |op: &Op| {
        let attributes = op.own_attributes();
        let found = attributes.iter().find(|(name, _)| name == "replica_groups").map(|(_, value)| value);
        match found {
            Some(Attribute::Tensor(literal)) => {
                Some((literal.ty.shape.to_vec(), literal.integers().expect("integers")))
            }
            _ => None,
        }
    };
    let main = module.entry().expect("an entry");
    let of = |name: &str| main.body.ops.iter().find(|op| op.kind.name() == name).and_then(groups);
    assert_eq!(of("stablehlo.all_reduce"), Some((vec![2, 2], vec![0, 1, 2, 3])));
    assert_eq!(of("stablehlo.all_gather"), Some((vec![1, 4], vec![0, 1, 2, 3])));
    // Each element of a tuple has its own sharding.
    let texts: Vec<_> = [0, 1].map(|i| main.arg_attribute(i, "mhlo.sharding").and_then(Attribute::as_str)).to_vec();
    assert_eq!(texts, [Some("{replicated}"), Some("{maximal device=1}")]);
    let results: Vec<_> = main.result_attributes.iter().map(|a| a[0].1.as_str()).collect();
    assert_eq!(results, [Some("{devices=[2,2]<=[4] last_tile_dim_replicate}"), Some("{replicated}")]);
    // Each dimension has a scalar start index.
    let slice = main.body.ops.iter().find(|op| matches!(op.kind, OpKind::DynamicSlice { .. })).expect("a slice");
    assert_eq!(main.ty(slice.operands[1]).to_string(), "tensor<i32>");
}

#[test]
fn round_trip() {
    for name in ["mlp_step.hlo", "mlp_step.optimized.hlo", "collectives.hlo"] {
        let module = read(name);
        let artifact = stablehlo::write(&module, stablehlo::ir::Version::NEWEST).expect("an artifact");
        let again = stablehlo::parse(artifact, stablehlo::VerifyLevel::FULL).expect("its own artifact");
        assert_eq!(again.entry().expect("an entry").results, module.entry().expect("an entry").results, "{name}");
    }
}

#[test]
fn truncated_protos_never_panic() {
    let whole = bytes("collectives.hlo");
    for size in 0..whole.len() {
        if let Err(error) = stablehlo::parse_hlo(whole[..size].to_vec(), stablehlo::VerifyLevel::FULL) {
            assert!(!error.message().is_empty());
        }
    }
}

#[test]
fn mutated_protos_never_panic() {
    let words: &[&[u8]] =
        &[&[0xFF; 9], &[0x80, 0x01], &[0x0A, 0x00], &[0xB2, 0x06, 0x04], b"WEAK", b"tuple", b"fusion"];
    let mut rng = XorShift(0x9216_D5D9_8979_FB1B);
    for name in ["mlp_step.hlo", "collectives.hlo"] {
        let program = bytes(name);
        for _ in 0..2_000 {
            match stablehlo::parse_hlo(mutate(&mut rng, &program, words), stablehlo::VerifyLevel::FULL) {
                Ok(module) => assert!(!module.to_string().is_empty()),
                Err(error) => assert!(!error.message().is_empty()),
            }
        }
    }
}

/// Checks that the programs of `tests/data` that can be written as HLO have the same types when they are read again.
#[cfg(feature = "text")]
#[test]
fn written_programs_are_read_again() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut written = Vec::new();
    for file in std::fs::read_dir(folder).expect("the data") {
        let path = file.expect("a file").path();
        if path.extension().is_none_or(|extension| extension != "mlir") {
            continue;
        }
        let module = stablehlo::parse(std::fs::read(&path).expect("a program"), stablehlo::VerifyLevel::FULL);
        let module = module.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
        match stablehlo::write_hlo(&module) {
            Ok(hlo) => {
                let again = stablehlo::parse_hlo(hlo, stablehlo::VerifyLevel::FULL);
                let again = again.unwrap_or_else(|e| panic!("{name}: {e}"));
                let (old, new) = (module.entry().expect("main"), again.entry().expect("main"));
                assert_eq!(new.results, old.results, "{name}");
                let types =
                    |func: &stablehlo::ir::Func| func.args().iter().map(|&v| func.ty(v).clone()).collect::<Vec<_>>();
                assert_eq!(types(new), types(old), "{name}");
                assert_eq!(new.arg_attribute(0, "tf.aliasing_output"), old.arg_attribute(0, "tf.aliasing_output"));
                written.push(name);
            }
            Err(error) => {
                let names_it = error.kind() == ErrorKind::Unsupported || error.op().is_some();
                assert!(names_it, "{name}: {error}");
            }
        }
    }
    written.sort();
    for name in ["branches", "convolution", "gather_scatter", "train_step"] {
        assert!(written.iter().any(|known| known == name), "{name} was not written: {written:?}");
    }
}

#[cfg(feature = "text")]
#[test]
fn inexpressible_op_is_named() {
    let mut messages = String::new();
    for (body, op) in [
        ("%0 = chlo.erf_inv %x : tensor<2xf32> -> tensor<2xf32>", "chlo.erf_inv"),
        (
            "%i = stablehlo.constant dense<2> : tensor<1xi32>
             %0 = stablehlo.dynamic_reshape %x, %i : (tensor<2xf32>, tensor<1xi32>) -> tensor<2xf32>",
            "stablehlo.dynamic_reshape",
        ),
        (
            "%0 = \"stablehlo.map\"(%x) ({ ^bb0(%a: tensor<f32>):
               %1 = stablehlo.add %a, %s : tensor<f32>
               stablehlo.return %1 : tensor<f32>
             }) {dimensions = array<i64: 0>} : (tensor<2xf32>) -> tensor<2xf32>",
            "stablehlo.add",
        ),
    ] {
        let text = format!(
            "func.func @main(%x: tensor<2xf32>, %s: tensor<f32>) -> tensor<2xf32> {{\n{body}\nreturn %0 : tensor<2xf32> }}"
        );
        let module = stablehlo::parse(text, stablehlo::VerifyLevel::FULL).expect("a program");
        let error = stablehlo::write_hlo(&module).expect_err("HLO lacks the op");
        assert_eq!(error.op(), Some(op), "{error}");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        messages += &format!("{error}\n");
    }
    expect_test::expect_file!["../messages/hlo_writer.txt"].assert_eq(&messages);
}
