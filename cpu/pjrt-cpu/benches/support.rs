//! Measures how long it takes to check whether a device supports a program. Start the benchmark with `cargo bench -p
//! pjrt-cpu --bench support`.
//!
//! For each program, prints the median times of three checks. The first check looks up the names of all operations in a
//! table of rules. The second check also compares their types with the rules. In the third check, the CPU device
//! compiles the program. The target for a table is at most one millisecond for a program of 7 KB. The last column
//! scales the time of the second check to a program of 7 KB. Run the benchmark on an otherwise idle machine.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use device_plugin::support::{AttributeRule, Checker, OperationRule};
use device_plugin::{Depth, DevicePlugin, Program, Support, SupportTable};
use pjrt_cpu::Cpu;
use stablehlo::ir::Module;

/// Program size for the last column, in bytes.
const SIZE: f64 = 7.0 * 1024.0;

const PROGRAMS: [(&str, &str); 5] = [
    ("transformer.1.17.0.bc", "mlir"),
    ("train_step.mlir", "mlir"),
    ("mlp_step.hlo", "hlo"),
    ("mlp_step.optimized.hlo", "hlo"),
    ("collectives.hlo", "hlo"),
];

/// Returns the names of the operations of a program.
fn operations(module: &Module) -> Vec<String> {
    module.funcs.iter().flat_map(|func| func.body.all_ops()).map(|op| op.kind.name()).collect()
}

/// Returns a table with rules for all operations of a program, each with types and attributes to check.
fn table(module: &Module) -> SupportTable {
    let types = ["i1", "i8", "i32", "i64", "ui8", "ui32", "ui64", "bf16", "f16", "f32", "f64"];
    let attributes = ["dimensions", "precision_config", "broadcast_dimensions"];
    let rule = OperationRule {
        attributes: attributes.map(|name| (name.to_owned(), AttributeRule::default())).into(),
        ..OperationRule::of_types(["@all"])
    };
    SupportTable {
        complete: true,
        type_groups: [("all".to_owned(), types.map(str::to_owned).into())].into(),
        operations: operations(module).into_iter().map(|name| (name, rule.clone())).collect(),
        ..SupportTable::default()
    }
}

/// Returns the median time of as many runs as fit into half a second, or of five runs if fewer fit.
fn median(mut run: impl FnMut()) -> Duration {
    let start = Instant::now();
    let mut times = Vec::new();
    while times.len() < 5 || start.elapsed() < Duration::from_millis(500) {
        let before = Instant::now();
        run();
        times.push(before.elapsed());
    }
    times.sort_unstable();
    times[times.len() / 2]
}

fn main() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/stablehlo/tests/data");
    println!(
        "{:24} {:>6} {:>4} {:>9} {:>9} {:>9} {:>9}",
        "µs", "bytes", "ops", "names", "types", "compile", "per 7 KB"
    );
    for (name, format) in PROGRAMS {
        let code = std::fs::read(data.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let size = code.len();
        let program = Program::new(format.to_owned(), code);
        let module = device_plugin::stablehlo::parse(&program, device_plugin::stablehlo::VerifyLevel::FULL)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let checker = Checker::new(&table(&module)).unwrap_or_else(|faults| panic!("{name}: {faults}"));
        let ask = |depth| {
            assert_eq!(checker.program(&program, depth), Support::Yes, "{name}");
            median(|| drop(black_box(checker.program(black_box(&program), depth))))
        };
        let (names, types) = (ask(Depth::Names), ask(Depth::Types));
        let own = median(|| drop(black_box(Cpu::supports(black_box(&program), Depth::Compile))));
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let share = types.mul_f64(SIZE / size as f64);
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        println!(
            "{name:24} {size:6} {:4} {:9.1} {:9.1} {:9.1} {:9.1}",
            operations(&module).len(),
            us(names),
            us(types),
            us(own),
            us(share)
        );
    }
}
