//! The dimension numbers of `chlo.ragged_dot`, which the IR keeps as text.

use super::attribute::{Attribute, Attributes, list_field};
use super::ops::DotDimensions;
use super::values::Dims;
use crate::error::{Error, ErrorKind, Result};

/// Dimension numbers of `chlo.ragged_dot`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaggedDotDimensions {
    /// The dimension numbers of the product of a group.
    pub dot: DotDimensions,
    /// The dimension of the left operand that is divided into groups.
    pub lhs_ragged: usize,
    /// The dimension of the right operand that is indexed by groups. Empty if the ragged dimension is a batching or a
    /// contracting one.
    pub rhs_group: Dims,
}

impl RaggedDotDimensions {
    /// Reads the attribute `ragged_dot_dimension_numbers`.
    ///
    /// # Errors
    ///
    /// Returns an error if the attribute is missing, if it contains a negative dimension, or if it does not have one
    /// ragged dimension.
    pub fn of(attributes: &Attributes) -> Result<Self> {
        const NAME: &str = "ragged_dot_dimension_numbers";
        let wrong = |message: std::fmt::Arguments<'_>| Error::new(ErrorKind::Attribute, message);
        let Some((_, Attribute::Other(text))) = attributes.iter().find(|(name, _)| name == NAME) else {
            return Err(wrong(format_args!("attribute `{NAME}` is missing")));
        };
        let dims = |name: &str| {
            let list = list_field(text, name).unwrap_or_default();
            let dims = list.into_iter().map(usize::try_from).collect::<std::result::Result<Dims, _>>();
            dims.map_err(|_| wrong(format_args!("`{name}` holds a negative dimension")))
        };
        let dot = DotDimensions {
            lhs_batching: dims("lhs_batching_dimensions")?,
            rhs_batching: dims("rhs_batching_dimensions")?,
            lhs_contracting: dims("lhs_contracting_dimensions")?,
            rhs_contracting: dims("rhs_contracting_dimensions")?,
        };
        let (ragged, rhs_group) = (dims("lhs_ragged_dimensions")?, dims("rhs_group_dimensions")?);
        let [lhs_ragged] = ragged[..] else {
            return Err(wrong(format_args!("one dimension of lhs must be ragged, not {}", ragged.len())));
        };
        Ok(Self { dot, lhs_ragged, rhs_group })
    }

    /// Returns the dimensions of the left operand to which the dimensions of the group sizes, except for the last one,
    /// correspond. These are batching dimensions, and dimensions of the kind of the ragged one that precede it. Group
    /// sizes with one dimension apply to all of them.
    #[must_use]
    pub fn group_size_dimensions(&self) -> Dims {
        let DotDimensions { lhs_batching: batching, lhs_contracting: contracting, .. } = &self.dot;
        let before = |list: &Dims| list.iter().copied().take_while(|&d| d != self.lhs_ragged).collect::<Dims>();
        if batching.contains(&self.lhs_ragged) {
            return before(batching);
        }
        if contracting.contains(&self.lhs_ragged) {
            return batching.iter().copied().chain(before(contracting)).collect();
        }
        let free = (0..self.lhs_ragged).filter(|d| !batching.contains(d) && !contracting.contains(d));
        batching.iter().copied().chain(free).collect()
    }
}
