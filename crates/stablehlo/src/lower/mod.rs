//! Adapts a program to a device: the element types that it lacks, its random bits, automatic mixed precision, dense
//! products instead of gathers and scatters, and donation.
//!
//! `rules` describes the device, `rewrite` walks over the program, `function` is a function that it rewrites, `dense` replaces gathers and scatters, and `elements`
//! replaces element types.

mod dense;
mod elements;
mod function;
mod rewrite;
mod rules;

pub use rewrite::lower;
pub use rules::DeviceRules;
