//! Converts an [`OpKind`] to the opcode and the fields of an instruction. This is the inverse of the module
//! `instruction`.

use std::collections::BTreeMap;

use super::proto::{self, Instruction};
use crate::attributes::Named;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;

/// API version of custom calls that use the typed FFI. Their configuration is the text of a dictionary.
const TYPED_FFI: i64 = 4;

pub(super) fn long(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn longs(values: &[usize]) -> Vec<i64> {
    values.iter().map(|&value| long(value)).collect()
}

/// Creates an instruction with this opcode.
pub(super) fn opcode(name: &str) -> Instruction {
    Instruction { opcode: name.to_owned(), ..Instruction::default() }
}

/// Converts an op to an instruction without a shape, operands and computations. Returns `Ok(None)` if HLO has no
/// instruction for the op, or if the op needs more than one instruction.
pub(super) fn instruction(op: &Op) -> Result<Option<Instruction>> {
    let named = |name: &str| opcode(&name.replace('_', "-"));
    Ok(Some(match &op.kind {
        OpKind::Unary(unary) => named(unary.name()),
        OpKind::Binary(binary) => named(binary.name()),
        OpKind::Iota { iota_dimension } => Instruction { dimensions: vec![long(*iota_dimension)], ..opcode("iota") },
        OpKind::Compare { direction, compare_type } => compare(*direction, *compare_type),
        OpKind::PartitionId
        | OpKind::ReplicaId
        | OpKind::Fma
        | OpKind::Convert
        | OpKind::BitcastConvert
        | OpKind::Reshape
        | OpKind::DynamicUpdateSlice
        | OpKind::AfterAll => named(op.kind.base_name()),
        OpKind::CreateToken => opcode("after-all"),
        OpKind::ReducePrecision { exponent_bits, mantissa_bits } => Instruction {
            exponent_bits: i32::try_from(*exponent_bits).unwrap_or(i32::MAX),
            mantissa_bits: i32::try_from(*mantissa_bits).unwrap_or(i32::MAX),
            ..opcode("reduce-precision")
        },
        OpKind::Transpose { permutation } => Instruction { dimensions: longs(permutation), ..opcode("transpose") },
        OpKind::Slice { start_indices, limit_indices, strides } => {
            let bounds = start_indices.iter().zip(limit_indices).zip(strides);
            let bounds = bounds.map(|((&start, &limit), &stride)| proto::SliceDimensions { start, limit, stride });
            Instruction { slice_dimensions: bounds.collect(), ..opcode("slice") }
        }
        OpKind::DynamicSlice { slice_sizes } => {
            Instruction { dynamic_slice_sizes: slice_sizes.clone(), ..opcode("dynamic-slice") }
        }
        OpKind::Concatenate { dimension } | OpKind::GetDimensionSize { dimension } => {
            Instruction { dimensions: vec![long(*dimension)], ..named(op.kind.base_name()) }
        }
        OpKind::Pad { edge_padding_low, edge_padding_high, interior_padding } => {
            let sides = edge_padding_low.iter().zip(edge_padding_high).zip(interior_padding);
            let sides = sides.map(|((&low, &high), &interior)| proto::PaddingDimension { low, high, interior });
            Instruction { padding_config: Some(proto::PaddingConfig { dimensions: sides.collect() }), ..opcode("pad") }
        }
        OpKind::Reverse { dimensions } | OpKind::Reduce { dimensions } | OpKind::Map { dimensions } => {
            Instruction { dimensions: longs(dimensions), ..named(op.kind.base_name()) }
        }
        OpKind::Gather { dimensions, slice_sizes, indices_are_sorted } => Instruction {
            gather_dimension_numbers: Some(proto::IndexDimensionNumbers {
                offset_dims: longs(&dimensions.offset_dims),
                collapsed_slice_dims: longs(&dimensions.collapsed_slice_dims),
                start_index_map: longs(&dimensions.start_index_map),
                index_vector_dim: long(dimensions.index_vector_dim),
                operand_batching_dims: longs(&dimensions.operand_batching_dims),
                indices_batching_dims: longs(&dimensions.start_indices_batching_dims),
            }),
            gather_slice_sizes: slice_sizes.clone(),
            indices_are_sorted: *indices_are_sorted,
            ..opcode("gather")
        },
        OpKind::Scatter { dimensions, indices_are_sorted, unique_indices } => Instruction {
            scatter_dimension_numbers: Some(proto::IndexDimensionNumbers {
                offset_dims: longs(&dimensions.update_window_dims),
                collapsed_slice_dims: longs(&dimensions.inserted_window_dims),
                start_index_map: longs(&dimensions.scatter_dims_to_operand_dims),
                index_vector_dim: long(dimensions.index_vector_dim),
                operand_batching_dims: longs(&dimensions.input_batching_dims),
                indices_batching_dims: longs(&dimensions.scatter_indices_batching_dims),
            }),
            indices_are_sorted: *indices_are_sorted,
            unique_indices: *unique_indices,
            ..opcode("scatter")
        },
        OpKind::Sort { dimension, is_stable } => {
            Instruction { dimensions: vec![long(*dimension)], is_stable: *is_stable, ..opcode("sort") }
        }
        OpKind::ReduceWindow { window } => Instruction { window: Some(windowed(window)), ..opcode("reduce-window") },
        OpKind::SelectAndScatter { window } => {
            Instruction { window: Some(windowed(window)), ..opcode("select-and-scatter") }
        }
        OpKind::Cholesky { lower } => {
            Instruction { cholesky_options: Some(proto::CholeskyOptions { lower: *lower }), ..opcode("cholesky") }
        }
        OpKind::TriangularSolve { left_side, lower, transpose_a, unit_diagonal } => {
            let transpose_a = match transpose_a {
                TransposeA::NoTranspose => 1,
                TransposeA::Transpose => 2,
                TransposeA::Adjoint => 3,
            };
            let (left_side, lower, unit_diagonal) = (*left_side, *lower, *unit_diagonal);
            let options = proto::TriangularSolveOptions { left_side, lower, unit_diagonal, transpose_a };
            Instruction { triangular_solve_options: Some(options), ..opcode("triangular-solve") }
        }
        OpKind::Fft { fft_length, fft_type } => {
            let fft_type = match fft_type {
                FftType::Fft => 0,
                FftType::Ifft => 1,
                FftType::Rfft => 2,
                FftType::Irfft => 3,
            };
            Instruction { fft_type, fft_length: fft_length.clone(), ..opcode("fft") }
        }
        OpKind::RngBitGenerator { algorithm } => {
            let rng_algorithm = match algorithm {
                RngAlgorithm::Default => 0,
                RngAlgorithm::ThreeFry => 1,
                RngAlgorithm::Philox => 2,
            };
            Instruction { rng_algorithm, ..opcode("rng-bit-generator") }
        }
        OpKind::Rng { distribution } => {
            let distribution = if *distribution == RngDistribution::Uniform { 1 } else { 2 };
            Instruction { distribution, ..opcode("rng") }
        }
        OpKind::BatchNormTraining { epsilon, feature_index }
        | OpKind::BatchNormInference { epsilon, feature_index }
        | OpKind::BatchNormGrad { epsilon, feature_index } => {
            Instruction { epsilon: *epsilon, feature_index: long(*feature_index), ..named(op.kind.base_name()) }
        }
        OpKind::DotGeneral { dimensions, precision } => {
            if op.attributes.iter().any(|(name, _)| name == "algorithm") {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "attribute `algorithm` cannot be written as HLO; send the program as StableHLO",
                ));
            }
            Instruction {
                dot_dimension_numbers: Some(proto::DotDimensionNumbers {
                    lhs_contracting: longs(&dimensions.lhs_contracting),
                    rhs_contracting: longs(&dimensions.rhs_contracting),
                    lhs_batch: longs(&dimensions.lhs_batching),
                    rhs_batch: longs(&dimensions.rhs_batching),
                }),
                precision_config: Some(precisions(precision)),
                ..opcode("dot")
            }
        }
        OpKind::AllReduce { .. }
        | OpKind::AllGather { .. }
        | OpKind::AllToAll { .. }
        | OpKind::ReduceScatter { .. }
        | OpKind::CollectivePermute { .. }
        | OpKind::CollectiveBroadcast { .. } => collective(&op.kind)?,
        OpKind::CustomCall { .. } => custom_call(op)?,
        _ => return Ok(None),
    }))
}

fn compare(direction: ComparisonDirection, compare_type: ComparisonType) -> Instruction {
    let mut compare = opcode("compare");
    compare.comparison_direction = direction.word().to_owned();
    match compare_type {
        ComparisonType::TotalOrder => compare.comparison_type = "TOTALORDER".to_owned(),
        ComparisonType::WeakOrder => compare.comparison_order = "WEAK".to_owned(),
        // In HLO, the element type determines the other comparison types, so do not write them.
        _ => {}
    }
    compare
}

fn precisions(precision: &[Precision]) -> proto::PrecisionConfig {
    let number = |precision: &Precision| match precision {
        Precision::Default => 0,
        Precision::High => 1,
        Precision::Highest => 2,
    };
    proto::PrecisionConfig { operand_precision: precision.iter().map(number).collect(), algorithm: 0 }
}

fn windowed(window: &Window) -> proto::Window {
    let at = |list: &[i64], d: usize| list.get(d).copied().unwrap_or(1);
    let dimension = |d: usize| {
        let (padding_low, padding_high) = window.padding.get(d).copied().unwrap_or_default();
        proto::WindowDimension {
            size: at(&window.dimensions, d),
            stride: at(&window.strides, d),
            padding_low,
            padding_high,
            window_dilation: at(&window.window_dilations, d),
            base_dilation: at(&window.base_dilations, d),
            window_reversal: window.reversal.get(d).copied().unwrap_or(false),
        }
    };
    proto::Window { dimensions: (0..window.dimensions.len()).map(dimension).collect() }
}

/// Converts a convolution to an instruction. `kernel` is the type of the convolution's kernel. Returns `None` for other
/// ops.
pub(super) fn convolution(kind: &OpKind, kernel: &TensorType) -> Option<Instruction> {
    let OpKind::Convolution { dimensions: d, window, feature_group_count, batch_group_count, precision } = kind else {
        return None;
    };
    let sizes = d.kernel_spatial.iter().map(|&at| kernel.shape.get(at).copied().unwrap_or(1)).collect();
    let window = Window { dimensions: sizes, ..(**window).clone() };
    Some(Instruction {
        window: Some(windowed(&window)),
        convolution_dimension_numbers: Some(proto::ConvolutionDimensionNumbers {
            kernel_input_feature: long(d.kernel_input_feature),
            kernel_output_feature: long(d.kernel_output_feature),
            kernel_spatial: longs(&d.kernel_spatial),
            input_batch: long(d.input_batch),
            input_feature: long(d.input_feature),
            output_batch: long(d.output_batch),
            output_feature: long(d.output_feature),
            input_spatial: longs(&d.input_spatial),
            output_spatial: longs(&d.output_spatial),
        }),
        feature_group_count: *feature_group_count,
        batch_group_count: *batch_group_count,
        precision_config: Some(precisions(precision)),
        ..opcode("convolution")
    })
}

fn collective(kind: &OpKind) -> Result<Instruction> {
    let mut i = opcode(&kind.base_name().replace('_', "-"));
    i.channel_id = kind.channel().unwrap_or_default().id;
    if let Some(groups) = kind.replica_groups() {
        let Some(rows) = groups.rows() else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "replica groups along the axes of a mesh cannot be written as HLO; list the ids",
            ));
        };
        i.replica_groups = rows.into_iter().map(|replica_ids| proto::ReplicaGroup { replica_ids }).collect();
    }
    match kind {
        OpKind::AllReduce { use_global_device_ids, .. } => i.use_global_device_ids = *use_global_device_ids,
        OpKind::AllGather { all_gather_dim: dimension, use_global_device_ids, .. }
        | OpKind::ReduceScatter { scatter_dimension: dimension, use_global_device_ids, .. } => {
            i.dimensions = vec![long(*dimension)];
            i.use_global_device_ids = *use_global_device_ids;
        }
        OpKind::AllToAll { split_dimension, concat_dimension, .. } => {
            if split_dimension != concat_dimension {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "HLO supports this op only if `split_dimension` and `concat_dimension` are equal",
                ));
            }
            i.dimensions = vec![long(*split_dimension)];
        }
        OpKind::CollectivePermute { source_target_pairs, .. } => {
            let pair = |&(source, target): &(i64, i64)| proto::SourceTarget { source, target };
            i.source_target_pairs = source_target_pairs.iter().map(pair).collect();
        }
        OpKind::CollectiveBroadcast { has_dynamic_root: true, .. } => {
            return Err(Error::new(ErrorKind::Unsupported, "HLO does not support a dynamic root"));
        }
        _ => {}
    }
    Ok(i)
}

fn custom_call(op: &Op) -> Result<Instruction> {
    let OpKind::CustomCall { call_target_name, has_side_effect, backend_config, api_version } = &op.kind else {
        return Ok(Instruction::default());
    };
    // The HLO reader converts these opcodes to custom calls, so convert them back.
    if let Some(name) = call_target_name.strip_prefix("mhlo.")
        && matches!(name, "erf" | "acos" | "acosh" | "asin" | "asinh" | "atanh" | "cosh" | "sinh")
    {
        return Ok(opcode(name));
    }
    let unwritten = ["called_computations", "operand_layouts", "result_layouts", "output_operand_aliases"];
    if let Some((name, _)) = op.attributes.iter().find(|(name, _)| unwritten.contains(&name.as_str())) {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format_args!("attribute `{name}` cannot be written as HLO; send the program as StableHLO"),
        ));
    }
    let backend_config = match backend_config {
        Attribute::String(bytes) => bytes.clone(),
        Attribute::Dictionary(entries) if entries.is_empty() => bytes::Bytes::new(),
        dictionary => crate::print::attribute_text(dictionary).into_bytes().into(),
    };
    Ok(Instruction {
        custom_call_target: call_target_name.clone(),
        custom_call_has_side_effect: *has_side_effect,
        backend_config,
        custom_call_api_version: i32::try_from(*api_version).unwrap_or(if *api_version == TYPED_FFI { 4 } else { 1 }),
        ..opcode("custom-call")
    })
}

/// Returns the string attributes in the dictionary `mhlo.frontend_attributes` of an op or a module. Returns `None` if
/// there is no such dictionary.
pub(super) fn frontend(attributes: &Attributes) -> Option<proto::FrontendAttributes> {
    let named: Vec<(&str, &Attribute)> = attributes.iter().map(|(name, value)| (name.as_str(), value)).collect();
    let Some(Attribute::Dictionary(entries)) = Named(&named).find("mhlo.frontend_attributes") else { return None };
    let entry = |(name, value): &(String, Attribute)| Some((name.clone(), value.as_str()?.to_owned()));
    let map: BTreeMap<String, String> = entries.iter().filter_map(entry).collect();
    Some(proto::FrontendAttributes { map })
}
