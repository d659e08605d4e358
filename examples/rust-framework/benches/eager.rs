//! Compares the time of eager tensor operations with JAX without `jit`.
//!
//! ```sh
//! EAGER_PYTHON=venv/bin/python cargo bench -p rust-framework [-- PLUGIN]
//! ```
//!
//! `PLUGIN` is the name or the path of a plugin, by default `cpu`, the embedded device. The Python environment needs
//! JAX, which runs on its own CPU backend in another process. The benchmark alternates between batches of this
//! framework and of JAX, and prints medians over the batches. Each operation waits for its result.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::Instant;

use rust_framework::{Result, Runtime, Tensor};

const BATCHES: usize = 60;

/// A row of the table: its name, the number of repetitions of a batch, and the operation.
type Row = (&'static str, u32, Box<dyn Fn() -> Result<()>>);

/// Returns the rows of the table. `eager.py` contains the same rows in the same order.
fn rows(runtime: &Runtime) -> Result<Vec<Row>> {
    let ones = |shape: &[i64]| {
        let count: i64 = shape.iter().product();
        Tensor::new(runtime, &vec![1.0; usize::try_from(count)?], shape)
    };
    let (four, other) = (ones(&[4])?, ones(&[4])?);
    let (matrix, long) = (ones(&[64, 64])?, ones(&[1 << 20])?);
    let (thousand, chained) = (ones(&[1000])?, four.clone());
    let (row, table) = (ones(&[64])?, matrix.clone());
    let uploads = runtime.clone();
    let wait = |result: Tensor| result.wait();
    Ok(vec![
        (
            "x + y, 4 numbers",
            200,
            Box::new({
                let x = four.clone();
                move || wait(x.add(&other)?)
            }),
        ),
        (
            "100 additions, each of the last result, 4 numbers",
            4,
            Box::new(move || {
                let mut x = chained.clone();
                for _ in 0..100 {
                    x = x.add(&chained)?;
                }
                wait(x)
            }),
        ),
        ("tanh(x), 1000 numbers", 100, Box::new(move || wait(thousand.tanh()?))),
        (
            "x @ x, 64 x 64",
            40,
            Box::new({
                let x = matrix.clone();
                move || wait(x.matmul(&x)?)
            }),
        ),
        ("x * row, 64 x 64", 100, Box::new(move || wait(table.multiply(&row)?))),
        (
            "sum(x), 2^20 numbers",
            4,
            Box::new({
                let x = long.clone();
                move || wait(x.sum()?)
            }),
        ),
        ("x + x, 2^20 numbers", 4, Box::new(move || wait(long.add(&long)?))),
        (
            "upload of 4 numbers, x + x, read",
            100,
            Box::new(move || {
                let x = Tensor::new(&uploads, &[1.0, 2.0, 3.0, 4.0], &[4])?;
                let read = x.add(&x)?.to_vec()?;
                if read == [2.0, 4.0, 6.0, 8.0] { Ok(()) } else { Err("a wrong sum".into()) }
            }),
        ),
    ])
}

/// JAX in a Python process. It reads the index of a row and a number of repetitions, and writes the time in
/// nanoseconds.
struct Jax {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Jax {
    fn start(python: &str) -> Result<Self> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/eager.py");
        let mut command = Command::new(python);
        command.arg(script).env("JAX_PLATFORMS", "cpu").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{python}: {error}"))?;
        let requests = child.stdin.take().ok_or("no pipe to Python")?;
        let answers = BufReader::new(child.stdout.take().ok_or("no pipe from Python")?);
        Ok(Self { child, requests, answers })
    }

    /// Runs a row and returns the time of one repetition in nanoseconds.
    fn run(&mut self, row: usize, repetitions: u32) -> Result<f64> {
        writeln!(self.requests, "{row} {repetitions}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        let nanoseconds: f64 = answer.trim().parse().map_err(|_| format!("Python wrote {answer:?}"))?;
        Ok(nanoseconds / f64::from(repetitions))
    }
}

impl Drop for Jax {
    fn drop(&mut self) {
        // Kill the process, in case it has not read the end of its input yet.
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn measure(python: &str, plugin: &str) -> Result<()> {
    let runtime = Runtime::open(plugin)?;
    let mut jax = Jax::start(python)?;
    println!("| operation | JAX | {plugin} | ratio |\n|---|---|---|---|");
    for (number, (name, repetitions, work)) in rows(&runtime)?.iter().enumerate() {
        // The first run includes compilation.
        work()?;
        jax.run(number, 1)?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..BATCHES {
            let start = Instant::now();
            for _ in 0..*repetitions {
                work()?;
            }
            ours.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(*repetitions));
            theirs.push(jax.run(number, *repetitions)?);
        }
        let (ours, theirs) = (median(ours) / 1e3, median(theirs) / 1e3);
        println!("| {name} | {theirs:.1} us | {ours:.1} us | {:.2} |", ours / theirs);
    }
    Ok(())
}

fn main() -> ExitCode {
    let Ok(python) = std::env::var("EAGER_PYTHON") else {
        println!("SKIPPED eager: EAGER_PYTHON names no Python with JAX");
        return ExitCode::SUCCESS;
    };
    let plugin = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    match measure(&python, plugin.as_deref().unwrap_or("cpu")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("eager: {error}");
            ExitCode::FAILURE
        }
    }
}
