//! Measures collectives of four members in one process, compared with copying the same bytes once.
//!
//! Start the benchmark with `cargo bench -p stablehlo-cpu --bench collectives`.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use stablehlo_cpu::{Communicator, CompileSettings, DType, Member, Pool, Program, Tensor, compile_with};

const MEMBERS: usize = 4;
const ROUNDS: usize = 9;

fn program(n: usize, op: &str, result: usize) -> Program {
    let groups = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, \
                  replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>";
    let region = "({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32> })";
    let (attributes, region) = match op {
        "all_reduce" => ("use_global_device_ids", region),
        "reduce_scatter" => ("scatter_dimension = 0 : i64, use_global_device_ids", region),
        "all_gather" => ("all_gather_dim = 0 : i64, use_global_device_ids", ""),
        _ => ("split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 4 : i64", ""),
    };
    let text = format!(
        "func.func @main(%x: tensor<{n}xf32>) -> tensor<{result}xf32> {{
          %0 = \"stablehlo.{op}\"(%x) <{{{groups}, {attributes}}}> {region} : (tensor<{n}xf32>) -> tensor<{result}xf32>
          return %0 : tensor<{result}xf32>
        }}"
    );
    let module = stablehlo::parse(text, stablehlo::VerifyLevel::FULL).expect("the benchmark's program parses");
    let mut settings = CompileSettings::new(1, MEMBERS);
    settings.use_spmd = false;
    compile_with(&module, &settings, Pool::global()).expect("the benchmark's program compiles")
}

/// Returns the time from the start of the first member to the end of the last one.
fn launch(program: &Program, inputs: &[Tensor]) -> Duration {
    let members: Vec<Member> = Communicator::new(1, MEMBERS).members();
    let start = Instant::now();
    thread::scope(|scope| {
        for (member, input) in members.into_iter().zip(inputs) {
            scope.spawn(move || {
                let outputs = program.run_in(vec![input.clone()], Pool::global(), Some(&member), None);
                black_box(outputs.expect("a member runs"));
            });
        }
    });
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn main() {
    println!("{:>16} {:>10} {:>12} {:>12} {:>8}", "op", "KiB each", "launch µs", "memcpy µs", "ratio");
    for kib in [1usize, 256, 16 << 10] {
        let n = kib * 256;
        let inputs: Vec<Tensor> = (0..MEMBERS)
            .map(|_| Tensor::from_slice(DType::F32, &[n], &vec![1.5f32; n]).expect("memory for the inputs"))
            .collect();
        let mut copy = vec![0u8; n * 4];
        let memcpy = median(
            (0..ROUNDS)
                .map(|_| {
                    let start = Instant::now();
                    copy.copy_from_slice(inputs[0].bytes());
                    black_box(&copy);
                    start.elapsed()
                })
                .collect(),
        );
        for (op, result) in
            [("all_reduce", n), ("reduce_scatter", n / MEMBERS), ("all_gather", n * MEMBERS), ("all_to_all", n)]
        {
            let program = program(n, op, result);
            let time = median((0..ROUNDS).map(|_| launch(&program, &inputs)).collect());
            let (t, m) = (time.as_secs_f64() * 1e6, memcpy.as_secs_f64() * 1e6);
            println!("{op:>16} {kib:>10} {t:>12.1} {m:>12.1} {:>8.1}", t / m);
        }
    }
}
