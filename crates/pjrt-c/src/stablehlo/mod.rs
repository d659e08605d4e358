//! StableHLO programs: building, reading, checking, printing and writing them.

mod builder;
mod function;
mod module;
mod op;

pub use builder::*;
pub use function::*;
pub use module::*;
pub use op::*;
