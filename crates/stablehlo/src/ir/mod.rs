//! The typed program, which both readers produce and devices read.
//!
//! A [`Module`] holds functions; a [`Func`] holds one [`Region`] of [`Op`]s. Values are numbered per function
//! ([`ValueId`]), including those of nested regions. An op inside a `while` body therefore refers to an outer value by
//! the same id. Every op of the StableHLO specification has an [`OpKind`] with its attributes as typed fields. An op
//! that the reader does not know is an [`OpKind::Other`], not an error.
//!
//! The structs are open, without `#[non_exhaustive]`: passes and partitioners write them as struct literals, so that the
//! compiler reports each place that does not set a new field. A new field therefore needs a new minor version of this
//! crate. The enums may grow with the specification.

mod attribute;
mod collectives;
mod literal;
mod locations;
mod ops;
mod program;
mod types;
mod values;

pub use attribute::{Attribute, Attributes, is_sharding};
pub use collectives::{ChannelHandle, ReplicaGroups};
pub use literal::Literal;
#[cfg(feature = "hlo")]
pub(crate) use literal::normalise;
pub(crate) use locations::EncodedLocations;
pub use locations::{Location, LocationId, Locations};
pub(crate) use ops::Enumeration;
pub use ops::{
    Binary, ComparisonDirection, ComparisonType, ConvDimensions, DotDimensions, FftType, GatherDimensions, OpKind,
    Precision, RngAlgorithm, RngDistribution, ScatterDimensions, TransposeA, Unary, Window,
};
pub use program::{Func, Module, Op, Region, Version};
pub use types::{DYNAMIC, ElementType, TensorType, Type};
pub(crate) use types::{function_text, write_list};
pub use values::{Dims, ValueId, ValueIds, ValueTypes};
