//! The typed IR of a program, which the readers and the builder produce and devices read.
//!
//! A [`Module`] holds functions, and a [`Func`] holds one [`Region`] of [`Op`]s. The values of a function, including
//! the values of nested regions, share one numbering ([`ValueId`]). An op inside a `while` body therefore refers to an
//! outer value by the same id. Every op of the StableHLO specification has an [`OpKind`] with its attributes as typed
//! fields. An op that is unknown to the reader becomes an [`OpKind::Other`] and is not an error.
//!
//! The structs are not `#[non_exhaustive]`. Passes and partitioners create them with struct literals, so the compiler
//! reports each literal that does not set a new field. A new field therefore requires a new minor version of this
//! crate. The enums may get new variants with new versions of the specification.

mod attribute;
mod collectives;
mod literal;
mod locations;
mod ops;
mod program;
mod ragged_dot;
mod types;
mod values;

pub(crate) use attribute::list_field;
pub use attribute::{Attribute, Attributes, is_sharding};
pub use collectives::{ChannelHandle, ReplicaGroups};
pub use literal::Literal;
#[cfg(feature = "hlo")]
pub(crate) use literal::normalise;
pub(crate) use locations::{EncodedLocations, LocationView};
pub use locations::{Location, LocationId, Locations};
pub(crate) use ops::Enumeration;
pub use ops::{
    Binary, ComparisonDirection, ComparisonType, ConvDimensions, DotDimensions, FftType, GatherDimensions, OpKind,
    Precision, RngAlgorithm, RngDistribution, ScatterDimensions, TransposeA, Unary, Window,
};
pub use program::{Func, Module, Op, Region, Version};
pub use ragged_dot::RaggedDotDimensions;
pub use types::{DYNAMIC, ElementType, TensorType, Type};
pub(crate) use types::{function_text, write_list};
pub use values::{Dims, ValueId, ValueIds, ValueTypes, inverse_permutation};
