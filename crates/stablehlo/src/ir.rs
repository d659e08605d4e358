//! The typed program, which both readers produce and devices read.
//!
//! A [`Module`] holds functions; a [`Func`] holds one [`Region`] of [`Op`]s. Values are numbered per function
//! ([`ValueId`]), nested regions included, so an op inside a `while` body names an outer value by the same id.
//! Every op of the StableHLO specification is an [`OpKind`] with its attributes as typed fields; an op the reader
//! does not know is [`OpKind::Other`], never an error of the reader.

use std::fmt;

use bytes::Bytes;

pub use crate::locations::Locations;
pub use crate::values::{Dims, ValueIds, ValueTypes};

/// Marks a dimension whose extent is not known before run time.
pub const DYNAMIC: i64 = i64::MIN;

/// The element types of the StableHLO specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each name is the specification's own")]
pub enum ElementType {
    Bool,
    I2,
    I4,
    I8,
    I16,
    I32,
    I64,
    Ui2,
    Ui4,
    Ui8,
    Ui16,
    Ui32,
    Ui64,
    F4E2M1FN,
    F6E2M3FN,
    F6E3M2FN,
    F8E3M4,
    F8E4M3,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E4M3B11FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0FNU,
    Bf16,
    F16,
    F32,
    F64,
    Tf32,
    ComplexF32,
    ComplexF64,
    /// MLIR `index`; only in dynamic-shape programs.
    Index,
}

/// A tensor type: element type and extents, row-major. `shape` is empty for a scalar.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Extent of each dimension, [`DYNAMIC`] where unknown.
    pub shape: Vec<i64>,
    /// Element type.
    pub element: ElementType,
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Type {
    /// A ranked tensor.
    Tensor(TensorType),
    /// A token ordering side effects.
    Token,
    /// A tuple.
    Tuple(Vec<Type>),
    /// A type that this crate does not model, in MLIR's textual form if that is known.
    Other(String),
}

/// A value of a function: an index into [`Func::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

/// A source location: an index into the module's location table, resolved by [`Module::location`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LocationId(pub u32);

/// A constant tensor. `data` is row-major little-endian, one whole byte per element for sub-byte types (sign- or
/// zero-extended) and for bool (0 or 1), real then imaginary part for complex; either all elements, or exactly one (a
/// splat; a tensor of one element is none).
#[derive(Clone, PartialEq, Eq)]
pub struct Literal {
    /// Type of the tensor.
    pub ty: TensorType,
    /// Elements, a slice of the program where the program holds them in this form.
    pub data: Bytes,
    /// One element stands for all.
    pub splat: bool,
}

/// An attribute that this crate keeps without interpreting it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each name is MLIR's own")]
pub enum Attribute {
    Unit,
    Bool(bool),
    /// An integer and its type. Unsigned 64-bit values keep their bits.
    Integer(i64, ElementType),
    /// A floating-point number and its type.
    Float(f64, ElementType),
    /// Bytes, since strings of custom calls need not be UTF-8.
    String(Bytes),
    Symbol(String),
    Type(Type),
    Array(Vec<Attribute>),
    Dictionary(Attributes),
    /// `dense<...>`.
    Tensor(Literal),
    /// `array<...>`, a tensor of one dimension.
    DenseArray(Literal),
    /// MLIR's text of anything else, such as a Shardy sharding.
    Other(String),
}

/// Named attributes in program order.
pub type Attributes = Vec<(String, Attribute)>;

/// A program.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// Symbol name, such as `jit_step`.
    pub name: Option<String>,
    /// Module attributes, such as `mhlo.num_partitions`.
    pub attributes: Attributes,
    /// Functions in program order; the entry is the one named `main`.
    pub funcs: Vec<Func>,
    /// Meshes and other top-level ops that are not functions, raw: (op name, attributes).
    pub symbols: Vec<(String, Attributes)>,
    /// Location table; see [`Module::location`].
    pub locations: Locations,
    /// Version of the portable artifact the program was read from.
    pub version: Option<Version>,
}

/// A StableHLO version, `major.minor.patch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

/// The source location of an op, as the producer recorded it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Location {
    /// Nothing recorded.
    Unknown,
    /// A place in a file.
    File {
        /// File name.
        file: String,
        /// Line, from 1; 0 when absent.
        line: u64,
        /// Column, from 1; 0 when absent.
        column: u64,
    },
    /// A name, such as JAX's `jit(f)/add`, and the place it wraps.
    Name(String, LocationId),
    /// A call: callee, then caller.
    CallSite(LocationId, LocationId),
    /// Several places.
    Fused(Vec<LocationId>),
}

/// A function.
#[derive(Clone, Debug)]
pub struct Func {
    /// Symbol name.
    pub name: String,
    /// `public` (the default) or private.
    pub public: bool,
    /// Attributes of each argument, such as `tf.aliasing_output`; as many as the body block has arguments.
    pub arg_attributes: Vec<Attributes>,
    /// Result types.
    pub results: Vec<Type>,
    /// Attributes of each result; as many as `results`.
    pub result_attributes: Vec<Attributes>,
    /// Discardable attributes.
    pub attributes: Attributes,
    /// Body: its block arguments are the function's arguments, its last op is [`OpKind::Return`].
    pub body: Region,
    /// Type of every value of the function, nested regions included, indexed by [`ValueId`].
    pub values: ValueTypes,
    /// The source location.
    pub location: LocationId,
}

/// A region: arguments and ops of its single block (StableHLO has no others).
#[derive(Clone, Debug, Default)]
pub struct Region {
    /// Block arguments.
    pub args: Vec<ValueId>,
    /// Ops in order; the last is [`OpKind::Return`].
    pub ops: Vec<Op>,
}

/// An operation.
#[derive(Clone, Debug)]
pub struct Op {
    /// The operation, with its attributes.
    pub kind: OpKind,
    /// Operands in the specification's order.
    pub operands: ValueIds,
    /// Results.
    pub results: ValueIds,
    /// Regions in the specification's order (`while`: cond, body).
    pub regions: Vec<Region>,
    /// Discardable attributes.
    pub attributes: Attributes,
    /// The source location.
    pub location: LocationId,
}

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

impl fmt::Debug for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Literal({:?}, {} bytes{})", self.ty, self.data.len(), if self.splat { ", splat" } else { "" })
    }
}

impl Module {
    /// The entry function: the one named `main`, or the only public one.
    #[must_use]
    pub fn entry(&self) -> Option<&Func> {
        self.func("main").or_else(|| {
            let mut public = self.funcs.iter().filter(|f| f.public);
            public.next().filter(|_| public.next().is_none())
        })
    }

    /// The function of that symbol name.
    #[must_use]
    pub fn func(&self, name: &str) -> Option<&Func> {
        self.funcs.iter().find(|f| f.name == name)
    }

    /// Moves the name out of the other attributes, where text and old artifacts may have it. An attribute that is not a
    /// name, or a second one, stays, and the verifier refuses it.
    pub(crate) fn name_from_attributes(&mut self) {
        let is_name = |(name, value): &(String, Attribute)| name == "sym_name" && value.as_str().is_some();
        if self.name.is_none()
            && let Some(at) = self.attributes.iter().position(is_name)
        {
            self.name = self.attributes.remove(at).1.as_str().map(str::to_owned);
        }
    }
}

impl Func {
    /// An attribute of an argument, such as `tf.aliasing_output`.
    #[must_use]
    pub fn arg_attribute(&self, index: usize, name: &str) -> Option<&Attribute> {
        self.arg_attributes.get(index)?.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// An attribute of a result, such as `jax.result_info`.
    #[must_use]
    pub fn result_attribute(&self, index: usize, name: &str) -> Option<&Attribute> {
        self.result_attributes.get(index)?.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// Argument values.
    #[must_use]
    pub fn args(&self) -> &[ValueId] {
        &self.body.args
    }

    /// Type of a value.
    #[must_use]
    pub fn ty(&self, value: ValueId) -> &Type {
        &self.values[value.0 as usize]
    }
}
