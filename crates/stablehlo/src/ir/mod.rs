//! The typed program, which both readers produce and devices read.
//!
//! A [`Module`] holds functions; a [`Func`] holds one [`Region`] of [`Op`]s. Values are numbered per function
//! ([`ValueId`]), nested regions included, so an op inside a `while` body names an outer value by the same id.
//! Every op of the StableHLO specification is an [`OpKind`] with its attributes as typed fields; an op the reader
//! does not know is [`OpKind::Other`], never an error of the reader.

mod attribute;
mod literal;
mod locations;
mod ops;
mod program;
mod types;
mod values;

pub use attribute::{Attribute, Attributes};
pub use literal::Literal;
#[cfg(feature = "hlo")]
pub(crate) use literal::normalise;
pub(crate) use locations::EncodedLocations;
pub use locations::{Location, LocationId, Locations};
pub(crate) use ops::Enumeration;
pub use ops::{
    Binary, ComparisonDirection, ComparisonType, ConvDimensions, DotDimensions, FftType, GatherDimensions, OpKind,
    Precision, RngAlgorithm, ScatterDimensions, TransposeA, Unary, Window,
};
pub use program::{Func, Module, Op, Region, Version};
pub use types::{DYNAMIC, ElementType, TensorType, Type};
pub(crate) use types::{function_text, write_list};
pub use values::{Dims, ValueId, ValueIds, ValueTypes};
