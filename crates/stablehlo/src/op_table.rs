//! The tables of ops, elementwise ops and enumerations.
//!
//! Each table is a macro. It takes the name of another macro as its argument, and passes its rows to that macro. From
//! the rows, the crate generates the IR ([`OpKind`](crate::ir::OpKind)), the opcodes and the op names. It also
//! generates the operand, result and region counts that the verifier checks. For the readers, the writer and the
//! printer, it generates the attributes of portable artifacts, the attributes of MLIR's generic form, and the custom
//! text forms of most ops.
//!
//! A row of `op_table!` has this form:
//!
//! ```text
//! Variant "name" (operands, results, regions) { field: type as Codec = "attribute", ... } form ["word" field, ...];
//! ```
//!
//! - A count is an exact count such as `2`, a minimum such as `1..`, or `..` for any count.
//! - The codec (see [`fields`](crate::ops::fields)) converts between the field and the attribute. The string after `=`
//!   is the attribute's name in portable artifacts. The fields are sorted by this name.
//! - The form describes the text after the operands: keywords, each followed by the value of a field, then the types.
//!   `same` prints one type if all types are equal, `signature` prints `(T) -> T`, and `result` prints the type of the
//!   result. The printer and the text reader have separate code for each op of the form `own`. Ops of the form
//!   `generic` print in MLIR's generic form.
//!
//! The section `own` lists the ops whose attributes do not fit into a row. The readers, the writer and the printer have
//! separate code for the attributes of these ops.

/// Calls a macro with the rows of the ops of [`OpKind`](crate::ir::OpKind).
macro_rules! op_table {
    ($callback:ident) => {
        $callback! {
            table {
                // Ops without operands.
                Iota "iota" (0, 1, 0) { iota_dimension: usize as Index = "iota_dimension" } result ["dim" iota_dimension];
                PartitionId "partition_id" (0, 1, 0) result;
                ReplicaId "replica_id" (0, 1, 0) result;
                // Elementwise ops.
                Compare "compare" (2, 1, 0) {
                    compare_type: ComparisonType as OptionalWord = "compare_type",
                    direction: ComparisonDirection as Word = "comparison_direction",
                } own;
                Select "select" (3, 1, 0) own;
                Clamp "clamp" (3, 1, 0) same;
                /// The first operand times the second plus the third, rounded once.
                Fma "fma" (3, 1, 0) same;
                Convert "convert" (1, 1, 0) same;
                BitcastConvert "bitcast_convert" (1, 1, 0) signature;
                ReducePrecision "reduce_precision" (1, 1, 0) {
                    exponent_bits: u32 as Bits = "exponent_bits",
                    mantissa_bits: u32 as Bits = "mantissa_bits",
                } own;
                // Shape ops.
                BroadcastInDim "broadcast_in_dim" (1, 1, 0) {
                    broadcast_dimensions: Dims as DimList = "broadcast_dimensions",
                } signature ["dims" broadcast_dimensions];
                Reshape "reshape" (1, 1, 0) signature;
                Transpose "transpose" (1, 1, 0) {
                    permutation: Dims as DimList = "permutation",
                } signature ["dims" permutation];
                Slice "slice" (1, 1, 0) {
                    limit_indices: Vec<i64> as List = "limit_indices",
                    start_indices: Vec<i64> as List = "start_indices",
                    strides: Vec<i64> as List = "strides",
                } own;
                DynamicSlice "dynamic_slice" (1.., 1, 0) {
                    slice_sizes: Vec<i64> as List = "slice_sizes",
                } signature ["sizes" slice_sizes];
                DynamicUpdateSlice "dynamic_update_slice" (2.., 1, 0) signature;
                Concatenate "concatenate" (1.., 1, 0) {
                    dimension: usize as Index = "dimension",
                } signature ["dim" dimension];
                Pad "pad" (2, 1, 0) {
                    edge_padding_high: Vec<i64> as List = "edge_padding_high",
                    edge_padding_low: Vec<i64> as List = "edge_padding_low",
                    interior_padding: Vec<i64> as List = "interior_padding",
                } signature ["low" edge_padding_low, "high" edge_padding_high, "interior" interior_padding];
                Reverse "reverse" (1, 1, 0) { dimensions: Dims as DimList = "dimensions" } same ["dims" dimensions];
                GetDimensionSize "get_dimension_size" (1, 1, 0) {
                    dimension: usize as Index = "dimension",
                } signature ["dim" dimension];
                /// The first half of the operands are the inputs, and the second half are the initial values.
                Reduce "reduce" (2.., 1.., 1) { dimensions: Dims as DimList = "dimensions" } own;
                // Linear algebra, random numbers and Fourier transforms.
                Cholesky "cholesky" (1, 1, 0) { lower: bool as Flag = "lower" } same ["lower" lower];
                TriangularSolve "triangular_solve" (2, 1, 0) {
                    left_side: bool as Bool = "left_side",
                    lower: bool as Bool = "lower",
                    transpose_a: TransposeA as Word = "transpose_a",
                    unit_diagonal: bool as Bool = "unit_diagonal",
                } generic;
                Fft "fft" (1, 1, 0) {
                    fft_length: Vec<i64> as List = "fft_length",
                    fft_type: FftType as Word = "fft_type",
                } signature ["type" fft_type, "length" fft_length];
                RngBitGenerator "rng_bit_generator" (1, 2, 0) {
                    algorithm: RngAlgorithm as Word = "rng_algorithm",
                } signature ["algorithm" algorithm];
                // Control flow and calls.
                Call "call" (.., .., 0) { callee: String as Symbol = "callee" } own;
                While "while" (.., .., 2) own;
                If "if" (1, .., 2) generic;
                Case "case" (1, .., 1..) generic;
                OptimizationBarrier "optimization_barrier" (.., .., 0) own;
                Tuple "tuple" (.., 1, 0) own;
                GetTupleElement "get_tuple_element" (1, 1, 0) { index: usize as Index32 = "index" } own;
                CreateToken "create_token" (0, 1, 0) result;
                AfterAll "after_all" (.., 1, 0) own;
                // Collectives. The printer writes the channel of `all_gather` and similar ops as `channel_handle`.
                AllGather "all_gather" (1.., 1.., 0) {
                    all_gather_dim: usize as Index = "all_gather_dim",
                    channel: ChannelHandle as Channel = "channel_id",
                    replica_groups: ReplicaGroups as Groups = "replica_groups",
                    use_global_device_ids: bool as UnitFlag = "use_global_device_ids",
                } generic;
                AllReduce "all_reduce" (1.., 1.., 1) {
                    channel: ChannelHandle as Channel = "channel_id",
                    replica_groups: ReplicaGroups as Groups = "replica_groups",
                    use_global_device_ids: bool as UnitFlag = "use_global_device_ids",
                } generic;
                AllToAll "all_to_all" (1.., 1.., 0) {
                    channel: ChannelHandle as Channel = "channel_id",
                    concat_dimension: usize as Index = "concat_dimension",
                    replica_groups: ReplicaGroups as Groups = "replica_groups",
                    split_count: i64 as Count64 = "split_count",
                    split_dimension: usize as Index = "split_dimension",
                } generic;
                /// Devices that are not the target of any pair receive zeros.
                CollectivePermute "collective_permute" (1.., 1.., 0) {
                    channel: ChannelHandle as Channel = "channel_id",
                    source_target_pairs: Vec<(i64, i64)> as IdPairs = "source_target_pairs",
                } generic;
                /// If `has_dynamic_root` is set, the last operand holds the root of each preceding operand.
                CollectiveReduce "collective_reduce" (1.., 1.., 1) {
                    channel: ChannelHandle as Channel = "channel_id",
                    has_dynamic_root: bool as UnitFlag = "has_dynamic_root",
                    replica_groups: ReplicaGroups as Groups = "replica_groups",
                    use_global_device_ids: bool as UnitFlag = "use_global_device_ids",
                } generic;
                ReduceScatter "reduce_scatter" (1.., 1.., 1) {
                    channel: ChannelHandle as Channel = "channel_id",
                    replica_groups: ReplicaGroups as Groups = "replica_groups",
                    scatter_dimension: usize as Index = "scatter_dimension",
                    use_global_device_ids: bool as UnitFlag = "use_global_device_ids",
                } generic;
                CrossReplicaSum "cross-replica-sum" (1, 1, 0) {
                    replica_groups: ReplicaGroups as Groups = "replica_groups",
                } generic;
                /// Starts the collective or slice in the op's region.
                AsyncStart "async_start" (.., 1, 1) generic;
                AsyncDone "async_done" (1, .., 0) generic;
                // Transfers between the host and a device.
                Infeed "infeed" (1, 1.., 0) {
                    infeed_config: Bytes as Config = "infeed_config",
                    layout: Vec<Vec<i64>> as Layouts = "layout",
                } generic;
                Outfeed "outfeed" (1.., 1, 0) { outfeed_config: Bytes as Config = "outfeed_config" } generic;
                // Batch normalization, `map` and `rng`.
                BatchNormGrad "batch_norm_grad" (5, 3, 0) {
                    epsilon: f32 as Float = "epsilon",
                    feature_index: usize as Index = "feature_index",
                } generic;
                BatchNormInference "batch_norm_inference" (5, 1, 0) {
                    epsilon: f32 as Float = "epsilon",
                    feature_index: usize as Index = "feature_index",
                } generic;
                BatchNormTraining "batch_norm_training" (3, 3, 0) {
                    epsilon: f32 as Float = "epsilon",
                    feature_index: usize as Index = "feature_index",
                } generic;
                Map "map" (1.., 1, 1) { dimensions: Dims as DimList = "dimensions" } generic;
                Rng "rng" (3, 1, 0) {
                    distribution: RngDistribution as Word = "rng_distribution",
                } signature ["distribution" distribution];
                // Ops whose shape is an operand, and ops for quantization.
                DynamicBroadcastInDim "dynamic_broadcast_in_dim" (2, 1, 0) {
                    broadcast_dimensions: Dims as DimList = "broadcast_dimensions",
                    known_expanding_dimensions: Dims as OptionalDims = "known_expanding_dimensions",
                    known_nonexpanding_dimensions: Dims as OptionalDims = "known_nonexpanding_dimensions",
                } own;
                DynamicIota "dynamic_iota" (1, 1, 0) {
                    iota_dimension: usize as Index = "iota_dimension",
                } signature ["dim" iota_dimension];
                DynamicPad "dynamic_pad" (5, 1, 0) signature;
                DynamicReshape "dynamic_reshape" (2, 1, 0) signature;
                RealDynamicSlice "real_dynamic_slice" (4, 1, 0) signature;
                SetDimensionSize "set_dimension_size" (2, 1, 0) {
                    dimension: usize as Index = "dimension",
                } signature ["dim" dimension];
                UniformDequantize "uniform_dequantize" (1, 1, 0) signature;
                UniformQuantize "uniform_quantize" (1, 1, 0) signature;
                // Ops that are no longer in the specification but may occur in artifacts.
                Einsum "einsum" (2, 1, 0) {
                    einsum_config: String as Text = "einsum_config",
                } signature ["config" einsum_config];
                UnaryEinsum "unary_einsum" (1, 1, 0) {
                    einsum_config: String as Text = "einsum_config",
                } signature ["config" einsum_config];
                TorchIndexSelect "torch_index_select" (2, 1, 0) {
                    batch_dims: usize as IndexOrZero = "batch_dims",
                    dim: usize as Index = "dim",
                } generic;
                Trace "trace" (.., .., 0) generic;
                /// Terminator of every region and every function.
                Return "return" (.., 0, 0) own;
            }
            own {
                Gather "gather" (2, 1, 0) {
                    dimensions: Box<GatherDimensions>,
                    slice_sizes: Vec<i64>,
                    indices_are_sorted: bool,
                };
                /// The operands are the inputs, then the scatter indices, then the updates.
                Scatter "scatter" (3.., 1.., 1) {
                    dimensions: Box<ScatterDimensions>,
                    indices_are_sorted: bool,
                    unique_indices: bool,
                };
                /// `dimension` is normalized to the range `0..rank`, even if the program contains a negative index.
                Sort "sort" (1.., 1.., 1) { dimension: usize, is_stable: bool };
                DotGeneral "dot_general" (2, 1, 0) {
                    dimensions: DotDimensions,
                    /// Precision of the left and of the right operand.
                    precision: [Precision; 2],
                };
                Convolution "convolution" (2, 1, 0) {
                    dimensions: Box<ConvDimensions>,
                    window: Box<Window>,
                    feature_group_count: i64,
                    batch_group_count: i64,
                    /// Precision of the left and of the right operand.
                    precision: [Precision; 2],
                };
                /// The first half of the operands are the inputs, and the second half are the initial values.
                ReduceWindow "reduce_window" (2.., 1.., 1) { window: Box<Window> };
                SelectAndScatter "select_and_scatter" (3, 1, 2) { window: Box<Window> };
                /// The decomposition is a function that computes the same results from the same operands.
                Composite "composite" (.., .., ..) {
                    name: String,
                    decomposition: String,
                    composite_attributes: Attributes,
                };
                /// If `has_dynamic_root` is set, the last operand holds the root of each preceding operand.
                CollectiveBroadcast "collective_broadcast" (1.., 1.., 0) {
                    channel: ChannelHandle,
                    has_dynamic_root: bool,
                    replica_groups: ReplicaGroups,
                };
                /// The last operand is a token.
                Send "send" (1.., 1, 0) {
                    channel: ChannelHandle,
                    is_host_transfer: bool,
                    source_target_pairs: Vec<(i64, i64)>,
                };
                /// The last result is a token.
                Recv "recv" (1, 1.., 0) {
                    channel: ChannelHandle,
                    is_host_transfer: bool,
                    source_target_pairs: Vec<(i64, i64)>,
                };
                /// The third operand holds the slice sizes.
                DynamicGather "dynamic_gather" (3, 1, 0) {
                    dimensions: Box<GatherDimensions>,
                    indices_are_sorted: bool,
                };
                /// The third operand holds the padding. `window.padding` is empty.
                DynamicConv "dynamic_conv" (3, 1, 0) {
                    dimensions: Box<ConvDimensions>,
                    window: Box<Window>,
                    feature_group_count: i64,
                    batch_group_count: i64,
                    /// Precision of the left and of the right operand.
                    precision: [Precision; 2],
                };
                CustomCall "custom_call" (.., .., ..) {
                    call_target_name: String,
                    has_side_effect: bool,
                    backend_config: Attribute,
                    api_version: i64,
                };
            }
        }
    };
}

/// Calls a macro with the elementwise ops. Each row has the variant, the name, and the allowed element types of the
/// operands as a set of `verify::elements`.
macro_rules! elementwise_table {
    ($callback:ident) => {
        $callback! {
            /// Elementwise ops with one operand. The result has the operand's shape.
            Unary {
                Abs "abs" NUMBERS;
                Cbrt "cbrt" INEXACT;
                Ceil "ceil" FLOATS;
                CountLeadingZeros "count_leading_zeros" INTEGERS;
                Cosine "cosine" INEXACT;
                Exp2 "exp2" INEXACT;
                Exponential "exponential" INEXACT;
                ExponentialMinusOne "exponential_minus_one" INEXACT;
                Floor "floor" FLOATS;
                Imag "imag" INEXACT;
                IsFinite "is_finite" FLOATS;
                Log "log" INEXACT;
                Log2 "log2" INEXACT;
                LogPlusOne "log_plus_one" INEXACT;
                Logistic "logistic" INEXACT;
                Negate "negate" NUMBERS;
                Not "not" LOGICAL;
                Popcnt "popcnt" INTEGERS;
                Real "real" INEXACT;
                RoundNearestAfz "round_nearest_afz" FLOATS;
                RoundNearestEven "round_nearest_even" FLOATS;
                Rsqrt "rsqrt" INEXACT;
                Sign "sign" NUMBERS;
                Sine "sine" INEXACT;
                Sqrt "sqrt" INEXACT;
                Tan "tan" INEXACT;
                Tanh "tanh" INEXACT;
            }
            /// Elementwise ops with two operands of the same type.
            Binary {
                Add "add" ANY;
                And "and" LOGICAL;
                Atan2 "atan2" INEXACT;
                Complex "complex" FLOATS;
                Divide "divide" NUMBERS;
                Maximum "maximum" ANY;
                Minimum "minimum" ANY;
                Multiply "multiply" ANY;
                Or "or" LOGICAL;
                Power "power" NUMBERS;
                Remainder "remainder" NUMBERS;
                ShiftLeft "shift_left" INTEGERS;
                ShiftRightArithmetic "shift_right_arithmetic" INTEGERS;
                ShiftRightLogical "shift_right_logical" INTEGERS;
                Subtract "subtract" NUMBERS;
                Xor "xor" LOGICAL;
            }
        }
    };
}

/// Calls a macro with the enumerations. The first string is the family, as in `#stablehlo<family NAME>`. Error messages
/// use the second string. If the attribute is absent, the readers use the variant after `or`. Each row has a variant
/// and its `NAME`.
macro_rules! enumeration_table {
    ($callback:ident) => {
        $callback! {
            /// `comparison_direction` of `compare`.
            ComparisonDirection "comparison_direction" "comparison direction" {
                Eq "EQ";
                Ne "NE";
                Ge "GE";
                Gt "GT";
                Le "LE";
                Lt "LT";
            }
            /// `compare_type` of `compare`.
            ComparisonType "comparison_type" "comparison type" or NoType {
                NoType "NOTYPE";
                Float "FLOAT";
                TotalOrder "TOTALORDER";
                Signed "SIGNED";
                Unsigned "UNSIGNED";
                /// Floating-point order in which both zeros are equal, all NaNs are equal, and a NaN is greater than
                /// any number.
                WeakOrder "WEAKORDER";
            }
            /// Precision of one operand, an element of `precision_config`.
            Precision "precision" "precision" or Default {
                Default "DEFAULT";
                High "HIGH";
                Highest "HIGHEST";
            }
            /// `rng_algorithm` of `rng_bit_generator`.
            RngAlgorithm "rng_algorithm" "random number algorithm" {
                Default "DEFAULT";
                ThreeFry "THREE_FRY";
                Philox "PHILOX";
            }
            /// `rng_distribution` of `rng`.
            RngDistribution "rng_distribution" "random number distribution" or Uniform {
                /// Uniform distribution. The first two operands hold the lower bound (inclusive) and the upper bound
                /// (exclusive).
                Uniform "UNIFORM";
                /// Normal distribution. The first two operands hold the mean and the standard deviation.
                Normal "NORMAL";
            }
            /// `fft_type` of `fft`.
            FftType "fft_type" "FFT type" {
                Fft "FFT";
                Ifft "IFFT";
                Rfft "RFFT";
                Irfft "IRFFT";
            }
            /// `transpose_a` of `triangular_solve`.
            TransposeA "transpose" "transpose_a" or NoTranspose {
                NoTranspose "NO_TRANSPOSE";
                Transpose "TRANSPOSE";
                Adjoint "ADJOINT";
            }
        }
    };
}
