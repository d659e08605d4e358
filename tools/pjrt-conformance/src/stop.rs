//! The reasons why a case ended without passing.

use pjrt::{Error, ErrorCode, ErrorKind};

/// The reason why a case ended without passing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The plugin violates the contract.
    Fail(String),
    /// The plugin does not offer the function, extension or type that the case needs.
    Unsupported(String),
    /// The case cannot run, for example because the client has too few devices.
    Skip(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        if error.kind() == ErrorKind::Unsupported || error.code() == ErrorCode::UNIMPLEMENTED {
            Self::Unsupported(error.to_string())
        } else {
            Self::Fail(error.to_string())
        }
    }
}

impl From<String> for Stop {
    fn from(reason: String) -> Self {
        Self::Fail(reason)
    }
}

/// Returns `Stop::Fail` with a formatted reason from the current function.
macro_rules! fail {
    ($($text:tt)*) => {
        return Err($crate::Stop::Fail(format!($($text)*)))
    };
}

/// Fails the case if a condition is false.
macro_rules! ensure {
    ($condition:expr, $($text:tt)*) => {
        if !$condition {
            fail!($($text)*);
        }
    };
}

/// Fails the case if two values differ.
macro_rules! ensure_eq {
    ($found:expr, $expected:expr, $($text:tt)*) => {{
        let (found, expected) = (&$found, &$expected);
        if found != expected {
            fail!("{}: found {found:?}, expected {expected:?}", format!($($text)*));
        }
    }};
}
