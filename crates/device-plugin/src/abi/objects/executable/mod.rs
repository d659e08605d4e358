//! Executables and their execution.

pub(crate) mod deferred_launch;
pub(crate) mod deferred_launches;
pub(crate) mod executable_functions;
pub(crate) mod execute;
pub(crate) mod execute_options;
pub(crate) mod handles;
pub(crate) mod launch;
pub(crate) mod launch_arguments;
pub(crate) mod launch_order;
pub(crate) mod loaded_executable_functions;
pub(crate) mod output_list;
pub(crate) mod pending_arguments;
pub(crate) mod program;
