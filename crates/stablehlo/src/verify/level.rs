//! Verification levels.

use std::fmt;

use super::site::Site;
use crate::error::Result;
use crate::ir::*;

/// Level of checks that [`verify`](crate::verify()) runs.
///
/// Every caller of a reader passes the level. The level is a value and not a cargo feature, because cargo unifies the
/// features of all crates in a build. With a feature, another crate could change which programs are rejected.
///
/// ```
/// use stablehlo::VerifyLevel;
///
/// // Device 0 sends to two devices. This rule of the specification is checked at level `FULL` only.
/// let text = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
///   %0 = \"stablehlo.collective_permute\"(%x) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
///     source_target_pairs = dense<[[0, 1], [0, 2]]> : tensor<2x2xi64>} : (tensor<2xf32>) -> tensor<2xf32>
///   return %0 : tensor<2xf32>
/// }";
/// assert!(stablehlo::parse(text, VerifyLevel::STRUCTURE).is_ok());
/// assert!(stablehlo::parse(text, VerifyLevel::FULL).is_err());
/// ```
#[derive(Clone, Copy)]
pub struct VerifyLevel {
    full: Option<&'static FullRules>,
}

/// The rules that [`VerifyLevel::FULL`] adds. Only this constant refers to them, so the linker removes them from a
/// library that does not use the constant.
pub(super) struct FullRules {
    pub(super) module: fn(&Module) -> Result<()>,
    pub(super) func: fn(&Func) -> Result<()>,
    pub(super) ty: fn(&Type) -> Result<()>,
    pub(super) op: fn(&Site<'_>) -> Result<()>,
}

impl VerifyLevel {
    /// The properties that a device relies on. Values are defined before use and in scope. Regions end in a return.
    /// Callees exist and do not recurse. Constants have the size of their types. Ops that have an [`OpKind`] satisfy
    /// the specification's rules on counts, shapes and element types.
    ///
    /// Frameworks check the other rules before they write an artifact. Small libraries that read artifacts therefore
    /// use this level, which keeps the code of the other rules out of the library.
    pub const STRUCTURE: Self = Self { full: None };

    pub(super) const fn with_rules(rules: &'static FullRules) -> Self {
        Self { full: Some(rules) }
    }

    pub(super) fn full(self) -> Option<&'static FullRules> {
        self.full
    }
}

/// Prints `VerifyLevel::STRUCTURE` or `VerifyLevel::FULL`.
impl fmt::Debug for VerifyLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.full.is_some() { "VerifyLevel::FULL" } else { "VerifyLevel::STRUCTURE" })
    }
}

impl PartialEq for VerifyLevel {
    fn eq(&self, other: &Self) -> bool {
        self.full.is_some() == other.full.is_some()
    }
}

impl Eq for VerifyLevel {}
