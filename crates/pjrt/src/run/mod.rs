//! Runs of programs.

pub(crate) mod copy_to_device_stream;
pub(crate) mod execute;
pub(crate) mod execute_context;
pub(crate) mod execute_options;
pub(crate) mod in_flight_limiter;
pub(crate) mod out_of_memory;
pub(crate) mod outputs;
pub(crate) mod parameter;
#[cfg(feature = "stablehlo")]
pub(crate) mod parameter_shapes;
pub(crate) mod run_callbacks;
