//! The operations and their attributes.

use super::attribute::{Attribute, Attributes};
use super::literal::Literal;
use super::values::Dims;

/// Elementwise ops of one operand whose result has the operand's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each name is the specification's own")]
pub enum Unary {
    Abs,
    Cbrt,
    Ceil,
    CountLeadingZeros,
    Cosine,
    Exponential,
    ExponentialMinusOne,
    Floor,
    Imag,
    IsFinite,
    Log,
    LogPlusOne,
    Logistic,
    Negate,
    Not,
    Popcnt,
    Real,
    RoundNearestAfz,
    RoundNearestEven,
    Rsqrt,
    Sign,
    Sine,
    Sqrt,
    Tan,
    Tanh,
}

/// Elementwise ops of two operands of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each name is the specification's own")]
pub enum Binary {
    Add,
    And,
    Atan2,
    Complex,
    Divide,
    Maximum,
    Minimum,
    Multiply,
    Or,
    Power,
    Remainder,
    ShiftLeft,
    ShiftRightArithmetic,
    ShiftRightLogical,
    Subtract,
    Xor,
}

/// `comparison_direction` of `compare`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each name is the specification's own")]
pub enum ComparisonDirection {
    Eq,
    Ne,
    Ge,
    Gt,
    Le,
    Lt,
}

/// `compare_type` of `compare`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each name is the specification's own")]
pub enum ComparisonType {
    NoType,
    Float,
    TotalOrder,
    Signed,
    Unsigned,
    /// Floating-point numbers in an order in which both zeros are equal, all NaNs are, and a NaN is above all else.
    WeakOrder,
}

/// `precision_config` of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each name is the specification's own")]
pub enum Precision {
    Default,
    High,
    Highest,
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

/// Dimension numbers of `convolution`.
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

/// A sliding window; every list has one entry per windowed dimension.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each name is the specification's own")]
pub struct Window {
    /// Empty for `convolution`, whose window is the kernel.
    pub dimensions: Vec<i64>,
    pub strides: Vec<i64>,
    pub base_dilations: Vec<i64>,
    pub window_dilations: Vec<i64>,
    /// (low, high).
    pub padding: Vec<(i64, i64)>,
    /// Only for `convolution`; empty elsewhere.
    pub reversal: Vec<bool>,
}

/// `rng_algorithm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each name is the specification's own")]
pub enum RngAlgorithm {
    Default,
    ThreeFry,
    Philox,
}

/// `fft_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each name is the specification's own")]
pub enum FftType {
    Fft,
    Ifft,
    Rfft,
    Irfft,
}

/// `transpose_a` of `triangular_solve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each name is the specification's own")]
pub enum TransposeA {
    NoTranspose,
    Transpose,
    Adjoint,
}

/// The operation of an op. Fields have the specification's attribute names; large ones are boxed, so that the many ops
/// without them stay small.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each name is the specification's own")]
pub enum OpKind {
    // Leaves.
    Constant(Literal),
    Iota {
        iota_dimension: usize,
    },
    PartitionId,
    ReplicaId,
    // Elementwise.
    Unary(Unary),
    Binary(Binary),
    Compare {
        direction: ComparisonDirection,
        compare_type: ComparisonType,
    },
    Select,
    Clamp,
    Convert,
    BitcastConvert,
    ReducePrecision {
        exponent_bits: u32,
        mantissa_bits: u32,
    },
    // Shape.
    BroadcastInDim {
        broadcast_dimensions: Dims,
    },
    Reshape,
    Transpose {
        permutation: Dims,
    },
    Slice {
        start_indices: Vec<i64>,
        limit_indices: Vec<i64>,
        strides: Vec<i64>,
    },
    DynamicSlice {
        slice_sizes: Vec<i64>,
    },
    DynamicUpdateSlice,
    Concatenate {
        dimension: usize,
    },
    Pad {
        edge_padding_low: Vec<i64>,
        edge_padding_high: Vec<i64>,
        interior_padding: Vec<i64>,
    },
    Reverse {
        dimensions: Dims,
    },
    GetDimensionSize {
        dimension: usize,
    },
    // Indexing.
    Gather {
        dimensions: Box<GatherDimensions>,
        slice_sizes: Vec<i64>,
        indices_are_sorted: bool,
    },
    /// `operands`: inputs, one index operand, updates.
    Scatter {
        dimensions: Box<ScatterDimensions>,
        indices_are_sorted: bool,
        unique_indices: bool,
    },
    /// `dimension` is already normalised to 0..rank.
    Sort {
        dimension: usize,
        is_stable: bool,
    },
    // Contractions and reductions. Reduce and ReduceWindow: first half of the operands are inputs, second half init values.
    DotGeneral {
        dimensions: DotDimensions,
        /// Of the left and of the right operand.
        precision: [Precision; 2],
    },
    Convolution {
        dimensions: Box<ConvDimensions>,
        window: Box<Window>,
        feature_group_count: i64,
        batch_group_count: i64,
        /// Of the left and of the right operand.
        precision: [Precision; 2],
    },
    Reduce {
        dimensions: Dims,
    },
    ReduceWindow {
        window: Box<Window>,
    },
    SelectAndScatter {
        window: Box<Window>,
    },
    // Linear algebra, random numbers, transforms.
    Cholesky {
        lower: bool,
    },
    TriangularSolve {
        left_side: bool,
        lower: bool,
        unit_diagonal: bool,
        transpose_a: TransposeA,
    },
    Fft {
        fft_type: FftType,
        fft_length: Vec<i64>,
    },
    RngBitGenerator {
        algorithm: RngAlgorithm,
    },
    // Control flow and calls.
    Call {
        callee: String,
    },
    While,
    If,
    Case,
    /// The decomposition function computes the same from the same operands.
    Composite {
        name: String,
        decomposition: String,
        composite_attributes: Attributes,
    },
    CustomCall {
        call_target_name: String,
        has_side_effect: bool,
        backend_config: Attribute,
        api_version: i64,
    },
    OptimizationBarrier,
    Tuple,
    GetTupleElement {
        index: usize,
    },
    CreateToken,
    AfterAll,
    /// Terminator of every region and function.
    Return,
    /// Any other op: full name without version suffix (`stablehlo.all_reduce`, `sdy.sharding_constraint`), attributes raw.
    Other {
        name: String,
        attributes: Attributes,
    },
}
