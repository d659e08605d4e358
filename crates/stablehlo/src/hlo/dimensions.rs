//! The fields of an instruction that name dimensions.

use super::proto::Instruction;
use crate::error::{Error, ErrorKind, Result};

pub(super) fn dim(value: i64) -> Result<usize> {
    usize::try_from(value)
        .map_err(|_| Error::new(ErrorKind::Encoding, format_args!("{value} is not a valid dimension")))
}

pub(super) fn dims<L: FromIterator<usize>>(values: &[i64]) -> Result<L> {
    values.iter().map(|&value| dim(value)).collect()
}

/// The instruction's only dimension.
pub(super) fn dimension(i: &Instruction) -> Result<usize> {
    match i.dimensions[..] {
        [value] => dim(value),
        _ => Err(Error::new(ErrorKind::Encoding, format_args!("must have one dimension, not {}", i.dimensions.len()))),
    }
}
