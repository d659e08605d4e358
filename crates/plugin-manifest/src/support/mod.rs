//! Support queries: whether a plugin's devices can run a program, determined before anything is loaded or compiled.
//!
//! PJRT has no function for this query. A framework must compile a program to find out whether a device supports it.
//! This module offers plugins two ways to answer the query. A plugin's manifest may contain a
//! [`SupportTable`](crate::SupportTable). Any tool can check a program against this table, without a device or the
//! library. The plugin may also implement `DevicePlugin::supports`, which can check more than a table can.
//!
//! `No` and `Maybe` contain [`Reason`]s: the operation, the unsupported attribute or type, and the location in the
//! program. `Yes` is valid only for the [`Depth`](crate::Depth) of the check. For example, a device may support an
//! operation, but not one of its types.

pub(crate) mod answer;
#[cfg(feature = "stablehlo")]
mod check;
pub(crate) mod table;
#[cfg(feature = "stablehlo")]
#[cfg(test)]
mod tests;

pub use answer::Reason;
#[cfg(feature = "stablehlo")]
pub use check::Checker;
pub use table::{AttributeRule, OperationRule, Verdict};
