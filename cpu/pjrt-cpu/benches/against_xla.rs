//! Compares the embedded device with XLA's CPU plugin. Both run the same programs for the same caller, alternately and
//! in one process.
//!
//! Start the benchmark with `PJRT_TEST_PLUGINS=… cargo bench -p pjrt-cpu --bench against_xla [-- FILTER]`. The last
//! library in the variable is the plugin to compare with. The benchmark prints a table, and writes the results as JSON
//! to `target/against_xla.json` and as a chart to `target/against_xla.svg`. `cargo xtask performance programs` copies
//! the table and the chart to `docs`. Rows that exceed their target are marked. The outputs are compared first, so that
//! a fast but wrong result does not count.

use std::path::Path;

use pjrt::{ElementType, Program, Shape};
use pjrt_bench::{Case, Report, Settings, Side, chart, measure};
use plugin_registry::LoadedPlugin;

macro_rules! cases {
    ($($name:literal $title:literal $target:literal)*) => {
        &[$(Row {
            name: $name,
            title: $title,
            text: include_str!(concat!("../../stablehlo-cpu/benches/programs/", $name, ".mlir")),
            target: $target,
        }),*]
    };
}

/// A measured program.
struct Row {
    name: &'static str,
    /// Description in the table.
    title: &'static str,
    text: &'static str,
    /// Maximum ratio of the embedded device's time to XLA's time.
    target: f64,
}

const ROWS: &[Row] = cases! {
    "add_one" "`x + 1` of 4 floats" 0.5
    "elementwise_chain" "chain of sums and products, 16 M floats" 0.4
    "tanh_chain" "chain of tanh, 16 M floats" 0.4
    "gelu" "gelu, 4 M floats" 0.4
    "softmax" "softmax, 4096x4096" 0.5
    "layer_norm" "layer norm, 4096x4096" 0.5
    "sum" "sum, 16 M floats" 1.0
    "column_sums" "sums of columns" 1.0
    "transpose" "transpose" 1.0
    "sort" "sort" 1.0
    "argsort" "sort of 1 M numbers and their indices (`argsort`)" 1.0
    "lexsort" "sort of 1 M pairs by an integer and then by a float (`lexsort`)" 1.0
    "top_k" "the 40 largest of 50,257 numbers, 64 rows (`top_k`)" 1.0
    "matmul_64" "product, 64x64" 1.0
    "matmul_1024" "product, 1024x1024" 1.0
    "matmul_2048" "product, 2048x2048" 1.0
    "conv" "convolution 3x3, channels last" 1.1
    "conv_nchw" "convolution 3x3, channels first" 1.1
    "conv_kernel_gradient" "gradient of a convolution's kernel" 1.1
    "mlp_step" "train step of an MLP" 1.0
    "cnn_step" "train step of a CNN" 1.0
    "transformer_block" "transformer block" 1.0
    "transformer_step" "train step of a transformer" 1.0
    "graph_network" "graph network" 1.0
    "fft_pipeline" "Fourier transforms" 1.0
    "embedding_step" "train step with embeddings" 1.0
    "take" "lookup of 8,192 of 50,000 embeddings (`jnp.take`)" 1.0
    "rnn" "recurrent network" 1.5
    "ode_solver" "adaptive ODE solver" 1.5
    "leapfrog" "leapfrog integration of a Hamiltonian" 1.5
    "loop_scalar" "loop over a scalar" 1.5
    "loop_branch" "loop with a branch" 1.5
    "loop_update" "loop that updates an element" 1.5
    "loop_runge_kutta" "loop with Runge-Kutta steps" 1.5
    "loop_newton" "loop with Newton steps" 1.5
};

/// Returns a benchmark case with the program and random inputs.
fn case(row: &Row) -> Case {
    let module = stablehlo::parse(row.text.to_owned(), stablehlo::VerifyLevel::FULL).expect("a program");
    let main = module.entry().expect("an entry");
    let shape = |&value| {
        let tensor = main.ty(value).as_tensor().expect("a tensor");
        let element: ElementType = tensor.element.to_string().parse().expect("an element type");
        Shape::new(element, tensor.shape.clone())
    };
    let shapes: Vec<Shape> = main.args().iter().map(shape).collect();
    let case = Case::with_random_inputs(row.name, Program::mlir(row.text), &shapes).expect("random inputs");
    case.with_target(row.target)
}

fn side(name: &str, plugin: Result<LoadedPlugin, plugin_registry::Error>) -> Side {
    let plugin = plugin.unwrap_or_else(|error| panic!("{error}"));
    Side::new(name, plugin.client(&pjrt::ClientOptions::new()).unwrap_or_else(|error| panic!("{error}")))
}

/// Prints a table with a row for each program.
fn print_table(report: &Report) {
    println!("| program | pjrt_cpu | XLA's plugin | ratio | compiling, ratio | |");
    println!("|---|--:|--:|--:|--:|---|");
    for case in &report.cases {
        let [ours, xla] = &case.sides[..] else { unreachable!("two sides") };
        let title = ROWS.iter().find(|row| row.name == case.name).map_or("", |row| row.title);
        println!(
            "| {title} | {} | {} | {:.2} | {:.3} | {} |",
            time(ours.execution.median),
            time(xla.execution.median),
            ours.execution.median / xla.execution.median,
            ours.compilation.median / xla.compilation.median,
            if case.misses_target() { "above its target" } else { "" }
        );
    }
}

/// Formats a time with three digits.
fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 1e-6 => (s * 1e9, "ns"),
        s if s < 1e-3 => (s * 1e6, "µs"),
        s if s < 1.0 => (s * 1e3, "ms"),
        s => (s, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
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
    for row in ROWS.iter().filter(|row| row.name.contains(&filter)) {
        eprintln!("{}", row.name);
        match measure(&case(row), &sides, &Settings::default()) {
            Ok(measured) => cases.push(measured),
            Err(error) => wrong.push(error.to_string()),
        }
    }
    let report = Report::new(&sides, cases);
    print_table(&report);
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
