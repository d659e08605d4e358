//! The functions of one number, by their names.

use stablehlo::ir::{Unary as U, ValueId};
use stablehlo::{Patch, Result};

use super::{functions, special};
use crate::build::Build;

/// A function that adds the ops of a function of one number.
type Function = fn(&mut Patch<'_>, ValueId) -> Result<ValueId>;

pub(super) fn named(name: &str) -> Option<Function> {
    Some(match name {
        "acos" => functions::acos,
        "acosh" => functions::acosh,
        "asin" => functions::asin,
        "asinh" => functions::asinh,
        "atan" => functions::atan,
        "atanh" => functions::atanh,
        "cosh" => functions::cosh,
        "digamma" => special::digamma,
        "erf" => functions::erf,
        "erf_inv" => special::erf_inv,
        "erfc" => special::erfc,
        "lgamma" => special::lgamma,
        "sinh" => functions::sinh,
        "tan" => |patch, x| patch.unary(U::Tan, x),
        _ => return None,
    })
}
