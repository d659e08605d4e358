//! The macro with which rules report faults.

/// Fails with a message unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::error::Error::new(format_args!($($message)+)));
        }
    };
}
pub(super) use ensure;
