//! The layer `validate`: reports calls that break the rules of the PJRT C API.

mod arguments;
mod objects;
mod places;
mod reports;
mod rules;
mod validator;
mod waits;

pub use reports::{Report, Reports};
pub use rules::{RULES, Rule};
pub use validator::Validate;
