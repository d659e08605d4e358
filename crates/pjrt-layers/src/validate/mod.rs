//! The layer `validate`: reports calls that break the rules of the interface.

mod objects;
mod reports;
mod rules;
mod validator;

pub use reports::{Report, Reports};
pub use rules::{RULES, Rule};
pub use validator::Validate;
