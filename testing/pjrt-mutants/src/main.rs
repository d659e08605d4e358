//! Measures the conformance suite with deliberately broken plugins.
//!
//! A *mutant* is the embedded device (`pjrt-cpu`) with one fault, such as an event that is ready too early. The suite
//! should find each fault, and should not report a failure of the device without a fault. The *mutation score* is the
//! percentage of mutants that the suite finds. `cargo xtask mutants` runs this program.
//!
//! For each run of the suite, the program starts itself again as the guard process and as the worker process (see
//! `pjrt_conformance::process`). The worker replaces functions in a copy of the device's table.

mod device;
mod mutant;
mod mutants;
mod score;

use std::process::ExitCode;

use pjrt::{ClientOptions, Plugin};
use pjrt_conformance::Opened;
use pjrt_conformance::process::{guard, worker};
use serde_json::Value;

use crate::device::Device;

/// The argument that starts the program as the guard process, which watches a worker.
const GUARD: &str = "__guard";
/// The argument that starts the program as the worker process.
const WORKER: &str = "__worker";
/// Number of devices of each client.
const DEVICES: i64 = 4;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        [GUARD] => guard::run(&[WORKER]).map(|()| true),
        [WORKER, parent] => match parent.parse() {
            Ok(parent) => worker::run(parent, &open).map(|()| true),
            Err(_) => Err("the worker needs the process id of its parent".to_owned()),
        },
        arguments => score::run(arguments),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("mutants: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Opens the mutant with the name `target`, or the device without a fault if `target` is not a string.
fn open(target: &Value) -> Result<Opened, String> {
    let mut device = Device::new();
    if let Some(name) = target.as_str() {
        let mutants = mutants::all();
        let mutant = mutants.iter().find(|mutant| mutant.name == name);
        (mutant.ok_or_else(|| format!("there is no mutant {name}"))?.install)(&mut device);
    }
    let plugin = Plugin::from_static(device.start()).map_err(|error| error.to_string())?;
    let options = ClientOptions::new().with("device_count", DEVICES);
    Ok(Opened { plugin, options, keep: Box::new(()) })
}
