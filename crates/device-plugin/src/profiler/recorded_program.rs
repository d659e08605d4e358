//! A program that runs while a profile is taken.

use crate::{ExecutableInfo, Program};

/// A program that ran on a plugin while a profile was running.
#[derive(Clone, Debug)]
pub(crate) struct RecordedProgram {
    /// Name of the plugin.
    pub(super) plugin: &'static str,
    /// Name of the program.
    pub(super) name: String,
    /// The program after optimization, if the backend returns it.
    pub(super) optimized: Option<Program>,
    /// The program as the framework sent it.
    pub(super) received: Program,
}

impl RecordedProgram {
    pub(super) fn new(plugin: &'static str, info: &ExecutableInfo, received: &Program) -> Self {
        let (name, optimized) = (info.name.clone(), info.optimized_program.clone());
        Self { plugin, name, optimized, received: received.clone() }
    }
}
