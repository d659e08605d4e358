//! Compares the embedded device with XLA's CPU plugin. Both run the same programs for the same caller, alternately and
//! in one process.
//!
//! Start the benchmark with `PJRT_TEST_PLUGINS=… cargo bench -p pjrt-cpu --bench against_xla [-- FILTER]`. The last
//! library in the variable is the plugin to compare with. The benchmark prints a table, and writes the results as JSON
//! to `target/against_xla.json` and as a chart to `target/against_xla.svg`. `docs` contains a copy of the chart. Rows
//! that exceed their target are marked. The outputs are compared first, so that a fast but wrong result does not count.

use std::path::Path;

use pjrt::{ElementType, Program, Shape};
use pjrt_bench::{Case, Report, Settings, Side, chart, measure};
use plugin_registry::LoadedPlugin;

macro_rules! cases {
    ($($name:literal $target:literal)*) => {
        &[$(($name, include_str!(concat!("../../stablehlo-cpu/benches/programs/", $name, ".mlir")), $target)),*]
    };
}

/// Programs, each with a target for the ratio of the embedded device's time to XLA's time.
const CASES: &[(&str, &str, f64)] = cases! {
    "add_one" 0.5
    "elementwise_chain" 0.4
    "tanh_chain" 0.4
    "gelu" 0.4
    "softmax" 0.5
    "layer_norm" 0.5
    "sum" 1.0
    "column_sums" 1.0
    "transpose" 1.0
    "sort" 1.0
    "argsort" 1.0
    "lexsort" 1.0
    "top_k" 1.0
    "matmul_64" 1.0
    "matmul_1024" 1.0
    "matmul_2048" 1.0
    "conv" 1.1
    "conv_nchw" 1.1
    "conv_kernel_gradient" 1.1
    "mlp_step" 1.0
    "cnn_step" 1.0
    "transformer_block" 1.0
    "transformer_step" 1.0
    "graph_network" 1.0
    "fft_pipeline" 1.0
    "embedding_step" 1.0
    "take" 1.0
    "rnn" 1.5
    "ode_solver" 1.5
    "leapfrog" 1.5
    "loop_scalar" 1.5
    "loop_branch" 1.5
    "loop_update" 1.5
    "loop_runge_kutta" 1.5
    "loop_newton" 1.5
};

/// Returns a benchmark case with the program `text` and random inputs. `target` is the maximum ratio of the times.
fn case(name: &str, text: &str, target: f64) -> Case {
    let module = stablehlo::parse(text.to_owned(), stablehlo::VerifyLevel::FULL).expect("a program");
    let main = module.entry().expect("an entry");
    let shape = |&value| {
        let tensor = main.ty(value).as_tensor().expect("a tensor");
        let element: ElementType = tensor.element.to_string().parse().expect("an element type");
        Shape::new(element, tensor.shape.clone())
    };
    let shapes: Vec<Shape> = main.args().iter().map(shape).collect();
    let case = Case::with_random_inputs(name, Program::mlir(text), &shapes).expect("random inputs");
    case.with_target(target)
}

fn side(name: &str, plugin: Result<LoadedPlugin, plugin_registry::Error>) -> Side {
    let plugin = plugin.unwrap_or_else(|error| panic!("{error}"));
    Side::new(name, plugin.client(&pjrt::ClientOptions::new()).unwrap_or_else(|error| panic!("{error}")))
}

fn main() {
    let filter = std::env::args().skip(1).find(|a| !a.starts_with('-')).unwrap_or_default();
    let named = std::env::var("PJRT_TEST_PLUGINS").unwrap_or_default();
    let Some(path) = named.split(':').rfind(|path| !path.is_empty()) else {
        println!("SKIPPED: PJRT_TEST_PLUGINS names no library of XLA's CPU plugin");
        return;
    };
    // SAFETY: R1 (the library is trusted): whoever sets the variable trusts the library.
    let xla = unsafe { plugin_registry::open_path(path) };
    let sides = [side("pjrt-cpu", plugin_registry::open("cpu")), side("XLA CPU", xla)];
    let mut cases = Vec::new();
    let mut wrong = Vec::new();
    for (name, text, target) in CASES.iter().filter(|(name, ..)| name.contains(&filter)) {
        eprintln!("{name}");
        match measure(&case(name, text, *target), &sides, &Settings::default()) {
            Ok(measured) => cases.push(measured),
            Err(error) => wrong.push(error.to_string()),
        }
    }
    let report = Report::new(&sides, cases);
    print!("{report}");
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let write = |file: &str, content: String| {
        let path = target.join(file);
        std::fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    };
    write("against_xla.json", serde_json::to_string_pretty(&report).expect("JSON"));
    if let Some(chart) = chart(&report) {
        write("against_xla.svg", chart);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
