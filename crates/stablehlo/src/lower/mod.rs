//! Adapts a program to a device: replaces element types that the device lacks, selects the algorithm for random bits,
//! applies automatic mixed precision, replaces gathers and scatters with matrix multiplications, and removes donation.
//!
//! `rules` describes the device. `rewrite` visits every op of the program. `dense` replaces gathers and scatters, and
//! `elements` replaces element types.

mod dense;
mod elements;
mod rewrite;
mod rules;

pub use rewrite::lower;
pub use rules::DeviceRules;
