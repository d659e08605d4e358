//! Attributes of an op in MLIR's generic form: with StableHLO's names, and without attributes that have their default
//! value.

use std::fmt::Write;

use bytes::Bytes;

use super::fields::TextField;
use crate::attributes::{enumeration, int};
use crate::ir::*;
use crate::ops::fields::{
    Bits, Bool, Channel, Config, Count64, DimList, Flag, Float, Groups, IdPairs, Index, Index32, IndexOrZero, Layouts,
    List, OptionalDims, OptionalWord, Symbol, Text, UnitFlag, Word,
};
use crate::ops::is_own;

/// Returns an op's inherent attributes, and its discardable attributes.
pub(super) fn attributes(op: &Op) -> (Attributes, Attributes) {
    let (mut own, rest): (Attributes, Attributes) =
        op.attributes.iter().cloned().partition(|(name, _)| is_own(&op.kind, name));
    own.extend(of_kind(&op.kind).into_iter().map(|(name, value)| (name.to_owned(), value)));
    if let OpKind::Other { attributes, .. } = &op.kind {
        own.extend(attributes.iter().cloned());
    }
    (own, rest)
}

/// Creates a dense array `array<i64: ...>`.
pub(super) fn dense(values: impl IntoIterator<Item = i64>) -> Attribute {
    let data: Vec<u8> = values.into_iter().flat_map(i64::to_le_bytes).collect();
    let count = i64::try_from(data.len() / 8).unwrap_or(i64::MAX);
    let ty = TensorType::new([count], ElementType::I64);
    Attribute::DenseArray(Literal { ty, data: data.into(), splat: false })
}

pub(super) fn dims(values: &[usize]) -> Attribute {
    dense(values.iter().map(|&v| signed(v)))
}

pub(super) fn signed(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn bools(values: &[bool]) -> Attribute {
    let ty = TensorType::new([signed(values.len())], ElementType::Bool);
    let data: Vec<u8> = values.iter().map(|&v| u8::from(v)).collect();
    Attribute::DenseArray(Literal { ty, data: data.into(), splat: false })
}

/// Creates a matrix of pairs, such as `dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>`.
pub(super) fn pairs(values: &[(i64, i64)]) -> Attribute {
    let data: Vec<u8> = values.iter().flat_map(|&(a, b)| [a, b]).flat_map(i64::to_le_bytes).collect();
    let ty = TensorType::new([signed(values.len()), 2], ElementType::I64);
    Attribute::Tensor(Literal { ty, data: data.into(), splat: false })
}

/// List of named attributes.
type Named = Vec<(&'static str, Attribute)>;

/// Returns the lists of the window that differ from their defaults. If `convolution` is true, the attributes have the
/// names that `convolution` uses. Otherwise they have the names that all other ops use.
pub(super) fn window(window: &Window, convolution: bool) -> Named {
    let mut named = Named::new();
    let not_ones = |list: &[i64]| list.iter().any(|&v| v != 1);
    let lists = if convolution {
        [
            ("window_strides", &window.strides),
            ("lhs_dilation", &window.base_dilations),
            ("rhs_dilation", &window.window_dilations),
        ]
    } else {
        [
            ("window_strides", &window.strides),
            ("base_dilations", &window.base_dilations),
            ("window_dilations", &window.window_dilations),
        ]
    };
    for (name, list) in lists {
        if not_ones(list) {
            named.push((name, dense(list.iter().copied())));
        }
    }
    if window.padding.iter().any(|&p| p != (0, 0)) {
        named.push(("padding", pairs(&window.padding)));
    }
    if window.reversal.contains(&true) {
        named.push(("window_reversal", bools(&window.reversal)));
    }
    named
}

/// Returns `precision_config`, unless it has its default value.
pub(super) fn precision(precision: &[Precision]) -> Option<(&'static str, Attribute)> {
    let words = precision.iter().map(|&p| enumeration(Precision::FAMILY, p.word())).collect();
    let stated = precision.iter().any(|&p| p != Precision::Default);
    stated.then_some(("precision_config", Attribute::Array(words)))
}

/// Creates an attribute `#stablehlo.name<a = [0], b = 1>`. Omits fields that are empty or zero.
fn structured(name: &str, lists: &[(&str, &[usize])], index: Option<usize>) -> Attribute {
    let mut text = format!("#stablehlo.{name}<");
    let mut separator = "";
    for (field, list) in lists.iter().filter(|(_, list)| !list.is_empty()) {
        let _ = write!(text, "{separator}{field} = {list:?}");
        separator = ", ";
    }
    if let Some(index) = index.filter(|&i| i != 0) {
        let _ = write!(text, "{separator}index_vector_dim = {index}");
    }
    text.push('>');
    Attribute::Other(text)
}

fn gather(d: &GatherDimensions) -> Attribute {
    let lists: [(&str, &[usize]); 5] = [
        ("offset_dims", &d.offset_dims),
        ("collapsed_slice_dims", &d.collapsed_slice_dims),
        ("operand_batching_dims", &d.operand_batching_dims),
        ("start_indices_batching_dims", &d.start_indices_batching_dims),
        ("start_index_map", &d.start_index_map),
    ];
    structured("gather", &lists, Some(d.index_vector_dim))
}

/// Formats dimension numbers, such as `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`.
pub(super) fn convolution_text(d: &ConvDimensions) -> String {
    let list = |first: (usize, &str), second: (usize, &str), spatial: &[usize]| {
        let rank = spatial.len() + 2;
        let mut items = vec!["?".to_owned(); rank];
        let mut put = |at: usize, text: String| {
            if let Some(item) = items.get_mut(at) {
                *item = text;
            }
        };
        put(first.0, first.1.to_owned());
        put(second.0, second.1.to_owned());
        for (i, &dimension) in spatial.iter().enumerate() {
            put(dimension, i.to_string());
        }
        format!("[{}]", items.join(", "))
    };
    format!(
        "{}x{}->{}",
        list((d.input_batch, "b"), (d.input_feature, "f"), &d.input_spatial),
        list((d.kernel_input_feature, "i"), (d.kernel_output_feature, "o"), &d.kernel_spatial),
        list((d.output_batch, "b"), (d.output_feature, "f"), &d.output_spatial),
    )
}

macro_rules! generic_attributes {
    (
        table { $(
            $(#[$doc:meta])*
            $op:ident $name:literal ($($counts:tt)*)
            $({ $($field:ident : $ty:ty as $codec:ident = $attribute:literal),+ $(,)? })?
            $form:ident $([$($word:literal $of:ident),*])?;
        )* }
        own { $($own:tt)* }
    ) => {
        /// Returns the attributes of an op that has a row in the section `table` of `op_table!`. Returns `None` for
        /// every other op.
        fn from_table(kind: &OpKind) -> Option<Named> {
            match kind {
                $(OpKind::$op { $($($field),+)? } => {
                    let attributes: &[(&'static str, Option<Attribute>)] =
                        &[$($((
                            <$codec as TextField<$ty>>::NAME.unwrap_or($attribute),
                            <$codec as TextField<$ty>>::attribute($field),
                        )),+)?];
                    Some(attributes.iter().filter_map(|(name, value)| Some((*name, value.clone()?))).collect())
                })*
                _ => None,
            }
        }
    };
}

op_table!(generic_attributes);

fn of_kind(kind: &OpKind) -> Named {
    if let Some(named) = from_table(kind) {
        return named;
    }
    match kind {
        OpKind::Constant(literal) => vec![("value", Attribute::Tensor(literal.clone()))],
        OpKind::Gather { .. } | OpKind::DynamicGather { .. } | OpKind::Scatter { .. } | OpKind::Sort { .. } => {
            of_indexing(kind)
        }
        OpKind::DotGeneral { .. } | OpKind::Convolution { .. } | OpKind::DynamicConv { .. } => of_contraction(kind),
        OpKind::CollectiveBroadcast { .. } | OpKind::Send { .. } | OpKind::Recv { .. } => of_communication(kind),
        OpKind::ReduceWindow { window: w } | OpKind::SelectAndScatter { window: w } => {
            let mut named = window(w, false);
            if matches!(kind, OpKind::ReduceWindow { .. }) || w.dimensions.iter().any(|&v| v != 1) {
                named.push(("window_dimensions", dense(w.dimensions.iter().copied())));
            }
            named
        }
        OpKind::Composite { name, decomposition, composite_attributes } => {
            let mut named = composite(decomposition, composite_attributes);
            named.push(("name", Attribute::String(name.clone().into_bytes().into())));
            named
        }
        OpKind::CustomCall { call_target_name, .. } => {
            let mut named = custom_call(kind);
            named.push(("call_target_name", Attribute::String(call_target_name.clone().into_bytes().into())));
            named
        }
        _ => Named::new(),
    }
}

fn of_indexing(kind: &OpKind) -> Named {
    let (mut named, flags): (Named, Vec<(&'static str, bool)>) = match kind {
        OpKind::Gather { dimensions, slice_sizes, indices_are_sorted } => (
            vec![("dimension_numbers", gather(dimensions)), ("slice_sizes", dense(slice_sizes.iter().copied()))],
            vec![("indices_are_sorted", *indices_are_sorted)],
        ),
        OpKind::DynamicGather { dimensions, indices_are_sorted } => {
            (vec![("dimension_numbers", gather(dimensions))], vec![("indices_are_sorted", *indices_are_sorted)])
        }
        OpKind::Scatter { dimensions: d, indices_are_sorted, unique_indices } => {
            let lists: [(&str, &[usize]); 5] = [
                ("update_window_dims", &d.update_window_dims),
                ("inserted_window_dims", &d.inserted_window_dims),
                ("input_batching_dims", &d.input_batching_dims),
                ("scatter_indices_batching_dims", &d.scatter_indices_batching_dims),
                ("scatter_dims_to_operand_dims", &d.scatter_dims_to_operand_dims),
            ];
            (
                vec![("scatter_dimension_numbers", structured("scatter", &lists, Some(d.index_vector_dim)))],
                vec![("indices_are_sorted", *indices_are_sorted), ("unique_indices", *unique_indices)],
            )
        }
        OpKind::Sort { dimension, is_stable } => {
            (vec![("dimension", int(signed(*dimension)))], vec![("is_stable", *is_stable)])
        }
        _ => return Named::new(),
    };
    named.extend(flags.into_iter().filter(|(_, on)| *on).map(|(name, on)| (name, Attribute::Bool(on))));
    named
}

fn of_contraction(kind: &OpKind) -> Named {
    match kind {
        OpKind::DotGeneral { dimensions: d, precision: p } => {
            let lists: [(&str, &[usize]); 4] = [
                ("lhs_batching_dimensions", &d.lhs_batching),
                ("rhs_batching_dimensions", &d.rhs_batching),
                ("lhs_contracting_dimensions", &d.lhs_contracting),
                ("rhs_contracting_dimensions", &d.rhs_contracting),
            ];
            let mut named = vec![("dot_dimension_numbers", structured("dot", &lists, None))];
            named.extend(precision(p));
            named
        }
        OpKind::Convolution { dimensions, window: w, feature_group_count, batch_group_count, precision: p }
        | OpKind::DynamicConv { dimensions, window: w, feature_group_count, batch_group_count, precision: p } => {
            let numbers = Attribute::Other(format!("#stablehlo.conv<{}>", convolution_text(dimensions)));
            let mut named = vec![
                ("dimension_numbers", numbers),
                ("feature_group_count", int(*feature_group_count)),
                ("batch_group_count", int(*batch_group_count)),
            ];
            named.extend(precision(p));
            named.extend(window(w, true));
            named
        }
        _ => Named::new(),
    }
}

/// Returns the attributes of a composite that its custom form prints in a dictionary.
pub(super) fn composite(decomposition: &str, attributes: &Attributes) -> Named {
    let mut named = vec![("decomposition", Attribute::Symbol(decomposition.to_owned()))];
    if !attributes.is_empty() {
        named.push(("composite_attributes", Attribute::Dictionary(attributes.clone())));
    }
    named
}

/// Returns the attributes of a custom call that its custom form prints in a dictionary.
pub(super) fn custom_call(kind: &OpKind) -> Named {
    let OpKind::CustomCall { has_side_effect, backend_config, api_version, .. } = kind else { return Named::new() };
    let mut named = Named::new();
    if *has_side_effect {
        named.push(("has_side_effect", Attribute::Bool(true)));
    }
    if *api_version != 1 {
        named.push(("api_version", Attribute::Integer(*api_version, ElementType::I32)));
    }
    let empty = match backend_config {
        Attribute::String(bytes) => bytes.is_empty(),
        Attribute::Dictionary(entries) => entries.is_empty(),
        _ => false,
    };
    if !empty {
        named.push(("backend_config", backend_config.clone()));
    }
    named
}

/// Creates a channel handle, such as `#stablehlo.channel_handle<handle = 1, type = 0>`.
pub(super) fn channel(ChannelHandle { id, channel_type }: ChannelHandle) -> Attribute {
    Attribute::Other(format!("#stablehlo.channel_handle<handle = {id}, type = {channel_type}>"))
}

fn of_communication(kind: &OpKind) -> Named {
    match kind {
        OpKind::CollectiveBroadcast { channel, has_dynamic_root, replica_groups } => [
            ("channel_handle", Channel::attribute(channel)),
            ("has_dynamic_root", UnitFlag::attribute(has_dynamic_root)),
            ("replica_groups", Groups::attribute(replica_groups)),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect(),
        OpKind::Send { channel: handle, is_host_transfer, source_target_pairs }
        | OpKind::Recv { channel: handle, is_host_transfer, source_target_pairs } => {
            let mut named = vec![("channel_handle", channel(*handle))];
            if *is_host_transfer {
                named.push(("is_host_transfer", Attribute::Bool(true)));
            }
            if !source_target_pairs.is_empty() {
                named.push(("source_target_pairs", pairs(source_target_pairs)));
            }
            named
        }
        _ => Named::new(),
    }
}
