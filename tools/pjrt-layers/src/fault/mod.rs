//! The layer `fault`: injects errors, delays, and lost or late events into calls according to rules. See [`Fault`].

mod injections;
mod injector;
mod parse;
mod rule;

pub use injector::Fault;
pub use parse::InvalidRules;
pub use rule::Rules;
