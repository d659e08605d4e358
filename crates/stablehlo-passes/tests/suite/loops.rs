//! `counted_loop` on loops of JAX, and on loops that do not count.

use std::path::Path;

use stablehlo::ir::{Module, OpKind};
use stablehlo_passes::{CountedLoop, Uses, counted_loop};

use crate::oracle::{parsed, run};

fn found(module: &Module) -> Option<CountedLoop> {
    let main = module.entry().expect("main");
    let uses = Uses::of(main);
    let op = main.body.all_ops().find(|op| matches!(op.kind, OpKind::While)).expect("a loop");
    counted_loop(op, &uses)
}

#[test]
fn loops_of_jax() {
    for (name, induction, trip_count) in [
        ("loop", 0, Some(5)),
        ("loop_0.12", 0, Some(5)),
        ("loop_to", 0, None),
        ("scan", 1, Some(7)),
        ("scan_0.12", 1, Some(7)),
        ("threefry", 0, Some(5)),
        ("threefry_0.12", 0, Some(5)),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/{name}.mlir"));
        let module = parsed(&std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}")));
        let module = stablehlo::inline(&module, &[]).expect("a valid program");
        let found = found(&module).unwrap_or_else(|| panic!("{name}: {module}"));
        assert_eq!((found.induction, found.step, found.trip_count), (induction, 1, trip_count), "{name}");
    }
}

/// A loop over the counter `%i`, a number `%n` that stays, and a number `%k` that changes. Returns how often it runs.
fn text(element: &str, start: &str, condition: &str, next: &str) -> String {
    let ty = format!("tensor<{element}>");
    format!(
        "func.func @main(%one: tensor<f64>) -> tensor<f64> {{
           %s = stablehlo.constant dense<{start}> : {ty}
           %m = stablehlo.constant dense<10> : {ty}
           %z = stablehlo.constant dense<0.0> : tensor<f64>
           %0:4 = stablehlo.while(%i = %s, %n = %m, %k = %m, %y = %z) : {ty}, {ty}, {ty}, tensor<f64>
             cond {{ %c = stablehlo.constant dense<7> : {ty}
                     %e = stablehlo.add %i, %c : {ty}
                     %p = stablehlo.compare {condition} : ({ty}, {ty}) -> tensor<i1>
                     stablehlo.return %p : tensor<i1> }}
             do   {{ %c1 = stablehlo.constant dense<1> : {ty}
                     %c3 = stablehlo.constant dense<3> : {ty}
                     %x = {next} : {ty}
                     %l = stablehlo.subtract %k, %c1 : {ty}
                     %w = stablehlo.add %y, %one : tensor<f64>
                     stablehlo.return %x, %n, %l, %w : {ty}, {ty}, {ty}, tensor<f64> }}
           return %0#3 : tensor<f64>
         }}"
    )
}

#[test]
fn trip_counts_are_those_of_the_device() {
    let mut count = 0;
    for element in ["i32", "i8", "ui8", "i64"] {
        for start in ["0", "1", "2", "7", "9", "10", "12", "30"] {
            for condition in [
                "LT, %i, %c",
                "LE, %i, %n",
                "GT, %m, %i",
                "GE, %c, %i",
                "GT, %i, %c",
                "GE, %i, %n",
                "NE, %i, %c",
                "LE, %c, %i",
            ] {
                for next in ["stablehlo.add %i, %c1", "stablehlo.add %c3, %i", "stablehlo.subtract %i, %c3"] {
                    let module = parsed(&text(element, start, condition, next));
                    let facts = found(&module).unwrap_or_else(|| panic!("{condition} {next}"));
                    assert!(facts.induction == 0 && facts.step.abs() <= 3);
                    // A loop without a trip count may not end.
                    if let Some(trips) = facts.trip_count {
                        let ran = run(&module, &[&[1.0]])[0][0];
                        assert!(ran == trips as f64, "{element} {start} {condition} {next}: {ran}, not {trips}");
                        count += 1;
                    }
                }
            }
        }
    }
    assert!(count > 400, "{count} loops");
}

#[test]
fn loops_that_do_not_count() {
    for (condition, next) in [
        ("LT, %i, %k", "stablehlo.add %i, %c1"),
        ("LT, %i, %e", "stablehlo.add %i, %c1"),
        ("LT, %n, %c", "stablehlo.add %i, %c1"),
        ("LT, %i, %c", "stablehlo.multiply %i, %c3"),
        ("LT, %i, %c", "stablehlo.subtract %c3, %i"),
        ("LT, %i, %c", "stablehlo.add %i, %k"),
        ("LT, %i, %c", "stablehlo.add %n, %c1"),
    ] {
        let module = parsed(&text("i32", "0", condition, next));
        assert!(found(&module).is_none(), "{condition} {next}");
    }
    // The counter would overflow before it reaches the limit, or skips it.
    for (element, start, condition, next) in [
        ("i8", "120", "NE, %i, %c", "stablehlo.add %i, %c1"),
        ("ui8", "12", "GE, %i, %n", "stablehlo.add %i, %c1"),
        ("i32", "9", "NE, %i, %c", "stablehlo.subtract %i, %c3"),
    ] {
        let facts = found(&parsed(&text(element, start, condition, next))).expect("a counted loop");
        assert_eq!(facts.trip_count, None, "{condition} {next}");
    }
}
