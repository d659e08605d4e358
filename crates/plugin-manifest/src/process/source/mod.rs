//! The sources of topology values, with one module for each source.

mod input;
pub(super) mod jax;
pub(super) mod kubernetes;
pub(super) mod neuron;
pub(super) mod open_mpi;
pub(super) mod pjrt_local;
pub(super) mod slurm;
pub(super) mod torchrun;
pub(super) mod tpu_metadata;
pub(super) mod tpu_variables;

pub(super) use input::{Input, Reading};
