//! The ops and their attributes, generated from the tables in `op_table.rs`.

use bytes::Bytes;

use super::attribute::{Attribute, Attributes};
use super::collectives::{ChannelHandle, ReplicaGroups};
use super::literal::Literal;
use super::values::Dims;

macro_rules! elementwise_ops {
    ($( $(#[$doc:meta])* $kind:ident { $($variant:ident $name:literal $set:ident;)* } )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            #[allow(missing_docs, reason = "each name is the specification's own")]
            pub enum $kind {
                $($variant,)*
            }

            impl $kind {
                /// All ops of the enum, in declaration order.
                pub const ALL: &[Self] = &[$(Self::$variant),*];
            }
        )*
    };
}

elementwise_table!(elementwise_ops);

/// An enumeration of the StableHLO specification.
pub(crate) trait Enumeration: Copy + PartialEq + 'static {
    /// Family of the enumeration, such as `comparison_direction` in `#stablehlo<comparison_direction EQ>`.
    const FAMILY: &'static str;
    /// Name of the enumeration in error messages.
    const WHAT: &'static str;
    /// Value that an absent attribute represents. `None` if the attribute is required.
    const DEFAULT: Option<Self>;
    /// All values.
    const ALL: &[Self];

    /// Returns the specification's keyword for the value.
    fn word(self) -> &'static str;

    /// Returns the value with this keyword.
    fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|value| value.word() == word)
    }
}

macro_rules! enumerations {
    ($(
        $(#[$doc:meta])*
        $kind:ident $family:literal $what:literal $(or $default:ident)? {
            $( $(#[$meta:meta])* $variant:ident $word:literal; )*
        }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            #[allow(missing_docs, reason = "each name is the specification's own")]
            pub enum $kind {
                $( $(#[$meta])* $variant, )*
            }

            impl Enumeration for $kind {
                const FAMILY: &'static str = $family;
                const WHAT: &'static str = $what;
                const DEFAULT: Option<Self> = [$(Some(Self::$default),)? None][0];
                const ALL: &[Self] = &[$(Self::$variant),*];

                fn word(self) -> &'static str {
                    match self {
                        $(Self::$variant => $word,)*
                    }
                }
            }
        )*
    };
}

enumeration_table!(enumerations);

impl ComparisonDirection {
    /// Returns the direction with this keyword, such as `LT`.
    #[must_use]
    pub fn from_name(word: &str) -> Option<Self> {
        Self::from_word(word)
    }

    /// Returns the direction of the same comparison with the operands swapped.
    #[must_use]
    pub fn mirrored(self) -> Self {
        match self {
            Self::Ge => Self::Le,
            Self::Gt => Self::Lt,
            Self::Le => Self::Ge,
            Self::Lt => Self::Gt,
            Self::Eq | Self::Ne => self,
        }
    }
}

impl ComparisonType {
    /// Returns the type with this keyword, such as `TOTALORDER`.
    #[must_use]
    pub fn from_name(word: &str) -> Option<Self> {
        Self::from_word(word)
    }
}

/// Dimension numbers of `dot_general`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each name is the specification's own")]
pub struct DotDimensions {
    pub lhs_batching: Dims,
    pub rhs_batching: Dims,
    pub lhs_contracting: Dims,
    pub rhs_contracting: Dims,
}

/// Dimension numbers of `gather` and `dynamic_gather`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each name is the specification's own")]
pub struct GatherDimensions {
    pub offset_dims: Vec<usize>,
    pub collapsed_slice_dims: Vec<usize>,
    pub operand_batching_dims: Vec<usize>,
    pub start_indices_batching_dims: Vec<usize>,
    pub start_index_map: Vec<usize>,
    pub index_vector_dim: usize,
}

/// Dimension numbers of `scatter`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each name is the specification's own")]
pub struct ScatterDimensions {
    pub update_window_dims: Vec<usize>,
    pub inserted_window_dims: Vec<usize>,
    pub input_batching_dims: Vec<usize>,
    pub scatter_indices_batching_dims: Vec<usize>,
    pub scatter_dims_to_operand_dims: Vec<usize>,
    pub index_vector_dim: usize,
}

/// Dimension numbers of `convolution` and `dynamic_conv`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each name is the specification's own")]
pub struct ConvDimensions {
    pub input_batch: usize,
    pub input_feature: usize,
    pub input_spatial: Vec<usize>,
    pub kernel_input_feature: usize,
    pub kernel_output_feature: usize,
    pub kernel_spatial: Vec<usize>,
    pub output_batch: usize,
    pub output_feature: usize,
    pub output_spatial: Vec<usize>,
}

/// A sliding window. Each list has one element for each windowed dimension.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each name is the specification's own")]
pub struct Window {
    /// Extents of the window. Empty for `convolution`, whose kernel determines the window.
    pub dimensions: Vec<i64>,
    pub strides: Vec<i64>,
    pub base_dilations: Vec<i64>,
    pub window_dilations: Vec<i64>,
    /// Low and high padding of each dimension.
    pub padding: Vec<(i64, i64)>,
    /// Whether the kernel of a `convolution` is reversed along each dimension. Empty for other ops.
    pub reversal: Vec<bool>,
}

macro_rules! op_kinds {
    (
        table { $(
            $(#[$doc:meta])*
            $op:ident $name:literal ($($counts:tt)*)
            $({ $($field:ident : $ty:ty as $codec:ident = $attribute:literal),+ $(,)? })?
            $form:ident $([$($word:literal $of:ident),*])?;
        )* }
        own { $(
            $(#[$own_doc:meta])*
            $own:ident $own_name:literal ($($own_counts:tt)*)
            { $( $(#[$field_doc:meta])* $own_field:ident : $own_ty:ty ),* $(,)? };
        )* }
    ) => {
        /// Operation that an [`Op`](super::Op) performs. The fields have the specification's attribute names. Large
        /// fields are boxed, so that the enum stays small.
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "each name is the specification's own")]
        pub enum OpKind {
            Constant(Literal),
            Unary(Unary),
            Binary(Binary),
            $( $(#[$doc])* $op $({ $($field: $ty),+ })?, )*
            $( $(#[$own_doc])* $own { $( $(#[$field_doc])* $own_field: $own_ty ),* }, )*
            /// An op of another dialect, or an op that this crate does not know. `name` is the full name without the
            /// version suffix, such as `sdy.sharding_constraint`. `attributes` contains the attributes as the program
            /// states them.
            Other {
                name: String,
                attributes: Attributes,
            },
        }
    };
}

op_table!(op_kinds);

impl OpKind {
    /// Returns the replica groups of a collective. Returns `None` for ops without replica groups, such as
    /// `collective_permute`.
    #[must_use]
    pub fn replica_groups(&self) -> Option<&ReplicaGroups> {
        match self {
            Self::AllGather { replica_groups, .. }
            | Self::AllReduce { replica_groups, .. }
            | Self::AllToAll { replica_groups, .. }
            | Self::CollectiveBroadcast { replica_groups, .. }
            | Self::CollectiveReduce { replica_groups, .. }
            | Self::CrossReplicaSum { replica_groups }
            | Self::ReduceScatter { replica_groups, .. } => Some(replica_groups),
            _ => None,
        }
    }

    /// Returns the replica groups of a collective for modification. Returns `None` for ops without replica groups, such
    /// as `collective_permute`.
    pub fn replica_groups_mut(&mut self) -> Option<&mut ReplicaGroups> {
        match self {
            Self::AllGather { replica_groups, .. }
            | Self::AllReduce { replica_groups, .. }
            | Self::AllToAll { replica_groups, .. }
            | Self::CollectiveBroadcast { replica_groups, .. }
            | Self::CollectiveReduce { replica_groups, .. }
            | Self::CrossReplicaSum { replica_groups }
            | Self::ReduceScatter { replica_groups, .. } => Some(replica_groups),
            _ => None,
        }
    }

    /// Returns the channel of a collective, `send` or `recv`. Returns `None` for ops without a channel.
    #[must_use]
    pub fn channel(&self) -> Option<ChannelHandle> {
        match self {
            Self::AllGather { channel, .. }
            | Self::AllReduce { channel, .. }
            | Self::AllToAll { channel, .. }
            | Self::CollectiveBroadcast { channel, .. }
            | Self::CollectivePermute { channel, .. }
            | Self::CollectiveReduce { channel, .. }
            | Self::Recv { channel, .. }
            | Self::ReduceScatter { channel, .. }
            | Self::Send { channel, .. } => Some(*channel),
            _ => None,
        }
    }
}
