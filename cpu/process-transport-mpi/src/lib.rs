//! Messages between the processes of one computation, sent through MPI.
//!
//! Without the feature `mpi`, this crate is empty, so that other builds do not need MPI. With the feature, the build
//! needs an installed MPI with its compiler `mpicc`, and libclang. On Debian, these are the packages
//! `openmpi-bin`, `libopenmpi-dev` and `libclang-dev`.
//!
//! `MpiProcess` initializes MPI, or uses the MPI environment that the program has initialized. It then connects to the
//! other processes. The result is an `MpiTransport`, which implements `process_transport::Transport`. Start the
//! processes with `mpirun`.
#![forbid(unsafe_code)]

#[cfg(feature = "mpi")]
mod block;
#[cfg(feature = "mpi")]
mod progress;
#[cfg(feature = "mpi")]
mod transport;

#[cfg(feature = "mpi")]
pub use transport::{MpiProcess, MpiTransport};
