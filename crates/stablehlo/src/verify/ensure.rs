//! The macro with which rules report faults.

/// Fails with an error of this kind unless the condition holds.
macro_rules! ensure {
    ($kind:ident, $condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::error::Error::new($crate::error::ErrorKind::$kind, format_args!($($message)+)));
        }
    };
}
pub(super) use ensure;
