//! The error type of this crate.

/// A program that cannot be compiled, or a run that ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No code can be generated for the current processor.
    #[error("this machine's processor is not supported by the code generator: {0}")]
    Platform(String),
    /// The program breaks a rule of the intermediate representation.
    #[error("the program is invalid: {0}")]
    Invalid(String),
    /// The program exceeds one of the [limits](crate::limits).
    #[error("the program has more than {limit} {what}, which is the limit")]
    TooLarge {
        /// The countable thing, in the plural.
        what: &'static str,
        /// The maximum number.
        limit: usize,
    },
    /// The code generator failed.
    #[error("the code generator failed: {0}")]
    Generator(String),
    /// A run received arrays that differ from those that the program declares.
    #[error("the program declares {want}, but {got} were passed")]
    Arrays {
        /// The declared arrays.
        want: String,
        /// The passed arrays.
        got: String,
    },
    /// The run ended early, because the caller or the host requested it.
    #[error("the run was stopped")]
    Stopped,
}
