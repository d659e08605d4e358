//! The fields of XLA's `hlo.proto` and `xla_data.proto` that this crate reads or writes.
//!
//! Instructions, computations and parts of literals stay encoded until they are used. Otherwise a message of two bytes
//! would expand to the size of its struct. Repeated floats are read as bit patterns, so that NaNs keep their bits.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;

use super::sharding::OpSharding;
use crate::error::{Error, ErrorKind, Result};

/// Decodes a message.
pub(super) fn decode<M: Message + Default>(bytes: Bytes) -> Result<M> {
    M::decode(bytes).map_err(|error| {
        Error::new(ErrorKind::Encoding, format_args!("the program is not a serialized HLO module: {error}"))
    })
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ModuleWithConfig {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub(super) module: Option<Bytes>,
    #[prost(message, optional, tag = "2")]
    pub(super) config: Option<Config>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Config {
    #[prost(message, optional, tag = "1")]
    pub(super) entry_computation_layout: Option<ProgramShape>,
    #[prost(int64, tag = "4")]
    pub(super) replica_count: i64,
    #[prost(int64, tag = "5")]
    pub(super) num_partitions: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Module {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    /// Written for XLA only. The reader finds the computation by its id.
    #[prost(string, tag = "2")]
    pub(super) entry_computation_name: String,
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub(super) computations: Vec<Bytes>,
    /// Written for XLA only. The reader takes the types from the instructions.
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub(super) program_shape: Option<Bytes>,
    #[prost(int64, tag = "6")]
    pub(super) entry_computation_id: i64,
    #[prost(message, optional, tag = "8")]
    pub(super) input_output_alias: Option<InputOutputAlias>,
    #[prost(message, optional, tag = "18")]
    pub(super) buffer_donor: Option<BufferDonor>,
    #[prost(message, optional, tag = "19")]
    pub(super) frontend_attributes: Option<FrontendAttributes>,
}

/// A computation whose instructions are still encoded.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Computation {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(super) instructions: Vec<Bytes>,
    /// Written for XLA only. The reader takes the types from the instructions.
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub(super) program_shape: Option<Bytes>,
    #[prost(int64, tag = "5")]
    pub(super) id: i64,
    #[prost(int64, tag = "6")]
    pub(super) root_id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InputOutputAlias {
    #[prost(message, repeated, tag = "1")]
    pub(super) entries: Vec<AliasEntry>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AliasEntry {
    #[prost(int64, repeated, tag = "1")]
    pub(super) output_shape_index: Vec<i64>,
    #[prost(int64, tag = "2")]
    pub(super) parameter_number: i64,
    #[prost(int64, repeated, tag = "3")]
    pub(super) parameter_shape_index: Vec<i64>,
    /// 1 if the memory may be shared, 2 if it must be shared.
    #[prost(int32, tag = "4")]
    pub(super) kind: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BufferDonor {
    #[prost(message, repeated, tag = "1")]
    pub(super) entries: Vec<DonorEntry>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DonorEntry {
    #[prost(int64, tag = "1")]
    pub(super) parameter_number: i64,
    #[prost(int64, repeated, tag = "2")]
    pub(super) parameter_shape_index: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProgramShape {
    #[prost(message, repeated, tag = "1")]
    pub(super) parameters: Vec<Shape>,
    #[prost(message, optional, tag = "2")]
    pub(super) result: Option<Shape>,
    #[prost(string, repeated, tag = "3")]
    pub(super) parameter_names: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Shape {
    #[prost(int32, tag = "2")]
    pub(super) element_type: i32,
    #[prost(int64, repeated, tag = "3")]
    pub(super) dimensions: Vec<i64>,
    #[prost(message, repeated, tag = "4")]
    pub(super) tuple_shapes: Vec<Shape>,
    #[prost(message, optional, tag = "5")]
    pub(super) layout: Option<Layout>,
    #[prost(bool, repeated, tag = "6")]
    pub(super) is_dynamic_dimension: Vec<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Layout {
    #[prost(int64, repeated, tag = "1")]
    pub(super) minor_to_major: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OutputOperandAliasing {
    #[prost(int64, repeated, tag = "1")]
    pub(super) output_shape_index: Vec<i64>,
    #[prost(int64, tag = "2")]
    pub(super) operand_index: i64,
    #[prost(int64, repeated, tag = "3")]
    pub(super) operand_shape_index: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Instruction {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) opcode: String,
    #[prost(message, optional, tag = "3")]
    pub(super) shape: Option<Shape>,
    #[prost(message, optional, tag = "7")]
    pub(super) metadata: Option<Metadata>,
    #[prost(message, optional, tag = "8")]
    pub(super) literal: Option<Literal>,
    #[prost(int64, tag = "9")]
    pub(super) parameter_number: i64,
    #[prost(int64, tag = "13")]
    pub(super) tuple_index: i64,
    #[prost(int64, repeated, tag = "14")]
    pub(super) dimensions: Vec<i64>,
    #[prost(message, optional, tag = "15")]
    pub(super) window: Option<Window>,
    #[prost(message, optional, tag = "16")]
    pub(super) convolution_dimension_numbers: Option<ConvolutionDimensionNumbers>,
    #[prost(message, repeated, tag = "17")]
    pub(super) slice_dimensions: Vec<SliceDimensions>,
    #[prost(int32, tag = "18")]
    pub(super) exponent_bits: i32,
    #[prost(int32, tag = "19")]
    pub(super) mantissa_bits: i32,
    #[prost(int64, repeated, tag = "20")]
    pub(super) dynamic_slice_sizes: Vec<i64>,
    #[prost(message, optional, tag = "21")]
    pub(super) padding_config: Option<PaddingConfig>,
    #[prost(int32, tag = "23")]
    pub(super) distribution: i32,
    #[prost(float, tag = "24")]
    pub(super) epsilon: f32,
    #[prost(int64, tag = "25")]
    pub(super) feature_index: i64,
    #[prost(int64, tag = "26")]
    pub(super) channel_id: i64,
    #[prost(string, tag = "28")]
    pub(super) custom_call_target: String,
    #[prost(message, optional, tag = "30")]
    pub(super) dot_dimension_numbers: Option<DotDimensionNumbers>,
    #[prost(int32, tag = "31")]
    pub(super) fft_type: i32,
    #[prost(int64, repeated, tag = "32")]
    pub(super) fft_length: Vec<i64>,
    #[prost(message, optional, tag = "33")]
    pub(super) gather_dimension_numbers: Option<IndexDimensionNumbers>,
    #[prost(int64, repeated, tag = "34")]
    pub(super) gather_slice_sizes: Vec<i64>,
    #[prost(int64, tag = "35")]
    pub(super) id: i64,
    #[prost(int64, repeated, tag = "36")]
    pub(super) operand_ids: Vec<i64>,
    #[prost(int64, repeated, tag = "38")]
    pub(super) called_computation_ids: Vec<i64>,
    #[prost(message, optional, tag = "40")]
    pub(super) sharding: Option<OpSharding>,
    #[prost(bytes = "bytes", tag = "43")]
    pub(super) backend_config: Bytes,
    #[prost(message, optional, tag = "48")]
    pub(super) scatter_dimension_numbers: Option<IndexDimensionNumbers>,
    #[prost(message, repeated, tag = "49")]
    pub(super) replica_groups: Vec<ReplicaGroup>,
    #[prost(int64, tag = "50")]
    pub(super) feature_group_count: i64,
    #[prost(message, optional, tag = "51")]
    pub(super) precision_config: Option<PrecisionConfig>,
    #[prost(message, repeated, tag = "52")]
    pub(super) source_target_pairs: Vec<SourceTarget>,
    #[prost(bool, tag = "56")]
    pub(super) constrain_layout: bool,
    #[prost(message, repeated, tag = "57")]
    pub(super) operand_shapes_with_layout: Vec<Shape>,
    #[prost(int64, tag = "58")]
    pub(super) batch_group_count: i64,
    #[prost(message, optional, tag = "59")]
    pub(super) triangular_solve_options: Option<TriangularSolveOptions>,
    #[prost(bool, tag = "60")]
    pub(super) is_stable: bool,
    #[prost(message, optional, tag = "62")]
    pub(super) cholesky_options: Option<CholeskyOptions>,
    #[prost(string, tag = "63")]
    pub(super) comparison_direction: String,
    #[prost(bool, tag = "65")]
    pub(super) custom_call_has_side_effect: bool,
    #[prost(bool, tag = "67")]
    pub(super) indices_are_sorted: bool,
    #[prost(message, optional, tag = "68")]
    pub(super) frontend_attributes: Option<FrontendAttributes>,
    #[prost(bool, tag = "69")]
    pub(super) unique_indices: bool,
    #[prost(int32, tag = "70")]
    pub(super) rng_algorithm: i32,
    #[prost(bool, tag = "71")]
    pub(super) use_global_device_ids: bool,
    #[prost(string, tag = "72")]
    pub(super) comparison_type: String,
    /// Newer producers set this field instead of `comparison_type`.
    #[prost(string, tag = "102")]
    pub(super) comparison_order: String,
    #[prost(message, repeated, tag = "74")]
    pub(super) output_operand_aliasing: Vec<OutputOperandAliasing>,
    #[prost(int32, tag = "77")]
    pub(super) custom_call_api_version: i32,
    #[prost(int64, tag = "81")]
    pub(super) k: i64,
    #[prost(bool, tag = "85")]
    pub(super) largest: bool,
    #[prost(message, optional, tag = "87")]
    pub(super) collective_device_list: Option<CollectiveDeviceList>,
    /// Newer producers use this field instead of `collective_device_list`.
    #[prost(message, optional, tag = "92")]
    pub(super) iota_collective_device_list: Option<IotaReplicaGroups>,
    #[prost(bytes = "bytes", optional, tag = "93")]
    pub(super) mesh_axes_replica_groups: Option<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Metadata {
    #[prost(string, tag = "2")]
    pub(super) op_name: String,
    #[prost(string, tag = "3")]
    pub(super) source_file: String,
    #[prost(int32, tag = "4")]
    pub(super) source_line: i32,
    #[prost(int32, tag = "18")]
    pub(super) source_column: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FrontendAttributes {
    #[prost(btree_map = "string, string", tag = "1")]
    pub(super) map: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SliceDimensions {
    #[prost(int64, tag = "1")]
    pub(super) start: i64,
    #[prost(int64, tag = "2")]
    pub(super) limit: i64,
    #[prost(int64, tag = "3")]
    pub(super) stride: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PaddingConfig {
    #[prost(message, repeated, tag = "1")]
    pub(super) dimensions: Vec<PaddingDimension>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PaddingDimension {
    #[prost(int64, tag = "1")]
    pub(super) low: i64,
    #[prost(int64, tag = "2")]
    pub(super) high: i64,
    #[prost(int64, tag = "3")]
    pub(super) interior: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Window {
    #[prost(message, repeated, tag = "1")]
    pub(super) dimensions: Vec<WindowDimension>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WindowDimension {
    #[prost(int64, tag = "1")]
    pub(super) size: i64,
    #[prost(int64, tag = "2")]
    pub(super) stride: i64,
    #[prost(int64, tag = "3")]
    pub(super) padding_low: i64,
    #[prost(int64, tag = "4")]
    pub(super) padding_high: i64,
    #[prost(int64, tag = "5")]
    pub(super) window_dilation: i64,
    #[prost(int64, tag = "6")]
    pub(super) base_dilation: i64,
    #[prost(bool, tag = "7")]
    pub(super) window_reversal: bool,
}

/// Dimension numbers of gather and scatter. The two messages have the same field numbers.
#[derive(Clone, PartialEq, Message)]
pub(super) struct IndexDimensionNumbers {
    /// Named `update_window_dims` for scatter.
    #[prost(int64, repeated, tag = "1")]
    pub(super) offset_dims: Vec<i64>,
    /// Named `inserted_window_dims` for scatter.
    #[prost(int64, repeated, tag = "2")]
    pub(super) collapsed_slice_dims: Vec<i64>,
    /// Named `scatter_dims_to_operand_dims` for scatter.
    #[prost(int64, repeated, tag = "3")]
    pub(super) start_index_map: Vec<i64>,
    #[prost(int64, tag = "4")]
    pub(super) index_vector_dim: i64,
    /// Named `input_batching_dims` for scatter.
    #[prost(int64, repeated, tag = "5")]
    pub(super) operand_batching_dims: Vec<i64>,
    /// Named `scatter_indices_batching_dims` for scatter.
    #[prost(int64, repeated, tag = "6")]
    pub(super) indices_batching_dims: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ConvolutionDimensionNumbers {
    #[prost(int64, tag = "3")]
    pub(super) kernel_input_feature: i64,
    #[prost(int64, tag = "4")]
    pub(super) kernel_output_feature: i64,
    #[prost(int64, repeated, tag = "6")]
    pub(super) kernel_spatial: Vec<i64>,
    #[prost(int64, tag = "7")]
    pub(super) input_batch: i64,
    #[prost(int64, tag = "8")]
    pub(super) input_feature: i64,
    #[prost(int64, tag = "9")]
    pub(super) output_batch: i64,
    #[prost(int64, tag = "10")]
    pub(super) output_feature: i64,
    #[prost(int64, repeated, tag = "11")]
    pub(super) input_spatial: Vec<i64>,
    #[prost(int64, repeated, tag = "12")]
    pub(super) output_spatial: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DotDimensionNumbers {
    #[prost(int64, repeated, tag = "1")]
    pub(super) lhs_contracting: Vec<i64>,
    #[prost(int64, repeated, tag = "2")]
    pub(super) rhs_contracting: Vec<i64>,
    #[prost(int64, repeated, tag = "3")]
    pub(super) lhs_batch: Vec<i64>,
    #[prost(int64, repeated, tag = "4")]
    pub(super) rhs_batch: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PrecisionConfig {
    #[prost(int32, repeated, tag = "1")]
    pub(super) operand_precision: Vec<i32>,
    #[prost(int32, tag = "2")]
    pub(super) algorithm: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TriangularSolveOptions {
    #[prost(bool, tag = "1")]
    pub(super) left_side: bool,
    #[prost(bool, tag = "2")]
    pub(super) lower: bool,
    #[prost(bool, tag = "3")]
    pub(super) unit_diagonal: bool,
    #[prost(int32, tag = "4")]
    pub(super) transpose_a: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CholeskyOptions {
    #[prost(bool, tag = "1")]
    pub(super) lower: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ReplicaGroup {
    #[prost(int64, repeated, tag = "1")]
    pub(super) replica_ids: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SourceTarget {
    #[prost(int64, tag = "1")]
    pub(super) source: i64,
    #[prost(int64, tag = "2")]
    pub(super) target: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CollectiveDeviceList {
    #[prost(message, repeated, tag = "1")]
    pub(super) replica_groups: Vec<ReplicaGroup>,
    #[prost(message, optional, tag = "2")]
    pub(super) iota: Option<IotaReplicaGroups>,
}

/// Groups of the devices of a mesh along some of its axes.
#[derive(Clone, PartialEq, Message)]
pub(super) struct MeshAxesReplicaGroups {
    #[prost(message, optional, tag = "1")]
    pub(super) mesh: Option<Mesh>,
    #[prost(message, repeated, tag = "2")]
    pub(super) axes: Vec<AxisRef>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Mesh {
    #[prost(message, repeated, tag = "1")]
    pub(super) axes: Vec<MeshAxis>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MeshAxis {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(int64, tag = "2")]
    pub(super) size: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AxisRef {
    #[prost(int64, tag = "1")]
    pub(super) index: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct IotaReplicaGroups {
    #[prost(int64, tag = "1")]
    pub(super) groups: i64,
    #[prost(int64, tag = "2")]
    pub(super) devices_per_group: i64,
    #[prost(int64, repeated, tag = "3")]
    pub(super) reshape_dims: Vec<i64>,
    #[prost(int32, repeated, tag = "4")]
    pub(super) transpose_perm: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Literal {
    #[prost(message, optional, tag = "1")]
    pub(super) shape: Option<Shape>,
    #[prost(bool, repeated, tag = "2")]
    pub(super) preds: Vec<bool>,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) u8s: Bytes,
    #[prost(int32, repeated, tag = "4")]
    pub(super) s32s: Vec<i32>,
    #[prost(int64, repeated, tag = "5")]
    pub(super) s64s: Vec<i64>,
    #[prost(uint32, repeated, tag = "6")]
    pub(super) u32s: Vec<u32>,
    #[prost(uint64, repeated, tag = "7")]
    pub(super) u64s: Vec<u64>,
    #[prost(fixed32, repeated, tag = "8")]
    pub(super) f32s: Vec<u32>,
    #[prost(fixed64, repeated, tag = "9")]
    pub(super) f64s: Vec<u64>,
    #[prost(bytes = "bytes", repeated, tag = "10")]
    pub(super) tuple_literals: Vec<Bytes>,
    #[prost(bytes = "bytes", tag = "11")]
    pub(super) f16s: Bytes,
    #[prost(fixed32, repeated, tag = "12")]
    pub(super) c64s: Vec<u32>,
    #[prost(bytes = "bytes", tag = "13")]
    pub(super) bf16s: Bytes,
    #[prost(bytes = "bytes", tag = "15")]
    pub(super) s8s: Bytes,
    #[prost(bytes = "bytes", tag = "16")]
    pub(super) u16s: Bytes,
    #[prost(bytes = "bytes", tag = "17")]
    pub(super) s16s: Bytes,
    #[prost(fixed64, repeated, tag = "18")]
    pub(super) c128s: Vec<u64>,
    #[prost(bytes = "bytes", tag = "19")]
    pub(super) f8e5m2s: Bytes,
    #[prost(bytes = "bytes", tag = "20")]
    pub(super) f8e4m3fns: Bytes,
    #[prost(bytes = "bytes", tag = "21")]
    pub(super) s4s: Bytes,
    #[prost(bytes = "bytes", tag = "22")]
    pub(super) u4s: Bytes,
    #[prost(bytes = "bytes", tag = "23")]
    pub(super) f8e4m3b11fnuzs: Bytes,
    #[prost(bytes = "bytes", tag = "24")]
    pub(super) f8e5m2fnuzs: Bytes,
    #[prost(bytes = "bytes", tag = "25")]
    pub(super) f8e4m3fnuzs: Bytes,
    #[prost(bytes = "bytes", tag = "26")]
    pub(super) s2s: Bytes,
    #[prost(bytes = "bytes", tag = "27")]
    pub(super) u2s: Bytes,
    #[prost(bytes = "bytes", tag = "28")]
    pub(super) f8e4m3s: Bytes,
    #[prost(bytes = "bytes", tag = "29")]
    pub(super) f8e3m4s: Bytes,
    #[prost(bytes = "bytes", tag = "32")]
    pub(super) f4e2m1fns: Bytes,
    #[prost(bytes = "bytes", tag = "33")]
    pub(super) f8e8m0fnus: Bytes,
}
