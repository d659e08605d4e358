//! `pjrt run`.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pjrt::{
    Buffer, Client, CompileOptions, Device, DeviceAssignment, Error, ExecuteOptions, HostArray, Input,
    LoadedExecutable, Program,
};
use serde_json::json;

#[cfg(unix)]
use crate::interrupt::{LAUNCH_ID, Watch};
use crate::open::ClientArgs;
use crate::program::{self, ProgramArgs};
use crate::{Report, array, npy};

#[cfg(not(unix))]
const LAUNCH_ID: i32 = 1;

/// Elements of an output that are printed; `--json` and `--output` give all.
const PREVIEW: usize = 16;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    program: ProgramArgs,
    /// Inputs in order: FILE.npy, FILE.npy:TYPE (for types NumPy lacks), or a literal such as
    /// `f32[2,2]=1,2,3,4` or `f32[4]=0`.
    inputs: Vec<String>,
    #[command(flatten)]
    client: ClientArgs,
    /// Index of the device among the client's addressable ones.
    #[arg(long, short, default_value_t = 0)]
    device: usize,
    /// Save the outputs in this folder as out0.npy, out1.npy, …
    #[arg(long, short, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Execute this many times on the same inputs, and print the median time.
    #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Print the outputs, whole, and the times as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a run gave.
struct Outcome {
    outputs: Vec<HostArray>,
    compile: Duration,
    execute: Duration,
}

pub(crate) fn run(args: &Args) -> Result<Report, String> {
    let program = args.program.read()?;
    let program = Program::new(program.format, program.code.to_vec());
    let inputs = args.inputs.iter().map(|text| array::from_argument(text)).collect::<Result<Vec<_>, _>>()?;
    let client = args.client.client()?;
    let device = device(&client, args.device)?;
    #[cfg(unix)]
    let watch = Watch::new(&device).map_err(|error| format!("handling of Ctrl-C: {error}"))?;
    let outcome = on(&client, &device, args, program, inputs);
    drop(device);
    #[cfg(unix)]
    let interrupted = watch.release();
    // The device is free before anything is said.
    drop(client);
    #[cfg(unix)]
    if let Some(code) = interrupted {
        eprintln!("pjrt: interrupted");
        return Ok(Report { text: String::new(), code });
    }
    let outcome = outcome?;
    if let Some(folder) = &args.output {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for (index, output) in outcome.outputs.iter().enumerate() {
            npy::write(&folder.join(format!("out{index}.npy")), output)?;
        }
    }
    Ok(if args.json { as_json(&outcome) } else { as_text(args, &outcome) }.into())
}

/// The addressable device of that index.
fn device(client: &Client, index: usize) -> Result<Device, String> {
    let mut devices = client.addressable_devices().map_err(|error| error.to_string())?;
    if index < devices.len() {
        return Ok(devices.swap_remove(index));
    }
    Err(format!("--device {index}: the client has {} addressable devices, numbered from 0", devices.len()))
}

fn on(
    client: &Client,
    device: &Device,
    args: &Args,
    program: Program,
    inputs: Vec<HostArray>,
) -> Result<Outcome, String> {
    let text = |error: Error| error.to_string();
    let options = compile_options(device).map_err(text)?;
    let start = Instant::now();
    let executable = program::compile(&client.plugin(), &program, |program| client.compile(program, &options))
        .map_err(|error| format!("{}: {error}", args.program.path.display()))?;
    let compile = start.elapsed();
    let upload = |array: &HostArray| client.buffer_from_bytes(array.bytes(), array.shape(), device);
    let buffers = inputs.iter().map(upload).collect::<Result<Vec<_>, _>>().map_err(text)?;
    let (execute, outputs) = execute(&executable, &buffers, args.repeat).map_err(text)?;
    Ok(Outcome { outputs, compile, execute })
}

/// One copy of the program, on that device.
fn compile_options(device: &Device) -> Result<CompileOptions, Error> {
    let id = i64::from(device.id()?);
    Ok(CompileOptions { device_assignment: DeviceAssignment::new(1, 1, vec![id]), ..CompileOptions::default() })
}

/// Median time of the executions, each awaited, and the outputs of the last.
fn execute(executable: &LoadedExecutable, inputs: &[Buffer], repeat: u32) -> Result<(Duration, Vec<HostArray>), Error> {
    // By its id a run can be stopped.
    let options = ExecuteOptions::new().with_launch_id(LAUNCH_ID);
    let mut times = Vec::new();
    let mut outputs = Vec::new();
    for _ in 0..repeat {
        let given: Vec<_> = inputs.iter().map(Input::from).collect();
        let start = Instant::now();
        outputs = executable.execute_with(given, &options)?.outputs;
        for output in &outputs {
            output.wait()?;
        }
        times.push(start.elapsed());
    }
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    Ok((median, outputs.iter().map(Buffer::to_host_array).collect::<Result<_, _>>()?))
}

fn as_text(args: &Args, outcome: &Outcome) -> String {
    let mut out = String::new();
    for (index, output) in outcome.outputs.iter().enumerate() {
        line!(out, "out{index} {} {}", output.shape(), array::preview(output, PREVIEW));
    }
    let times = if args.repeat > 1 { format!("median of {} executions", args.repeat) } else { "execution".to_owned() };
    line!(
        out,
        "compile {:.3} ms, {times} {:.1} us",
        milliseconds(outcome.compile),
        milliseconds(outcome.execute) * 1e3
    );
    out
}

fn as_json(outcome: &Outcome) -> String {
    let mut out = String::new();
    let outputs: Vec<_> = outcome
        .outputs
        .iter()
        .map(|output| {
            json!({
                "element_type": output.shape().element_type.name(),
                "dimensions": output.shape().dimensions,
                "values": array::values(output),
            })
        })
        .collect();
    line!(
        out,
        "{:#}",
        json!({
            "outputs": outputs,
            "compile_ms": milliseconds(outcome.compile),
            "execute_us": milliseconds(outcome.execute) * 1e3,
        })
    );
    out
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
