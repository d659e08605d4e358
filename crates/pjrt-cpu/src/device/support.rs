//! Whether the device runs a program, told without one.
//!
//! Compiling takes less than a millisecond, so that every effort compiles: no table could be as sure.

use device_plugin::support::{Reason, Support};
use device_plugin::{CompileOptions, Program};
use stablehlo::ir::Module;

use super::compile::compile_module;
use crate::engine::{self, CompileError, CompileSettings, Pool};

pub(crate) fn supports(program: &Program) -> Support {
    let module = match device_plugin::stablehlo::read(program) {
        Some(Ok(module)) => module,
        Some(Err(error)) => return Support::No(vec![Reason::unreadable(&error)]),
        None => {
            let message = format!("the device reads StableHLO and HLO, and the program is {:?}", program.format);
            return Support::No(vec![Reason::new(message)]);
        }
    };
    let options = CompileOptions {
        num_replicas: stated(&module, "mhlo.num_replicas"),
        num_partitions: stated(&module, "mhlo.num_partitions"),
        use_spmd_partitioning: true,
        use_shardy_partitioner: true,
        ..CompileOptions::default()
    };
    match compile_module(&module, &options) {
        Ok(_) => Support::Yes,
        Err(error) => match refused(&module, &options) {
            Some(error) => Support::No(error.all().map(reason).collect()),
            None => Support::No(vec![Reason::new(error.message())]),
        },
    }
}

/// What the engine has against a program, op by op.
fn refused(module: &Module, options: &CompileOptions) -> Option<CompileError> {
    let count = |n: i64| usize::try_from(n).unwrap_or(1).max(1);
    let mut settings = CompileSettings::new(count(options.num_replicas), count(options.num_partitions));
    settings.use_spmd = options.use_spmd_partitioning;
    settings.use_shardy = options.use_shardy_partitioner;
    engine::compile_with(module, &settings, Pool::global()).err()
}

fn reason(error: &CompileError) -> Reason {
    let mut reason = Reason::new(error.message());
    if let Some(operation) = error.operation() {
        reason = reason.operation(operation);
    }
    if let Some(location) = error.location() {
        reason = reason.location(location);
    }
    reason
}

/// A number the module states of itself; 1 where it does not.
fn stated(module: &Module, name: &str) -> i64 {
    let found = module.attributes.iter().find(|(attribute, _)| attribute == name);
    found.and_then(|(_, value)| value.as_integer()).unwrap_or(1)
}
