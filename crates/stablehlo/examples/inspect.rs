//! Reads programs and prints a summary. To start the example, use `cargo run -p stablehlo-rs --example inspect --
//! PROGRAM...`.
//!
//! With `--ops`, lists every op. Exits with 1 if a program cannot be read.

use std::process::ExitCode;

use stablehlo::ir::{Module, Region};

fn main() -> ExitCode {
    let mut ops = false;
    let mut failed = 0;
    for path in std::env::args().skip(1) {
        if path == "--ops" {
            ops = true;
            continue;
        }
        let program = match std::fs::read(&path) {
            Ok(program) => program,
            Err(e) => {
                println!("{path}: {e}");
                failed += 1;
                continue;
            }
        };
        match stablehlo::parse(program, stablehlo::VerifyLevel::FULL) {
            Ok(module) => report(&path, &module, ops),
            Err(e) => {
                println!("{path}: {e}");
                failed += 1;
            }
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn report(path: &str, module: &Module, ops: bool) {
    let count: usize = module.funcs.iter().map(|f| count(&f.body)).sum();
    let version = module.version.map_or("text".to_owned(), |v| format!("version {v}"));
    println!("{path}: {version}, {} functions, {count} ops", module.funcs.len());
    if ops {
        for func in &module.funcs {
            println!("@{} ({})", func.name, if func.public { "public" } else { "private" });
            list(&func.body, module, 1);
        }
    }
}

fn count(region: &Region) -> usize {
    region.ops.iter().map(|op| 1 + op.regions.iter().map(count).sum::<usize>()).sum()
}

fn list(region: &Region, module: &Module, depth: usize) {
    for op in &region.ops {
        let results: Vec<_> = op.results.iter().map(|v| v.0).collect();
        let operands: Vec<_> = op.operands.iter().map(|v| v.0).collect();
        println!(
            "{:indent$}{results:?} = {} {operands:?}  {}",
            "",
            op.kind.name(),
            module.location(op.location),
            indent = 2 * depth
        );
        for region in &op.regions {
            list(region, module, depth + 1);
        }
    }
}
