//! `PJRT_Error_Code`: the status codes of errors.

use std::fmt;

/// A canonical status code of an error. Codes that this crate does not name are preserved.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(u32);

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $value:literal,)*) => {
        #[allow(missing_docs, reason = "the names of the canonical status codes")]
        impl ErrorCode {
            $($(#[$doc])* pub const $name: Self = Self($value);)*

            /// Returns the code's canonical name, such as `INVALID_ARGUMENT`, or `None` for an unknown code.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// Success. An error never has this code.
    OK = 0,
    CANCELLED = 1,
    UNKNOWN = 2,
    INVALID_ARGUMENT = 3,
    DEADLINE_EXCEEDED = 4,
    NOT_FOUND = 5,
    ALREADY_EXISTS = 6,
    PERMISSION_DENIED = 7,
    RESOURCE_EXHAUSTED = 8,
    FAILED_PRECONDITION = 9,
    ABORTED = 10,
    OUT_OF_RANGE = 11,
    UNIMPLEMENTED = 12,
    INTERNAL = 13,
    UNAVAILABLE = 14,
    DATA_LOSS = 15,
    UNAUTHENTICATED = 16,
}

impl ErrorCode {
    /// Returns the code with this number.
    #[must_use]
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    /// Returns the code's number.
    #[must_use]
    pub const fn as_raw(self) -> u32 {
        self.0
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "error code {}", self.0),
        }
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::ErrorCode;

    #[test]
    fn unknown_codes_survive() {
        let code = ErrorCode::from_raw(99);
        assert_eq!(code.as_raw(), 99);
        assert_eq!(code.to_string(), "error code 99");
        assert_eq!(ErrorCode::from_raw(12), ErrorCode::UNIMPLEMENTED);
        assert_eq!(ErrorCode::UNIMPLEMENTED.to_string(), "UNIMPLEMENTED");
    }
}
