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
    /// The program has more values than the code generator translates in a reasonable time.
    #[error("the program has {values} values, and the limit is {limit}")]
    TooLarge {
        /// The number of values.
        values: usize,
        /// The maximum number of values.
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
