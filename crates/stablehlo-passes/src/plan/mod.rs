//! Plans: programs as lists of steps over buffers in memory, and their execution by a vendor.
//!
//! [`Plan::new`] decides for each value of a function whether it is stored in memory or computed inside of the kernels
//! that use it. It calls the vendor for each kernel, assigns a place in memory to each stored value, and returns the
//! steps. [`run`] executes the steps on a vendor's [`Device`].
//!
//! The vendor classifies ops with [`Fusion`]. A value that a kernel computes inside is described by the ops between the
//! kernel's [reads](Kernel::reads) and its root. [`index_map`](crate::index_map) helps to compute shape ops inside.

mod arena;
mod blocks;
mod fusion;
mod make;
mod run;
mod step;
mod storage;
#[cfg(test)]
mod tests;

pub use fusion::{Fusion, Kernel};
pub use make::Plan;
pub use run::{Device, run};
pub use step::{Memory, Place, Step};
