//! Converts an instruction's opcode and fields to its [`OpKind`].
//!
//! The module `computation` handles opcodes that only pass on values (parameters, tuples, copies), and opcodes that
//! call computations (`while`, `conditional`, `call`).

use bytes::Bytes;

use super::dimensions::{dim, dimension, dims};
use super::proto::{Instruction, OutputOperandAliasing, Shape};
use super::{collective, shape};
use crate::attributes::int;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;
use crate::ops::fields::value_of;

/// Returns the op's kind, and the attributes for which the kind has no field.
pub(super) fn kind(i: &mut Instruction) -> Result<(OpKind, Attributes)> {
    let mut extra = Attributes::new();
    let kind = match i.opcode.as_str() {
        "iota" => OpKind::Iota { iota_dimension: dimension(i)? },
        "partition-id" => OpKind::PartitionId,
        "replica-id" => OpKind::ReplicaId,
        "compare" => compare(i)?,
        "select" => OpKind::Select,
        "clamp" => OpKind::Clamp,
        "fma" => OpKind::Fma,
        "convert" => OpKind::Convert,
        "bitcast-convert" => OpKind::BitcastConvert,
        "reduce-precision" => OpKind::ReducePrecision {
            exponent_bits: u32::try_from(i.exponent_bits).map_err(|_| negative("exponent_bits"))?,
            mantissa_bits: u32::try_from(i.mantissa_bits).map_err(|_| negative("mantissa_bits"))?,
        },
        "broadcast" => OpKind::BroadcastInDim { broadcast_dimensions: dims(&i.dimensions)? },
        "reshape" => OpKind::Reshape,
        "transpose" => OpKind::Transpose { permutation: dims(&i.dimensions)? },
        "slice" => OpKind::Slice {
            start_indices: i.slice_dimensions.iter().map(|d| d.start).collect(),
            limit_indices: i.slice_dimensions.iter().map(|d| d.limit).collect(),
            strides: i.slice_dimensions.iter().map(|d| d.stride).collect(),
        },
        "dynamic-slice" => OpKind::DynamicSlice { slice_sizes: i.dynamic_slice_sizes.clone() },
        "dynamic-update-slice" => OpKind::DynamicUpdateSlice,
        "concatenate" => OpKind::Concatenate { dimension: dimension(i)? },
        "pad" => {
            let config = i.padding_config.take().unwrap_or_default().dimensions;
            OpKind::Pad {
                edge_padding_low: config.iter().map(|d| d.low).collect(),
                edge_padding_high: config.iter().map(|d| d.high).collect(),
                interior_padding: config.iter().map(|d| d.interior).collect(),
            }
        }
        "reverse" => OpKind::Reverse { dimensions: dims(&i.dimensions)? },
        "get-dimension-size" => OpKind::GetDimensionSize { dimension: dimension(i)? },
        "set-dimension-size" => OpKind::SetDimensionSize { dimension: dimension(i)? },
        "gather" => gather(i)?,
        "scatter" => scatter(i)?,
        "sort" => OpKind::Sort { dimension: dimension(i)?, is_stable: i.is_stable },
        "dot" => dot(i)?,
        "convolution" => convolution(i)?,
        "reduce" => OpKind::Reduce { dimensions: dims(&i.dimensions)? },
        "reduce-window" => OpKind::ReduceWindow { window: window(i, false)?.into() },
        "select-and-scatter" => OpKind::SelectAndScatter { window: window(i, false)?.into() },
        "cholesky" => OpKind::Cholesky { lower: i.cholesky_options.take().unwrap_or_default().lower },
        "triangular-solve" => triangular_solve(i)?,
        "fft" => OpKind::Fft { fft_type: fft_type(i.fft_type)?, fft_length: i.fft_length.clone() },
        "rng-bit-generator" => OpKind::RngBitGenerator { algorithm: rng_algorithm(i.rng_algorithm)? },
        "custom-call" => custom_call(i, &mut extra)?,
        "opt-barrier" | "optimization-barrier" => OpKind::OptimizationBarrier,
        "after-all" if i.operand_ids.is_empty() => OpKind::CreateToken,
        "after-all" => OpKind::AfterAll,
        "batch-norm-training" => OpKind::BatchNormTraining { epsilon: i.epsilon, feature_index: dim(i.feature_index)? },
        "batch-norm-inference" => {
            OpKind::BatchNormInference { epsilon: i.epsilon, feature_index: dim(i.feature_index)? }
        }
        "batch-norm-grad" => OpKind::BatchNormGrad { epsilon: i.epsilon, feature_index: dim(i.feature_index)? },
        "map" => OpKind::Map { dimensions: dims(&i.dimensions)? },
        "rng" => OpKind::Rng { distribution: distribution(i.distribution)? },
        "all-reduce"
        | "reduce-scatter"
        | "all-gather"
        | "all-to-all"
        | "collective-permute"
        | "collective-broadcast" => collective::kind(i)?,
        // StableHLO has no op for these opcodes. By convention, they become custom calls of targets that start with
        // `mhlo.`.
        "topk" => {
            let fields = vec![("k".to_owned(), int(i.k)), ("largest".to_owned(), Attribute::Bool(i.largest))];
            extra.push(("mhlo.attributes".to_owned(), Attribute::Dictionary(fields)));
            target("mhlo.topk")
        }
        "erf" => target("mhlo.erf"),
        "acos" | "acosh" | "asin" | "asinh" | "atanh" | "cosh" | "sinh" => target(&format!("mhlo.{}", i.opcode)),
        opcode => {
            let name = opcode.replace('-', "_");
            match (Unary::from_name(&name), Binary::from_name(&name)) {
                (Some(unary), _) => OpKind::Unary(unary),
                (_, Some(binary)) => OpKind::Binary(binary),
                _ => {
                    return Err(Error::new(
                        ErrorKind::Unsupported,
                        "the reader does not support this opcode; send the program as StableHLO",
                    ));
                }
            }
        }
    };
    Ok((kind, extra))
}

fn target(name: &str) -> OpKind {
    OpKind::CustomCall {
        call_target_name: name.to_owned(),
        has_side_effect: false,
        backend_config: Attribute::String(Bytes::new()),
        api_version: 1,
    }
}

fn negative(field: &str) -> Error {
    Error::new(ErrorKind::Encoding, format_args!("{field} must not be negative"))
}

fn compare(i: &Instruction) -> Result<OpKind> {
    use ComparisonType as Kind;
    let direction = value_of(&i.comparison_direction)?;
    let compare_type = match (i.comparison_type.as_str(), i.comparison_order.as_str()) {
        ("", "" | "PARTIAL") => Kind::NoType,
        ("", "TOTAL") => Kind::TotalOrder,
        ("", "WEAK") => Kind::WeakOrder,
        ("", other) => return Err(Error::new(ErrorKind::Encoding, format_args!("unknown comparison order `{other}`"))),
        (ty, _) => comparison_type(ty)?,
    };
    Ok(OpKind::Compare { direction, compare_type })
}

fn comparison_type(ty: &str) -> Result<ComparisonType> {
    use ComparisonType as Kind;
    Ok(match ty {
        "FLOAT" => Kind::Float,
        "TOTALORDER" => Kind::TotalOrder,
        "SIGNED" => Kind::Signed,
        "UNSIGNED" => Kind::Unsigned,
        other => return Err(Error::new(ErrorKind::Encoding, format_args!("unknown comparison type `{other}`"))),
    })
}

fn gather(i: &mut Instruction) -> Result<OpKind> {
    let d = i.gather_dimension_numbers.take().unwrap_or_default();
    let dimensions = GatherDimensions {
        offset_dims: dims(&d.offset_dims)?,
        collapsed_slice_dims: dims(&d.collapsed_slice_dims)?,
        operand_batching_dims: dims(&d.operand_batching_dims)?,
        start_indices_batching_dims: dims(&d.indices_batching_dims)?,
        start_index_map: dims(&d.start_index_map)?,
        index_vector_dim: dim(d.index_vector_dim)?,
    };
    let slice_sizes = i.gather_slice_sizes.clone();
    Ok(OpKind::Gather { dimensions: dimensions.into(), slice_sizes, indices_are_sorted: i.indices_are_sorted })
}

fn scatter(i: &mut Instruction) -> Result<OpKind> {
    let d = i.scatter_dimension_numbers.take().unwrap_or_default();
    let dimensions = ScatterDimensions {
        update_window_dims: dims(&d.offset_dims)?,
        inserted_window_dims: dims(&d.collapsed_slice_dims)?,
        input_batching_dims: dims(&d.operand_batching_dims)?,
        scatter_indices_batching_dims: dims(&d.indices_batching_dims)?,
        scatter_dims_to_operand_dims: dims(&d.start_index_map)?,
        index_vector_dim: dim(d.index_vector_dim)?,
    };
    let (indices_are_sorted, unique_indices) = (i.indices_are_sorted, i.unique_indices);
    Ok(OpKind::Scatter { dimensions: dimensions.into(), indices_are_sorted, unique_indices })
}

/// Returns the precision of each operand. Uses the default precision if the field has no element for an operand.
fn precision(i: &Instruction) -> Result<[Precision; 2]> {
    let mut list = [Precision::Default; 2];
    let Some(config) = &i.precision_config else { return Ok(list) };
    if config.algorithm != 0 {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format_args!(
                "the reader does not support dot algorithm {}; send the program as StableHLO",
                config.algorithm
            ),
        ));
    }
    for (operand, &number) in config.operand_precision.iter().enumerate() {
        let precision = match number {
            0 => Precision::Default,
            1 => Precision::High,
            2 => Precision::Highest,
            other => return Err(Error::new(ErrorKind::Encoding, format_args!("unknown precision {other}"))),
        };
        *list.get_mut(operand).ok_or_else(|| Error::new(ErrorKind::Encoding, "more than two precisions"))? = precision;
    }
    Ok(list)
}

fn dot(i: &mut Instruction) -> Result<OpKind> {
    let d = i.dot_dimension_numbers.take().unwrap_or_default();
    let dimensions = DotDimensions {
        lhs_batching: dims(&d.lhs_batch)?,
        rhs_batching: dims(&d.rhs_batch)?,
        lhs_contracting: dims(&d.lhs_contracting)?,
        rhs_contracting: dims(&d.rhs_contracting)?,
    };
    Ok(OpKind::DotGeneral { dimensions, precision: precision(i)? })
}

fn window(i: &mut Instruction, convolution: bool) -> Result<Window> {
    let dimensions = i.window.take().unwrap_or_default().dimensions;
    if !convolution && dimensions.iter().any(|d| d.window_reversal) {
        return Err(Error::new(ErrorKind::Unsupported, "StableHLO does not support reversed windows in this op"));
    }
    Ok(Window {
        dimensions: if convolution { Vec::new() } else { dimensions.iter().map(|d| d.size).collect() },
        strides: dimensions.iter().map(|d| d.stride).collect(),
        base_dilations: dimensions.iter().map(|d| d.base_dilation).collect(),
        window_dilations: dimensions.iter().map(|d| d.window_dilation).collect(),
        padding: dimensions.iter().map(|d| (d.padding_low, d.padding_high)).collect(),
        reversal: if convolution { dimensions.iter().map(|d| d.window_reversal).collect() } else { Vec::new() },
    })
}

fn convolution(i: &mut Instruction) -> Result<OpKind> {
    let d = i.convolution_dimension_numbers.take().unwrap_or_default();
    let dimensions = ConvDimensions {
        input_batch: dim(d.input_batch)?,
        input_feature: dim(d.input_feature)?,
        input_spatial: dims(&d.input_spatial)?,
        kernel_input_feature: dim(d.kernel_input_feature)?,
        kernel_output_feature: dim(d.kernel_output_feature)?,
        kernel_spatial: dims(&d.kernel_spatial)?,
        output_batch: dim(d.output_batch)?,
        output_feature: dim(d.output_feature)?,
        output_spatial: dims(&d.output_spatial)?,
    };
    // A count of 0 means that the field is absent. The default is 1.
    let count = |n: i64| if n == 0 { 1 } else { n };
    Ok(OpKind::Convolution {
        dimensions: dimensions.into(),
        window: window(i, true)?.into(),
        feature_group_count: count(i.feature_group_count),
        batch_group_count: count(i.batch_group_count),
        precision: precision(i)?,
    })
}

fn triangular_solve(i: &mut Instruction) -> Result<OpKind> {
    let options = i.triangular_solve_options.take().unwrap_or_default();
    let transpose_a = match options.transpose_a {
        0 | 1 => TransposeA::NoTranspose,
        2 => TransposeA::Transpose,
        3 => TransposeA::Adjoint,
        other => return Err(Error::new(ErrorKind::Encoding, format_args!("unknown transpose_a {other}"))),
    };
    let (left_side, lower, unit_diagonal) = (options.left_side, options.lower, options.unit_diagonal);
    Ok(OpKind::TriangularSolve { left_side, lower, unit_diagonal, transpose_a })
}

fn fft_type(number: i32) -> Result<FftType> {
    Ok(match number {
        0 => FftType::Fft,
        1 => FftType::Ifft,
        2 => FftType::Rfft,
        3 => FftType::Irfft,
        other => return Err(Error::new(ErrorKind::Encoding, format_args!("unknown FFT type {other}"))),
    })
}

fn rng_algorithm(number: i32) -> Result<RngAlgorithm> {
    Ok(match number {
        0 => RngAlgorithm::Default,
        1 => RngAlgorithm::ThreeFry,
        2 => RngAlgorithm::Philox,
        other => return Err(Error::new(ErrorKind::Encoding, format_args!("unknown random number algorithm {other}"))),
    })
}

fn distribution(number: i32) -> Result<RngDistribution> {
    Ok(match number {
        1 => RngDistribution::Uniform,
        2 => RngDistribution::Normal,
        other => return Err(Error::new(ErrorKind::Encoding, format_args!("unknown distribution {other}"))),
    })
}

/// API version of custom calls that use the typed FFI. Their configuration is a dictionary.
const TYPED_FFI: i64 = 4;

fn custom_call(i: &mut Instruction, extra: &mut Attributes) -> Result<OpKind> {
    if i.constrain_layout {
        let mut results = Vec::new();
        match &i.shape {
            Some(shape) if shape.tuple_shapes.is_empty() => results.push(layout(shape)?),
            Some(shape) => shape.tuple_shapes.iter().try_for_each(|s| layout(s).map(|l| results.push(l)))?,
            None => {}
        }
        let operands = i.operand_shapes_with_layout.iter().map(layout).collect::<Result<_>>()?;
        extra.push(("operand_layouts".to_owned(), Attribute::Array(operands)));
        extra.push(("result_layouts".to_owned(), Attribute::Array(results)));
    }
    if !i.output_operand_aliasing.is_empty() {
        let alias = |a: &OutputOperandAliasing| {
            Attribute::Other(format!(
                "#stablehlo.output_operand_alias<output_tuple_indices = {:?}, operand_index = {}, operand_tuple_indices = {:?}>",
                a.output_shape_index, a.operand_index, a.operand_shape_index
            ))
        };
        let aliases = i.output_operand_aliasing.iter().map(alias).collect();
        extra.push(("output_operand_aliases".to_owned(), Attribute::Array(aliases)));
    }
    let api_version = if i.custom_call_api_version == 0 { 1 } else { i64::from(i.custom_call_api_version) };
    Ok(OpKind::CustomCall {
        call_target_name: std::mem::take(&mut i.custom_call_target),
        has_side_effect: i.custom_call_has_side_effect,
        backend_config: backend_config(std::mem::take(&mut i.backend_config), api_version),
        api_version,
    })
}

/// Returns the configuration of a custom call. For the typed FFI, this is the parsed dictionary. For other API
/// versions, or if the text is not a dictionary, it is the bytes.
fn backend_config(bytes: Bytes, api_version: i64) -> Attribute {
    let text = std::str::from_utf8(&bytes).ok().map(str::trim).filter(|_| api_version == TYPED_FFI);
    match text.map(crate::text::dictionary) {
        Some(Ok(fields)) => Attribute::Dictionary(fields),
        _ => Attribute::String(bytes),
    }
}

/// Converts the layout of a shape to an attribute of StableHLO's custom calls, which lists the dimensions from minor
/// to major.
fn layout(of: &Shape) -> Result<Attribute> {
    let order = of.layout.as_ref().map_or_else(Vec::new, |layout| layout.minor_to_major.clone());
    let tensor = matches!(of.element_type, 13 | 17);
    if !tensor && order.len() != shape::tensor(of)?.rank() {
        return Err(Error::new(ErrorKind::Encoding, "the layout and its array have different numbers of dimensions"));
    }
    let extent = i64::try_from(order.len()).unwrap_or(i64::MAX);
    let data: Vec<u8> = order.iter().flat_map(|d| d.to_le_bytes()).collect();
    Ok(Attribute::Tensor(Literal::new(TensorType::new([extent], ElementType::Index), data)?))
}
