//! The rules that [`VerifyLevel::FULL`] adds.

use super::level::{FullRules, VerifyLevel};
use super::site::Site;
use super::{
    attributes, chlo, collectives, custom_call, dynamic, normalization, quantized, string_attributes, transfers,
};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;

impl VerifyLevel {
    /// All rules. In addition to [`Self::STRUCTURE`], checks quantized types, CHLO, custom calls, collectives,
    /// transfers, normalizations, string attributes, and constants that ops use as shapes.
    pub const FULL: Self =
        Self::with_rules(&FullRules { module: attributes::module, func: full_func, ty: full_type, op: full_op });
}

fn full_func(func: &Func) -> Result<()> {
    func.results.iter().filter(|ty| matches!(ty, Type::Other(_))).try_for_each(full_type)?;
    attributes::func(func)
}

/// Checks the text and the quantization of a type that the IR keeps as text. Accepts every other type.
fn full_type(ty: &Type) -> Result<()> {
    if let Type::Other(text) = ty
        && crate::text::whole_type(text).is_none()
    {
        return Err(Error::new(ErrorKind::Type, format_args!("`{text}` is not a type")));
    }
    quantized::verify_type(ty)
}

fn full_op(site: &Site<'_>) -> Result<()> {
    attributes::op(site.op)?;
    quantized::verify(site)?;
    string_attributes::verify(site)?;
    custom_call::verify(site)?;
    chlo::verify(site)?;
    collectives::verify(site)?;
    transfers::verify(site)?;
    normalization::verify(site)?;
    dynamic::verify(site)
}
