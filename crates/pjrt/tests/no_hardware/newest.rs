//! Compiles ops of the newest StableHLO version, in all formats of programs.
//!
//! No other package has a reader of StableHLO 1.24. The artifacts and the HLO that the crate `stablehlo` writes, and
//! the types that its verifier accepts, are therefore compared with libtpu 0.0.52.

use pjrt::stablehlo::ForPlugin;
use pjrt::{CompileOptions, Plugin, Program, TopologyDescription};
use stablehlo::VerifyLevel;

use crate::{TOPOLOGIES, report};

/// The ops that were added since 1.22, and types of their operands that TPUs support.
const OPS: [(&str, [&str; 3]); 3] = [
    ("exp2 %x", ["f32", "bf16", "complex<f32>"]),
    ("log2 %x", ["f32", "bf16", "complex<f32>"]),
    ("fma %x, %x, %x", ["f32", "bf16", "f16"]),
];

/// Types of operands that the ops do not have.
const REJECTED: [(&str, &str); 5] = [
    ("exp2 %x", "i32"),
    ("log2 %x", "i1"),
    ("fma %x, %x, %x", "i32"),
    ("fma %x, %x, %x", "complex<f32>"),
    ("fma %x, %x, %x", "!quant.uniform<i8:f32, 0.5>"),
];

fn text(op: &str, element: &str) -> String {
    let ty = format!("tensor<2x3x{element}>");
    format!("func.func @main(%x: {ty}) -> {ty} {{ %0 = stablehlo.{op} : {ty}\n return %0 : {ty} }}")
}

pub(crate) fn compile(plugin: &Plugin) {
    let Some(topology) = report(TOPOLOGIES[0], TopologyDescription::create(plugin, TOPOLOGIES[0], &[])) else { return };
    let compile =
        |what: &str, program: &Program| report(what, topology.compile(program, &CompileOptions::default())).is_some();
    for (op, elements) in OPS {
        for element in elements {
            let text = text(op, element);
            let module = stablehlo::parse(text.clone(), VerifyLevel::FULL).unwrap();
            compile(&format!("{op} {element} as text"), &Program::mlir(text));
            compile(&format!("{op} {element} as HLO"), &Program::hlo(stablehlo::write_hlo(&module).unwrap()));
            if let Some(artifact) = report("write", Program::for_plugin(&module, plugin)) {
                compile(&format!("{op} {element} as artifact"), &artifact);
            }
        }
    }
    for (op, element) in REJECTED {
        let text = text(op, element);
        stablehlo::parse(text.clone(), VerifyLevel::FULL).unwrap_err();
        assert!(!compile(&format!("{op} {element}"), &Program::mlir(text)), "{op} {element}");
    }
}

/// Checks that libtpu compiled all valid programs.
pub(crate) fn check(output: &str) {
    for (op, elements) in OPS {
        for element in elements {
            for format in ["text", "HLO", "artifact"] {
                assert!(output.contains(&format!("{op} {element} as {format}: ok")), "{op} {element} as {format}");
            }
        }
    }
}
