//! The functions of one and of two numbers, by their names.

use stablehlo::ir::{Unary as U, ValueId};
use stablehlo::{Patch, Result};

use super::{bessel, functions, special, zeta};
use crate::build::Build;

/// A function that adds the ops of a function of numbers.
pub(super) enum Function {
    One(fn(&mut Patch<'_>, ValueId) -> Result<ValueId>),
    Two(fn(&mut Patch<'_>, ValueId, ValueId) -> Result<ValueId>),
}

pub(super) fn named(name: &str) -> Option<Function> {
    Some(Function::One(match name {
        "acos" => functions::acos,
        "acosh" => functions::acosh,
        "asin" => functions::asin,
        "asinh" => functions::asinh,
        "atan" => functions::atan,
        "atanh" => functions::atanh,
        "bessel_i1e" => bessel::bessel_i1e,
        "cosh" => functions::cosh,
        "digamma" => special::digamma,
        "erf" => functions::erf,
        "erf_inv" => special::erf_inv,
        "erfc" => special::erfc,
        "lgamma" => special::lgamma,
        "polygamma" => return Some(Function::Two(zeta::polygamma)),
        "sinh" => functions::sinh,
        "tan" => |patch, x| patch.unary(U::Tan, x),
        "zeta" => return Some(Function::Two(zeta::zeta)),
        _ => return None,
    }))
}
