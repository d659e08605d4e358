//! The stack of layers, and the functions that forward calls through it.

mod forward;
mod refusal;
mod stack;
mod start;

pub use forward::{Answer, Instance};
pub use stack::Stack;

pub(crate) use refusal::refusal;

pub(super) use forward::descend;
