//! The macro that rules use to report violations.

/// Returns an error of this kind, unless the condition is true.
macro_rules! ensure {
    ($kind:ident, $condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::error::Error::new($crate::error::ErrorKind::$kind, format_args!($($message)+)));
        }
    };
}
pub(super) use ensure;
