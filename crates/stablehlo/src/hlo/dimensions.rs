//! Reads the fields of an instruction that contain dimension indices.

use super::proto::Instruction;
use crate::error::{Error, ErrorKind, Result};

pub(super) fn dim(value: i64) -> Result<usize> {
    usize::try_from(value)
        .map_err(|_| Error::new(ErrorKind::Encoding, format_args!("{value} is not a valid dimension")))
}

pub(super) fn dims<L: FromIterator<usize>>(values: &[i64]) -> Result<L> {
    values.iter().map(|&value| dim(value)).collect()
}

/// Returns the only dimension in the field `dimensions`.
pub(super) fn dimension(i: &Instruction) -> Result<usize> {
    match i.dimensions[..] {
        [value] => dim(value),
        _ => Err(Error::new(ErrorKind::Encoding, format_args!("must have one dimension, not {}", i.dimensions.len()))),
    }
}
