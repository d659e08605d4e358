//! Builds an op's [`OpKind`] from its name and raw attributes, for both readers.
//!
//! Both readers pass attributes under the portable artifact's names. An absent attribute gets the specification's
//! default. This also upgrades artifacts of versions without the attribute.

use bytes::Bytes;

use crate::attributes::{Named, enumeration, int, is_none_type, sorted};
use crate::error::{Error, Result};
use crate::ir::*;
use crate::ops::fields::{
    Bits, Bool, DimList, Flag, Index, Index32, List, OptionalWord, ReadField, Symbol, Word, value_of,
};
use crate::ops::{Opcode, is_op};

/// One op before it is typed.
pub(crate) struct UntypedOp<'a> {
    pub(crate) code: Opcode,
    /// Full name without version, such as `stablehlo.add`.
    pub(crate) name: &'a str,
    pub(crate) attributes: Named<'a>,
    pub(crate) operands: &'a [ValueId],
    /// Types of all values of the function so far, including the op's results.
    pub(crate) values: &'a ValueTypes,
}

impl UntypedOp<'_> {
    fn rank(&self, operand: usize) -> Result<usize> {
        let ty = self.operands.get(operand).map(|&v| &self.values[v]);
        match ty {
            Some(Type::Tensor(tensor)) => Ok(tensor.rank()),
            Some(other) => Err(Error::new(format!("operand {operand} must be a tensor, not {other}"))),
            None => Err(Error::new(format!("operand {operand} is missing"))),
        }
    }
}

/// Returns the op's kind, and the attributes for which the kind has no field.
pub(crate) fn kind(raw: &UntypedOp<'_>) -> Result<(OpKind, Attributes)> {
    let a = raw.attributes;
    let mut extra = Attributes::new();
    // If the form of an op depends on the rank of operands, the rank must be known.
    let needs_rank = matches!(
        raw.code,
        Opcode::Broadcast | Opcode::Dot | Opcode::ReduceWindow | Opcode::SelectAndScatter | Opcode::Sort
    );
    let opaque = |v: &ValueId| matches!(raw.values[v.0 as usize], Type::Other(_));
    let code = if needs_rank && raw.operands.iter().any(opaque) { Opcode::Other } else { raw.code };
    let kind = match code {
        Opcode::Unary(unary) => {
            keep(a, &mut extra, &["result_accuracy"]);
            OpKind::Unary(unary)
        }
        Opcode::Binary(binary) => OpKind::Binary(binary),
        Opcode::Constant => OpKind::Constant(constant(a)?),
        // `broadcast` adds new dimensions before those of the operand.
        Opcode::Broadcast => {
            let sizes = a.ints("broadcast_sizes")?;
            if let Some(size) = sizes.iter().find(|&&size| size < 0) {
                return Err(Error::new(format!("`broadcast_sizes` holds the negative size {size}")));
            }
            let new = sizes.len();
            OpKind::BroadcastInDim { broadcast_dimensions: (new..new + raw.rank(0)?).collect() }
        }
        Opcode::Gather => OpKind::Gather {
            dimensions: gather_dimensions(a)?.into(),
            slice_sizes: a.ints("slice_sizes")?,
            indices_are_sorted: a.flag("indices_are_sorted")?,
        },
        Opcode::Scatter => OpKind::Scatter {
            dimensions: scatter_dimensions(a)?.into(),
            indices_are_sorted: a.flag("indices_are_sorted")?,
            unique_indices: a.flag("unique_indices")?,
        },
        Opcode::Sort => OpKind::Sort { dimension: sort_dimension(raw)?, is_stable: a.flag("is_stable")? },
        Opcode::Dot => OpKind::DotGeneral { dimensions: dot_dimensions(raw)?, precision: precision(a)? },
        Opcode::DotGeneral => {
            extra.extend(dot_algorithm(a)?);
            OpKind::DotGeneral { dimensions: dot_general_dimensions(a)?, precision: precision(a)? }
        }
        Opcode::Convolution => convolution(a)?,
        Opcode::ReduceWindow | Opcode::SelectAndScatter => {
            a.ints("window_dimensions")?;
            let window = window(a, raw.rank(0)?)?;
            if code == Opcode::ReduceWindow {
                OpKind::ReduceWindow { window: window.into() }
            } else {
                OpKind::SelectAndScatter { window: window.into() }
            }
        }
        Opcode::Composite => {
            if a.int_or("version", 0)? != 0 {
                keep(a, &mut extra, &["version"]);
            }
            let composite_attributes = match a.find("composite_attributes") {
                Some(Attribute::Dictionary(entries)) => entries.clone(),
                Some(_) => return Err(Error::new("attribute `composite_attributes` must be a dictionary")),
                None => Attributes::new(),
            };
            OpKind::Composite { name: a.text("name")?, decomposition: a.text("decomposition")?, composite_attributes }
        }
        Opcode::CustomCall => {
            keep(a, &mut extra, &["called_computations", "output_operand_aliases", "result_tilings"]);
            // Artifacts store names of functions as strings.
            for (name, value) in &mut extra {
                if let (true, Attribute::Array(items)) = (name == "called_computations", value) {
                    for item in items {
                        if let Some(callee) = item.as_str() {
                            *item = Attribute::Symbol(callee.to_owned());
                        }
                    }
                }
            }
            // If either list of layouts is present, keep both.
            let layouts = ["operand_layouts", "result_layouts"];
            let stated = |attribute: &Attribute| !matches!(attribute, Attribute::Array(items) if items.is_empty());
            if layouts.iter().filter_map(|name| a.find(name)).any(stated) {
                extra.extend(layouts.iter().filter_map(|&name| Some((name.to_owned(), a.find(name)?.clone()))));
            }
            OpKind::CustomCall {
                call_target_name: a.text("call_target_name")?,
                has_side_effect: a.flag("has_side_effect")?,
                backend_config: a.find("backend_config").cloned().unwrap_or(Attribute::String(Bytes::new())),
                // The specification's API_VERSION_ORIGINAL.
                api_version: a.int_or("api_version", 1)?,
            }
        }
        code => match from_table(code, a)? {
            Some(kind) => kind,
            None => OpKind::Other { name: raw.name.to_owned(), attributes: other(raw)? },
        },
    };
    Ok((kind, extra))
}

macro_rules! read_ops {
    (
        table { $(
            $(#[$doc:meta])*
            $op:ident $name:literal ($($counts:tt)*)
            $({ $($field:ident : $ty:ty as $codec:ident = $attribute:literal),+ $(,)? })?
            $form:ident $([$($word:literal $of:ident),*])?;
        )* }
        own { $($own:tt)* }
    ) => {
        /// Reads the ops that a row of `op_table!` describes. Returns `None` for the others.
        fn from_table(code: Opcode, a: Named<'_>) -> Result<Option<OpKind>> {
            Ok(Some(match code {
                $(Opcode::$op => OpKind::$op { $($($field: <$codec as ReadField<$ty>>::read(a, $attribute)?),+)? },)*
                _ => return Ok(None),
            }))
        }
    };
}

op_table!(read_ops);

/// Keeps the attributes that differ from their default, so no empty lists and no default accuracy.
fn keep(a: Named<'_>, extra: &mut Attributes, names: &[&str]) {
    for &name in names {
        match a.find(name) {
            None => {}
            Some(Attribute::Array(items)) if items.is_empty() => {}
            Some(Attribute::Other(text)) if text.contains("result_accuracy_mode<DEFAULT>") => {}
            Some(attribute) => extra.push((name.to_owned(), attribute.clone())),
        }
    }
}

fn constant(a: Named<'_>) -> Result<Literal> {
    match a.find("value") {
        Some(Attribute::Tensor(literal)) => Ok(literal.clone()),
        Some(_) => Err(Error::new("attribute `value` must be a tensor of a known element type")),
        None => Err(Error::new("attribute `value` is missing")),
    }
}

/// Returns one entry per operand. Missing entries have the default value.
fn precision(a: Named<'_>) -> Result<[Precision; 2]> {
    let mut list = [Precision::Default; 2];
    for (operand, word) in a.words("precision_config")?.into_iter().enumerate() {
        let Some(precision) = list.get_mut(operand) else {
            return Err(Error::new("attribute `precision_config` must have at most two entries"));
        };
        *precision = value_of(word)?;
    }
    Ok(list)
}

fn gather_dimensions(a: Named<'_>) -> Result<GatherDimensions> {
    Ok(GatherDimensions {
        offset_dims: a.dims_or_empty("offset_dims")?,
        collapsed_slice_dims: a.dims_or_empty("collapsed_slice_dims")?,
        operand_batching_dims: a.dims_or_empty("operand_batching_dims")?,
        start_indices_batching_dims: a.dims_or_empty("start_indices_batching_dims")?,
        start_index_map: a.dims_or_empty("start_index_map")?,
        index_vector_dim: a.dim_or_zero("index_vector_dim")?,
    })
}

fn scatter_dimensions(a: Named<'_>) -> Result<ScatterDimensions> {
    Ok(ScatterDimensions {
        update_window_dims: a.dims_or_empty("update_window_dims")?,
        inserted_window_dims: a.dims_or_empty("inserted_window_dims")?,
        input_batching_dims: a.dims_or_empty("input_batching_dims")?,
        scatter_indices_batching_dims: a.dims_or_empty("scatter_indices_batching_dims")?,
        scatter_dims_to_operand_dims: a.dims_or_empty("scatter_dims_to_operand_dims")?,
        index_vector_dim: a.dim_or_zero("index_vector_dim")?,
    })
}

fn sort_dimension(raw: &UntypedOp<'_>) -> Result<usize> {
    let rank = raw.rank(0)?;
    let dimension = raw.attributes.int_or("dimension", -1)?;
    let signed_rank = i64::try_from(rank).unwrap_or(i64::MAX);
    let normal = if dimension < 0 { dimension.saturating_add(signed_rank) } else { dimension };
    usize::try_from(normal).ok().filter(|&d| d < rank).ok_or_else(|| {
        Error::new(format!("attribute `dimension` is {dimension}, outside the {rank} dimensions of the operands"))
    })
}

/// `dot` contracts the last dimension of the left operand with the first dimension of the right one.
fn dot_dimensions(raw: &UntypedOp<'_>) -> Result<DotDimensions> {
    let (lhs, rhs) = (raw.rank(0)?, raw.rank(1)?);
    if !(1..=2).contains(&lhs) || !(1..=2).contains(&rhs) {
        return Err(Error::new(format!("operands must be vectors or matrices, not of rank {lhs} and {rhs}")));
    }
    let (lhs_contracting, rhs_contracting) = ([lhs - 1].into_iter().collect(), [0].into_iter().collect());
    Ok(DotDimensions { lhs_contracting, rhs_contracting, ..DotDimensions::default() })
}

fn dot_general_dimensions(a: Named<'_>) -> Result<DotDimensions> {
    Ok(DotDimensions {
        lhs_batching: a.dims_or_empty("lhs_batching_dimensions")?,
        rhs_batching: a.dims_or_empty("rhs_batching_dimensions")?,
        lhs_contracting: a.dims_or_empty("lhs_contracting_dimensions")?,
        rhs_contracting: a.dims_or_empty("rhs_contracting_dimensions")?,
    })
}

/// The algorithm in MLIR's text form. Artifacts store it as seven attributes.
fn dot_algorithm(a: Named<'_>) -> Result<Option<(String, Attribute)>> {
    if let Some(whole) = a.find("algorithm") {
        return Ok(Some(("algorithm".into(), whole.clone())));
    }
    let ty = |name| match a.find(name) {
        Some(attribute) if is_none_type(attribute) => None,
        Some(Attribute::Type(ty)) => Some(ty),
        _ => None,
    };
    let (Some(lhs), Some(rhs), Some(accumulation)) =
        (ty("lhs_precision_type"), ty("rhs_precision_type"), ty("accumulation_type"))
    else {
        return Ok(None);
    };
    let text = format!(
        "#stablehlo.dot_algorithm<lhs_precision_type = {lhs}, rhs_precision_type = {rhs}, accumulation_type = {accumulation}, \
         lhs_component_count = {}, rhs_component_count = {}, num_primitive_operations = {}, allow_imprecise_accumulation = {}>",
        a.int_or("lhs_component_count", 1)?,
        a.int_or("rhs_component_count", 1)?,
        a.int_or("num_primitive_operations", 1)?,
        a.flag("allow_imprecise_accumulation")?,
    );
    Ok(Some(("algorithm".into(), Attribute::Other(text))))
}

/// Returns `default` if the list is empty, which means absent.
fn or_default<T: Clone>(list: Vec<T>, default: T, count: usize) -> Vec<T> {
    if list.is_empty() { vec![default; count] } else { list }
}

fn convolution(a: Named<'_>) -> Result<OpKind> {
    let dimensions = ConvDimensions {
        input_batch: a.dim("input_batch_dimension")?,
        input_feature: a.dim("input_feature_dimension")?,
        input_spatial: a.dims("input_spatial_dimensions")?,
        kernel_input_feature: a.dim("kernel_input_feature_dimension")?,
        kernel_output_feature: a.dim("kernel_output_feature_dimension")?,
        kernel_spatial: a.dims("kernel_spatial_dimensions")?,
        output_batch: a.dim("output_batch_dimension")?,
        output_feature: a.dim("output_feature_dimension")?,
        output_spatial: a.dims("output_spatial_dimensions")?,
    };
    let n = dimensions.input_spatial.len();
    let window = Window {
        dimensions: Vec::new(),
        strides: or_default(a.ints_or("window_strides", vec![1; n])?, 1, n),
        base_dilations: or_default(a.ints_or("lhs_dilation", vec![1; n])?, 1, n),
        window_dilations: or_default(a.ints_or("rhs_dilation", vec![1; n])?, 1, n),
        padding: or_default(a.pairs("padding", n)?, (0, 0), n),
        reversal: or_default(a.bools_or("window_reversal", vec![false; n])?, false, n),
    };
    Ok(OpKind::Convolution {
        dimensions: dimensions.into(),
        window: window.into(),
        feature_group_count: a.int_or("feature_group_count", 1)?,
        batch_group_count: a.int_or("batch_group_count", 1)?,
        precision: precision(a)?,
    })
}

fn window(a: Named<'_>, rank: usize) -> Result<Window> {
    Ok(Window {
        dimensions: a.ints_or("window_dimensions", vec![1; rank])?,
        strides: a.ints_or("window_strides", vec![1; rank])?,
        base_dilations: a.ints_or("base_dilations", vec![1; rank])?,
        window_dilations: a.ints_or("window_dilations", vec![1; rank])?,
        padding: a.pairs("padding", rank)?,
        reversal: Vec::new(),
    })
}

/// Raw attributes of an op without a kind of its own. Attributes of StableHLO ops are normalized, so that a device sees
/// the same form for text and artifacts: artifact names, sorted, with defaults, and index lists as arrays.
fn other(raw: &UntypedOp<'_>) -> Result<Attributes> {
    let mut attributes: Attributes =
        raw.attributes.0.iter().map(|&(name, value)| (name.to_owned(), value.clone())).collect();
    let Some(name) = raw.name.strip_prefix("stablehlo.").filter(|name| is_op(name)) else { return Ok(attributes) };
    let numbering = matches!(name, "dynamic_gather" | "dynamic_conv");
    for (attribute, value) in &mut attributes {
        match attribute.as_str() {
            "use_global_device_ids" | "has_dynamic_root" | "is_host_transfer" | "indices_are_sorted" => {
                *value = Attribute::Bool(raw.attributes.flag(attribute)?);
            }
            "channel_id" | "channel_type" | "feature_group_count" | "batch_group_count" => {
                *value = int(raw.attributes.int_or(attribute, 0)?);
            }
            // The dimension numbers are printed as one attribute.
            name if numbering && (name.ends_with("_dimension") || name == "index_vector_dim") => {
                raw.attributes.dim(attribute)?;
            }
            name if numbering
                && (name.ends_with("_dims") || name.ends_with("_dimensions") || name == "start_index_map") =>
            {
                raw.attributes.dims::<Vec<usize>>(attribute)?;
            }
            _ => {}
        }
        if let Attribute::Tensor(literal) | Attribute::DenseArray(literal) = value
            && literal.ty.rank() == 1
            && matches!(literal.ty.element, ElementType::I64 | ElementType::Bool)
            && !matches!(attribute.as_str(), "padding" | "replica_groups" | "source_target_pairs" | "value")
            && let Some(list) = literal.integers()
        {
            let boolean = literal.ty.element == ElementType::Bool;
            *value = Attribute::Array(
                list.iter().map(|&v| if boolean { Attribute::Bool(v != 0) } else { int(v) }).collect(),
            );
        }
    }
    for (attribute, default) in defaults(name) {
        if raw.attributes.find(attribute).is_none() {
            attributes.push((attribute.into(), default));
        }
    }
    if name == "dynamic_conv" {
        // Up to 0.19.0, the op also had a constant `padding`, which had to be zero.
        attributes
            .retain(|(name, value)| name != "padding" || value.as_integers().is_none_or(|p| p.iter().any(|&v| v != 0)));
    }
    Ok(sorted(&attributes).into_iter().cloned().collect())
}

fn defaults(name: &str) -> Vec<(&'static str, Attribute)> {
    let channel = || ("channel_id", int(0));
    let off = |name| (name, Attribute::Bool(false));
    let empty = |name| (name, Attribute::Array(Vec::new()));
    match name {
        "all_gather" | "all_reduce" | "reduce_scatter" => vec![channel(), off("use_global_device_ids")],
        "all_to_all" | "collective_permute" => vec![channel()],
        "collective_broadcast" => vec![channel(), off("has_dynamic_root")],
        "collective_reduce" => vec![channel(), off("has_dynamic_root"), off("use_global_device_ids")],
        "dynamic_broadcast_in_dim" => vec![empty("known_expanding_dimensions"), empty("known_nonexpanding_dimensions")],
        "dynamic_gather" => vec![
            empty("offset_dims"),
            empty("collapsed_slice_dims"),
            empty("operand_batching_dims"),
            empty("start_indices_batching_dims"),
            empty("start_index_map"),
            ("index_vector_dim", int(0)),
            off("indices_are_sorted"),
        ],
        "send" | "recv" => vec![off("is_host_transfer"), ("channel_type", int(0))],
        "dynamic_conv" => vec![("batch_group_count", int(1)), ("feature_group_count", int(1))],
        "torch_index_select" => vec![("batch_dims", int(0))],
        "infeed" => vec![("infeed_config", Attribute::String(Bytes::new()))],
        "outfeed" => vec![("outfeed_config", Attribute::String(Bytes::new()))],
        "rng" => vec![("rng_distribution", enumeration("rng_distribution", "UNIFORM"))],
        _ => Vec::new(),
    }
}
