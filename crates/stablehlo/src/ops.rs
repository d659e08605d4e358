//! Op names, and the attribute lists of the portable artifact's ops.

use crate::ir::{Binary, OpKind, Unary};

/// The op that a name refers to, resolved once per name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Opcode {
    Unary(Unary),
    Binary(Binary),
    Constant,
    Iota,
    PartitionId,
    ReplicaId,
    Compare,
    Select,
    Clamp,
    Convert,
    BitcastConvert,
    ReducePrecision,
    Broadcast,
    BroadcastInDim,
    Reshape,
    Transpose,
    Slice,
    DynamicSlice,
    DynamicUpdateSlice,
    Concatenate,
    Pad,
    Reverse,
    GetDimensionSize,
    Gather,
    Scatter,
    Sort,
    Dot,
    DotGeneral,
    Convolution,
    Reduce,
    ReduceWindow,
    SelectAndScatter,
    Cholesky,
    TriangularSolve,
    Fft,
    RngBitGenerator,
    Call,
    While,
    If,
    Case,
    Composite,
    CustomCall,
    OptimizationBarrier,
    Tuple,
    GetTupleElement,
    CreateToken,
    AfterAll,
    Return,
    #[default]
    Other,
}

/// Finds a name in a text of names without separators, and returns its index. One text is smaller than a slice for each
/// name, because the dynamic loader relocates every slice.
fn find(names: &str, lengths: &[u16], name: &str) -> Option<usize> {
    let mut rest = names;
    lengths.iter().position(|length| {
        let (known, others) = rest.split_at((*length).into());
        rest = others;
        known == name
    })
}

#[expect(clippy::cast_possible_truncation, reason = "checked")]
const fn short(number: usize) -> u16 {
    assert!(number <= u16::MAX as usize);
    number as u16
}

macro_rules! elementwise {
    ($kind:ident { $($variant:ident $name:literal)* }) => {
        impl $kind {
            /// Every op of the kind.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            const NAMES: &str = concat!($($name),*);
            const LENGTHS: &[u16] = &[$(short($name.len())),*];

            /// Name without dialect, such as `add`.
            #[must_use]
            pub fn name(self) -> &'static str {
                let at = Self::ALL.iter().take_while(|op| **op != self).count();
                let start = Self::LENGTHS[..at].iter().map(|length| usize::from(*length)).sum();
                &Self::NAMES[start..][..Self::LENGTHS[at].into()]
            }

            /// The op of that name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                find(Self::NAMES, Self::LENGTHS, name).map(|at| Self::ALL[at])
            }
        }
    };
}

elementwise!(Unary {
    Abs "abs" Cbrt "cbrt" Ceil "ceil" CountLeadingZeros "count_leading_zeros" Cosine "cosine"
    Exponential "exponential" ExponentialMinusOne "exponential_minus_one" Floor "floor" Imag "imag"
    IsFinite "is_finite" Log "log" LogPlusOne "log_plus_one" Logistic "logistic" Negate "negate" Not "not"
    Popcnt "popcnt" Real "real" RoundNearestAfz "round_nearest_afz" RoundNearestEven "round_nearest_even"
    Rsqrt "rsqrt" Sign "sign" Sine "sine" Sqrt "sqrt" Tan "tan" Tanh "tanh"
});

elementwise!(Binary {
    Add "add" And "and" Atan2 "atan2" Complex "complex" Divide "divide" Maximum "maximum" Minimum "minimum"
    Multiply "multiply" Or "or" Power "power" Remainder "remainder" ShiftLeft "shift_left"
    ShiftRightArithmetic "shift_right_arithmetic" ShiftRightLogical "shift_right_logical" Subtract "subtract"
    Xor "xor"
});

impl Opcode {
    /// The code of a StableHLO op, named without dialect and version.
    pub(crate) fn from_name(name: &str) -> Self {
        if let Some(binary) = Binary::from_name(name) {
            return Self::Binary(binary);
        }
        if let Some(at) = find(NAMES, LENGTHS, name) {
            return CODES[at];
        }
        Unary::from_name(name).map_or(Self::Other, Self::Unary)
    }
}

/// The ops with a code of their own.
macro_rules! codes {
    ($($name:literal $code:ident)*) => {
        const NAMES: &str = concat!($($name),*);
        const LENGTHS: &[u16] = &[$(short($name.len())),*];
        const CODES: &[Opcode] = &[$(Opcode::$code),*];
    };
}

codes! {
    "constant" Constant "iota" Iota "partition_id" PartitionId "replica_id" ReplicaId "compare" Compare
    "select" Select "clamp" Clamp "convert" Convert "bitcast_convert" BitcastConvert
    "reduce_precision" ReducePrecision "broadcast" Broadcast "broadcast_in_dim" BroadcastInDim "reshape" Reshape
    "transpose" Transpose "slice" Slice "dynamic_slice" DynamicSlice "dynamic_update_slice" DynamicUpdateSlice
    "concatenate" Concatenate "pad" Pad "reverse" Reverse "get_dimension_size" GetDimensionSize "gather" Gather
    "scatter" Scatter "sort" Sort "dot" Dot "dot_general" DotGeneral "convolution" Convolution "reduce" Reduce
    "reduce_window" ReduceWindow "select_and_scatter" SelectAndScatter "cholesky" Cholesky
    "triangular_solve" TriangularSolve "fft" Fft "rng_bit_generator" RngBitGenerator "call" Call "while" While "if" If
    "case" Case "composite" Composite "custom_call" CustomCall "optimization_barrier" OptimizationBarrier
    "tuple" Tuple "get_tuple_element" GetTupleElement "create_token" CreateToken "after_all" AfterAll "return" Return
}

impl OpKind {
    /// Full name of the op, such as `stablehlo.add`; `func.call` is `stablehlo.call` here.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Other { name, .. } => name.clone(),
            kind => format!("stablehlo.{}", kind.base_name()),
        }
    }

    /// Name without dialect; that of an op without a kind of its own is empty.
    pub(crate) fn base_name(&self) -> &'static str {
        match self {
            Self::Other { .. } => "",
            Self::Unary(unary) => unary.name(),
            Self::Binary(binary) => binary.name(),
            Self::Constant(_) => "constant",
            Self::Iota { .. } => "iota",
            Self::PartitionId => "partition_id",
            Self::ReplicaId => "replica_id",
            Self::Compare { .. } => "compare",
            Self::Select => "select",
            Self::Clamp => "clamp",
            Self::Convert => "convert",
            Self::BitcastConvert => "bitcast_convert",
            Self::ReducePrecision { .. } => "reduce_precision",
            Self::BroadcastInDim { .. } => "broadcast_in_dim",
            Self::Reshape => "reshape",
            Self::Transpose { .. } => "transpose",
            Self::Slice { .. } => "slice",
            Self::DynamicSlice { .. } => "dynamic_slice",
            Self::DynamicUpdateSlice => "dynamic_update_slice",
            Self::Concatenate { .. } => "concatenate",
            Self::Pad { .. } => "pad",
            Self::Reverse { .. } => "reverse",
            Self::GetDimensionSize { .. } => "get_dimension_size",
            Self::Gather { .. } => "gather",
            Self::Scatter { .. } => "scatter",
            Self::Sort { .. } => "sort",
            Self::DotGeneral { .. } => "dot_general",
            Self::Convolution { .. } => "convolution",
            Self::Reduce { .. } => "reduce",
            Self::ReduceWindow { .. } => "reduce_window",
            Self::SelectAndScatter { .. } => "select_and_scatter",
            Self::Cholesky { .. } => "cholesky",
            Self::TriangularSolve { .. } => "triangular_solve",
            Self::Fft { .. } => "fft",
            Self::RngBitGenerator { .. } => "rng_bit_generator",
            Self::Call { .. } => "call",
            Self::While => "while",
            Self::If => "if",
            Self::Case => "case",
            Self::Composite { .. } => "composite",
            Self::CustomCall { .. } => "custom_call",
            Self::OptimizationBarrier => "optimization_barrier",
            Self::Tuple => "tuple",
            Self::GetTupleElement { .. } => "get_tuple_element",
            Self::CreateToken => "create_token",
            Self::AfterAll => "after_all",
            Self::Return => "return",
        }
    }
}

/// Attributes of a version of a portable artifact's op, in the order its properties hold them. Ops without attributes are
/// not listed; `None` therefore means none known.
pub(crate) fn vhlo_attributes(op: &str, version: u32) -> Option<Names> {
    versions(op).find(|row| row.version() == version).map(|row| row.attributes())
}

/// Whether the portable artifact has an op of that name with attributes.
pub(crate) fn is_op(op: &str) -> bool {
    versions(op).next().is_some()
}

/// Whether some version of the op (named without dialect and version) has an attribute of that name.
pub(crate) fn is_attribute(op: &str, attribute: &str) -> bool {
    versions(op).any(|row| row.attributes().iter().any(|name| name == attribute))
}

/// Ops of the portable artifact that have neither attributes nor a kind of their own.
const PLAIN: [&str; 8] = [
    "async_done",
    "async_start",
    "dynamic_pad",
    "dynamic_reshape",
    "real_dynamic_slice",
    "trace",
    "uniform_dequantize",
    "uniform_quantize",
];

/// Ops without attributes that have a kind of their own and are not elementwise arithmetic.
const WITHOUT_ATTRIBUTES: [&str; 15] = [
    "after_all",
    "bitcast_convert",
    "case",
    "clamp",
    "convert",
    "create_token",
    "dynamic_update_slice",
    "if",
    "optimization_barrier",
    "partition_id",
    "replica_id",
    "reshape",
    "select",
    "tuple",
    "while",
];

/// Whether the portable artifact has an op of that name that has neither attributes nor a kind of its own.
pub(crate) fn is_plain(op: &str) -> bool {
    PLAIN.contains(&op)
}

/// The names of all ops of StableHLO, without dialect, sorted.
pub fn op_names() -> impl Iterator<Item = &'static str> {
    // Rows of the table that are not ops of StableHLO.
    let others = ["func", "call", "cross-replica-sum"];
    let mut names: Vec<&'static str> =
        ROWS.iter().map(|row| row.name()).filter(|name| !others.contains(name)).collect();
    names.extend(PLAIN.into_iter().chain(WITHOUT_ATTRIBUTES));
    names.extend(Unary::ALL.iter().map(|unary| unary.name()));
    names.extend(Binary::ALL.iter().map(|binary| binary.name()));
    names.sort_unstable();
    names.dedup();
    names.into_iter()
}

/// The rows of an op.
fn versions(op: &str) -> impl Iterator<Item = Row> {
    let start = ROWS.partition_point(|row| row.name() < op);
    ROWS[start..].iter().copied().take_while(move |row| row.name() == op)
}

/// Names of attributes, separated by spaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names(pub(crate) &'static str);

impl Names {
    pub(crate) fn iter(self) -> impl Iterator<Item = &'static str> {
        self.0.split_ascii_whitespace()
    }
}

/// Attributes of Shardy's ops whose properties are plain references, in the order of the properties.
pub(crate) fn shardy_attributes(name: &str) -> Option<Names> {
    Some(Names(match name {
        "sdy.mesh" => "mesh sym_name",
        "sdy.sharding_constraint" | "sdy.reshard" => "sharding",
        "sdy.manual_computation" => "in_shardings manual_axes out_shardings",
        "sdy.return" => "",
        "sdy.all_gather" => "gathering_axes out_sharding",
        "sdy.all_reduce" => "out_sharding reduction_axes",
        "sdy.all_slice" => "out_sharding slicing_axes",
        "sdy.named_computation" => "in_shardings name out_shardings",
        "sdy.propagation_barrier" => "allowed_direction",
        "sdy.sharding_group" => "group_id",
        _ => return None,
    }))
}

/// A version of an op in [`TABLE`].
#[derive(Clone, Copy)]
struct Row {
    /// Where the name begins.
    start: u16,
    /// Where it ends. A space follows, the version, and another space.
    name_end: u16,
    /// Where the last attribute ends.
    end: u16,
}

impl Row {
    fn name(self) -> &'static str {
        &TABLE[self.start.into()..self.name_end.into()]
    }

    fn version(self) -> u32 {
        (TABLE.as_bytes()[usize::from(self.name_end) + 1] - b'0').into()
    }

    fn attributes(self) -> Names {
        Names(&TABLE[usize::from(self.name_end) + 3..self.end.into()])
    }
}

/// The rows of [`TABLE`], found when the crate is compiled. A table of string slices is three times as large, because
/// the dynamic loader relocates each of them.
static ROWS: [Row; count(b'\n')] = {
    let mut rows = [Row { start: 0, name_end: 0, end: 0 }; _];
    let (mut row, mut at, mut start, mut name_end) = (0, 0, 0, 0);
    let text = TABLE.as_bytes();
    while at < text.len() {
        if text[at] == b' ' && name_end == 0 {
            name_end = at;
            assert!(text[at + 1].is_ascii_digit() && text[at + 2] == b' ');
        } else if text[at] == b'\n' {
            rows[row] = Row { start: short(start), name_end: short(name_end), end: short(at) };
            (row, start, name_end) = (row + 1, at + 1, 0);
        }
        at += 1;
    }
    rows
};

/// How often a byte occurs in [`TABLE`].
const fn count(byte: u8) -> usize {
    let (mut at, mut count) = (0, 0);
    while at < TABLE.len() {
        count += (TABLE.as_bytes()[at] == byte) as usize;
        at += 1;
    }
    count
}

/// One line for each version of an op: its name, the version, and its attributes. Sorted by name, then version.
const TABLE: &str = "\
all_gather 1 all_gather_dim channel_id replica_groups use_global_device_ids
all_gather 2 all_gather_dim channel_id replica_groups use_global_device_ids
all_reduce 1 channel_id replica_groups use_global_device_ids
all_reduce 2 channel_id replica_groups use_global_device_ids
all_to_all 1 channel_id concat_dimension replica_groups split_count split_dimension
all_to_all 2 channel_id concat_dimension replica_groups split_count split_dimension
batch_norm_grad 1 epsilon feature_index
batch_norm_inference 1 epsilon feature_index
batch_norm_training 1 epsilon feature_index
broadcast 1 broadcast_sizes
broadcast_in_dim 1 broadcast_dimensions
call 1 callee
cbrt 2 result_accuracy
cholesky 1 lower
collective_broadcast 1 channel_id replica_groups
collective_broadcast 2 channel_id has_dynamic_root replica_groups
collective_permute 1 channel_id source_target_pairs
collective_reduce 1 channel_id has_dynamic_root replica_groups use_global_device_ids
compare 1 compare_type comparison_direction
composite 1 composite_attributes decomposition name version
composite 2 composite_attributes decomposition name version
concatenate 1 dimension
constant 1 value
convolution 1 batch_group_count feature_group_count input_batch_dimension input_feature_dimension input_spatial_dimensions kernel_input_feature_dimension kernel_output_feature_dimension kernel_spatial_dimensions lhs_dilation output_batch_dimension output_feature_dimension output_spatial_dimensions padding precision_config rhs_dilation window_reversal window_strides
cosine 2 result_accuracy
cross-replica-sum 1 replica_groups
custom_call 1 api_version backend_config call_target_name called_computations has_side_effect operand_layouts output_operand_aliases result_layouts
custom_call 2 api_version backend_config call_target_name called_computations has_side_effect operand_layouts output_operand_aliases result_layouts result_tilings
dot 1 precision_config
dot_general 1 lhs_batching_dimensions lhs_contracting_dimensions precision_config rhs_batching_dimensions rhs_contracting_dimensions
dot_general 2 accumulation_type allow_imprecise_accumulation lhs_batching_dimensions lhs_component_count lhs_contracting_dimensions lhs_precision_type num_primitive_operations precision_config rhs_batching_dimensions rhs_component_count rhs_contracting_dimensions rhs_precision_type
dynamic_broadcast_in_dim 1 broadcast_dimensions known_expanding_dimensions known_nonexpanding_dimensions
dynamic_conv 1 batch_group_count feature_group_count input_batch_dimension input_feature_dimension input_spatial_dimensions kernel_input_feature_dimension kernel_output_feature_dimension kernel_spatial_dimensions lhs_dilation output_batch_dimension output_feature_dimension output_spatial_dimensions padding precision_config rhs_dilation window_reversal window_strides
dynamic_conv 2 batch_group_count feature_group_count input_batch_dimension input_feature_dimension input_spatial_dimensions kernel_input_feature_dimension kernel_output_feature_dimension kernel_spatial_dimensions lhs_dilation output_batch_dimension output_feature_dimension output_spatial_dimensions precision_config rhs_dilation window_reversal window_strides
dynamic_gather 1 collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims start_index_map
dynamic_gather 2 collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims operand_batching_dims start_index_map start_indices_batching_dims
dynamic_iota 1 iota_dimension
dynamic_slice 1 slice_sizes
einsum 1 einsum_config
exponential 2 result_accuracy
exponential_minus_one 2 result_accuracy
fft 1 fft_length fft_type
func 1 arg_attrs function_type res_attrs sym_name sym_visibility
gather 1 collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims slice_sizes start_index_map
gather 2 collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims operand_batching_dims slice_sizes start_index_map start_indices_batching_dims
get_dimension_size 1 dimension
get_tuple_element 1 index
infeed 1 infeed_config layout
iota 1 iota_dimension
log 2 result_accuracy
log_plus_one 2 result_accuracy
logistic 2 result_accuracy
map 1 dimensions
outfeed 1 outfeed_config
pad 1 edge_padding_high edge_padding_low interior_padding
recv 1 channel_id channel_type is_host_transfer
recv 2 channel_id channel_type is_host_transfer source_target_pairs
reduce 1 dimensions
reduce_precision 1 exponent_bits mantissa_bits
reduce_scatter 1 channel_id replica_groups scatter_dimension use_global_device_ids
reduce_window 1 base_dilations padding window_dilations window_dimensions window_strides
reverse 1 dimensions
rng 1 rng_distribution
rng_bit_generator 1 rng_algorithm
rsqrt 2 result_accuracy
scatter 1 index_vector_dim indices_are_sorted inserted_window_dims scatter_dims_to_operand_dims unique_indices update_window_dims
scatter 2 index_vector_dim indices_are_sorted input_batching_dims inserted_window_dims scatter_dims_to_operand_dims scatter_indices_batching_dims unique_indices update_window_dims
select_and_scatter 1 padding window_dimensions window_strides
send 1 channel_id channel_type is_host_transfer
send 2 channel_id channel_type is_host_transfer source_target_pairs
set_dimension_size 1 dimension
sine 2 result_accuracy
slice 1 limit_indices start_indices strides
sort 1 dimension is_stable
sqrt 2 result_accuracy
tan 2 result_accuracy
tanh 2 result_accuracy
torch_index_select 1 batch_dims dim
transpose 1 permutation
triangular_solve 1 left_side lower transpose_a unit_diagonal
unary_einsum 1 einsum_config
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_op_has_a_name() {
        let names: Vec<_> = op_names().collect();
        assert!(names.len() > 110, "{}", names.len());
        for name in ["add", "tan", "while", "all_reduce", "uniform_quantize", "dot_general", "return"] {
            assert_eq!(names.contains(&name), name != "return", "{name}");
        }
        for name in WITHOUT_ATTRIBUTES {
            assert!(Opcode::from_name(name) != Opcode::Other && !is_op(name), "{name}");
        }
    }

    #[test]
    fn codes_have_their_names() {
        for op in Binary::ALL {
            assert_eq!(Opcode::from_name(op.name()), Opcode::Binary(*op));
        }
        for op in Unary::ALL {
            assert_eq!(Opcode::from_name(op.name()), Opcode::Unary(*op));
        }
        assert_eq!((Binary::Add.name(), Binary::Xor.name()), ("add", "xor"));
        assert_eq!((Unary::Abs.name(), Unary::Tanh.name()), ("abs", "tanh"));
        assert_eq!(Opcode::from_name("constant"), Opcode::Constant);
        assert_eq!(Opcode::from_name("get_tuple_element"), Opcode::GetTupleElement);
        assert_eq!(Opcode::from_name("return"), Opcode::Return);
        assert_eq!(Opcode::from_name("add"), Opcode::Binary(Binary::Add));
        assert_eq!(Opcode::from_name("tanh"), Opcode::Unary(Unary::Tanh));
        assert_eq!(Opcode::from_name("constan"), Opcode::Other);
        assert_eq!(Opcode::from_name(""), Opcode::Other);
        assert!(is_plain("trace") && is_plain("uniform_quantize") && !is_plain("dynamic"));
    }

    #[test]
    fn the_table_is_sorted() {
        assert!(ROWS.is_sorted_by(|a, b| (a.name(), a.version()) < (b.name(), b.version())));
        assert_eq!(ROWS.len(), TABLE.lines().count());
        for (row, line) in ROWS.iter().zip(TABLE.lines()) {
            let names: Vec<_> = vhlo_attributes(row.name(), row.version()).unwrap().iter().collect();
            assert_eq!(format!("{} {} {}", row.name(), row.version(), names.join(" ")), line);
        }
        let names: Vec<_> = vhlo_attributes("compare", 1).unwrap().iter().collect();
        assert_eq!(names, ["compare_type", "comparison_direction"]);
        assert!(vhlo_attributes("add", 1).is_none() && !is_op("while") && is_op("tan"));
        assert!(is_attribute("all_gather", "channel_id") && !is_attribute("while", "nothing"));
        assert!(!is_attribute("broadcast", "broadcast_dimensions"));
        assert!(is_attribute("broadcast_in_dim", "broadcast_dimensions"));
    }
}
