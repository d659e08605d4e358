//! `recognize_threefry` on programs of JAX.

use std::path::Path;

use stablehlo::ir::{Module, OpKind};
use stablehlo_passes::{expand_composites, recognize_threefry};

use crate::oracle::{applied, parsed, same_values};

fn pass(module: &Module) -> Option<Module> {
    recognize_threefry(module).expect("a valid program")
}

fn text(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/{name}.mlir"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn count(module: &Module) -> usize {
    let ops = module.funcs.iter().flat_map(|func| func.body.all_ops());
    ops.filter(|op| matches!(&op.kind, OpKind::Composite { name, .. } if name == "pjrt.threefry2x32")).count()
}

#[test]
fn calls_of_jax() {
    for name in ["threefry", "threefry_0.12", "threefry_split", "threefry_split_0.12"] {
        let before = parsed(&text(name));
        let after = applied(name, &before, pass).unwrap_or_else(|| panic!("{name}: {before}"));
        assert_eq!(count(&after), 1, "{name}");
        same_values(name, &before, &after, &[], 0.0);
        let inlined = stablehlo::inline(&after, &["pjrt.threefry2x32"]).expect("a valid program");
        assert_eq!((count(&inlined), inlined.funcs.len()), (1, 2), "{name}");
        same_values(name, &before, &inlined, &[], 0.0);
        let expanded = expand_composites(&after, |_, _| false).expect("a valid program").expect("a composite");
        same_values(name, &before, &expanded, &[], 0.0);
    }
}

#[test]
fn large_tensors() {
    let large = |text: &str| {
        text.replace("tensor<3xui", "tensor<5000xui").replace("3x1xui", "5000x1xui").replace("3x2xui", "5000x2xui")
    };
    let before = large(&text("threefry_split"));
    let after = applied("large", &parsed(&before), pass).expect("it applies");
    assert_eq!(count(&after), 1);
    same_values("large", &parsed(&before), &after, &[], 0.0);
    // A function that also moves elements gives the same results for equal elements.
    let line = "%3 = stablehlo.add %arg1, %arg2 : tensor<5000xui32>";
    let moved = "%r = stablehlo.reverse %arg1, dims = [0] : tensor<5000xui32>\n%3 = stablehlo.add %r, %arg2 : tensor<5000xui32>";
    assert!(before.contains(line));
    assert!(pass(&parsed(&before.replace(line, moved))).is_none());
}

#[test]
fn other_functions() {
    let before = text("threefry_split");
    for (from, to) in [
        ("[13, 15, 26, 6]", "[13, 15, 26, 7]"),
        ("466688986", "466688987"),
        ("dense<5> : tensor<i32>", "dense<4> : tensor<i32>"),
        ("stablehlo.xor %arg0, %arg1", "stablehlo.or %arg0, %arg1"),
        ("return %6#2, %6#3", "return %6#3, %6#2"),
    ] {
        assert!(before.contains(from), "{from}");
        assert!(pass(&parsed(&before.replacen(from, to, 1))).is_none(), "{from}");
    }
    // Names do not matter.
    assert!(pass(&parsed(&before.replace("@threefry2x32", "@other"))).is_some());
}
