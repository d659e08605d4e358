//! Whether a plugin's devices can run a program, determined before anything is loaded or compiled.
//!
//! PJRT has no function for this query. A framework can only compile a program to find out whether a device supports
//! it, or which parts of it. This module offers plugins two ways to answer. A plugin's manifest may contain a
//! [`SupportTable`]. Any tool can check a program against it, without a device or the library. The plugin may also
//! implement `DevicePlugin::supports`, which can check more than a table can.
//!
//! An answer contains its [`Reason`]s: the operation, the attribute or type at fault, and the location in the program.
//! `Yes` is valid only for its [`Depth`]: a device may support an operation but not one of its types.

mod answer;
#[cfg(feature = "stablehlo")]
mod check;
mod table;
#[cfg(feature = "stablehlo")]
#[cfg(test)]
mod tests;

pub use answer::{Depth, Reason, Support};
#[cfg(feature = "stablehlo")]
pub use check::Checker;
pub use table::{AttributeRule, OperationRule, SupportTable, Verdict};
