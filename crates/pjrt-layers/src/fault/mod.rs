//! The layer `fault`: makes calls fail or take longer according to rules. See [`Fault`].

mod injections;
mod injector;
mod parse;
mod rule;

pub use injector::Fault;
pub use parse::InvalidRules;
pub use rule::Rules;
