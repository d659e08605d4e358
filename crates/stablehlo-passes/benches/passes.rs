//! Measures how the time of passes and plans grows with a program. Prints the times for 2,500 and for 20,000 ops, and
//! their ratio, which is 8 if the time for one op is constant. To start the benchmark, use
//! `cargo bench -p stablehlo-passes --bench passes`.

use std::fmt::Write;
use std::hint::black_box;
use std::time::{Duration, Instant};

use stablehlo::VerifyLevel;
use stablehlo::ir::{Binary, Module, Op, OpKind};
use stablehlo_passes::plan::{Fusion, Plan};
use stablehlo_passes::{canonicalize, eliminate_common_subexpressions, eliminate_dead_code, fold_constants};

/// A name, the program with a number of ops, and what is measured.
type Case = (&'static str, fn(usize) -> Module, fn(&Module));

fn main() {
    let cases: [Case; 9] = [
        ("eliminate_common_subexpressions, slices of one array", slices, common),
        ("eliminate_common_subexpressions, a chain", chain, common),
        ("eliminate_dead_code without dead code", chain, dead),
        ("fold_constants without constants", chain, fold),
        ("canonicalize without a simpler form", chain, canonical),
        ("plan of values that share memory", in_place, plan),
        ("plan of one array in many kernels", array_in_kernels, plan),
        ("plan of one scalar in many kernels", scalar_in_kernels, plan),
        ("plan of one kernel with many operands", operands, plan),
    ];
    for (name, program, run) in cases {
        let [small, large] = [2_500, 20_000].map(|ops| best(&program(ops), run));
        println!("{name}: {small:.1?}, {large:.1?}, ratio {:.1}", large.as_secs_f64() / small.as_secs_f64());
    }
}

/// Returns the best of several times, of at most about a second in total.
fn best(module: &Module, run: fn(&Module)) -> Duration {
    let begin = Instant::now();
    let mut best = Duration::MAX;
    for _ in 0..20 {
        let start = Instant::now();
        run(black_box(module));
        best = best.min(start.elapsed());
        if begin.elapsed() > Duration::from_secs(1) {
            break;
        }
    }
    best
}

fn common(module: &Module) {
    assert!(eliminate_common_subexpressions(module).is_none());
}

fn dead(module: &Module) {
    assert!(eliminate_dead_code(module).is_none());
}

fn fold(module: &Module) {
    assert!(fold_constants(module).expect("a valid program").is_none());
}

fn canonical(module: &Module) {
    assert!(canonicalize(module).expect("a valid program").is_none());
}

fn plan(module: &Module) {
    let classify = |op: &Op| match op.kind {
        OpKind::Binary(Binary::Xor) => Fusion::Opaque,
        OpKind::Concatenate { .. } => Fusion::Root,
        OpKind::BroadcastInDim { .. } => Fusion::Cheap,
        _ => Fusion::Fusible,
    };
    let func = module.entry().expect("a function");
    black_box(Plan::new(func, 64, classify, |_| Ok::<_, stablehlo::Error>(())).expect("a plan"));
}

/// Parses a function of an array and a scalar that returns the value with this name.
fn program(ops: &str, result: &str, ty: &str) -> Module {
    let text = format!(
        "func.func @main(%x: tensor<64xi32>, %s: tensor<i32>, %t: tensor<20001xi32>) -> {ty} {{
           {ops} return {result} : {ty}
         }}"
    );
    stablehlo::parse(text, VerifyLevel::FULL).expect("a valid program")
}

fn repeated(count: usize, write: impl Fn(&mut String, usize) -> std::fmt::Result) -> String {
    let mut text = String::new();
    (0..count).for_each(|at| write(&mut text, at).expect("a string"));
    text
}

fn slices(count: usize) -> Module {
    let ops = repeated(count - 1, |text, at| {
        writeln!(text, "%{at} = stablehlo.slice %t [{at}:{}] : (tensor<20001xi32>) -> tensor<2xi32>", at + 2)
    });
    program(&ops, "%0", "tensor<2xi32>")
}

fn chain(count: usize) -> Module {
    let ops = repeated(count - 1, |text, at| match at {
        0 => writeln!(text, "%0 = stablehlo.add %x, %x : tensor<64xi32>"),
        _ => writeln!(text, "%{at} = stablehlo.add %{}, %x : tensor<64xi32>", at - 1),
    });
    program(&ops, &format!("%{}", count - 2), "tensor<64xi32>")
}

/// Each value is stored, because a kernel of its own reads it, and the next value can overwrite it.
fn in_place(count: usize) -> Module {
    let ops = repeated(count / 2 - 1, |text, at| {
        let from = if at == 0 { "%x".to_owned() } else { format!("%{}", at - 1) };
        writeln!(text, "%o{at} = stablehlo.xor {from}, {from} : tensor<64xi32>")?;
        writeln!(text, "%{at} = stablehlo.negate {from} : tensor<64xi32>")
    });
    program(&ops, &format!("%{}", count / 2 - 2), "tensor<64xi32>")
}

fn array_in_kernels(count: usize) -> Module {
    let array = "%b = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<i32>) -> tensor<64xi32>\n";
    let ops = repeated(count / 2 - 1, |text, at| {
        writeln!(text, "%{at} = stablehlo.add %b, %x : tensor<64xi32>")?;
        writeln!(text, "%o{at} = stablehlo.xor %{at}, %{at} : tensor<64xi32>")
    });
    program(&format!("{array}{ops}"), "%o0", "tensor<64xi32>")
}

fn scalar_in_kernels(count: usize) -> Module {
    let scalar = "%n = stablehlo.negate %s : tensor<i32>\n";
    let ops = repeated(count / 2 - 1, |text, at| {
        writeln!(text, "%{at} = stablehlo.broadcast_in_dim %n, dims = [] : (tensor<i32>) -> tensor<64xi32>")?;
        writeln!(text, "%o{at} = stablehlo.xor %{at}, %{at} : tensor<64xi32>")
    });
    program(&format!("{scalar}{ops}"), "%o0", "tensor<64xi32>")
}

fn operands(count: usize) -> Module {
    let count = count - 1;
    let ops = repeated(count, |text, at| writeln!(text, "%{at} = stablehlo.xor %x, %x : tensor<64xi32>"));
    let names: Vec<String> = (0..count).map(|at| format!("%{at}")).collect();
    let types = vec!["tensor<64xi32>"; count].join(", ");
    let result = format!("tensor<{}xi32>", 64 * count);
    let joined = format!("%j = stablehlo.concatenate {}, dim = 0 : ({types}) -> {result}\n", names.join(", "));
    program(&format!("{ops}{joined}"), "%j", &result)
}
