//! The layer `fault`: lets calls fail or take longer, by rules. See [`Fault`].

mod injections;
mod injector;
mod parse;
mod rule;

pub use injector::Fault;
pub use parse::InvalidRules;
pub use rule::Rules;
