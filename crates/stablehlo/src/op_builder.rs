//! Builds an op's [`OpKind`] from its name and its raw attributes, for the text reader, the bytecode reader and the
//! builder.
//!
//! All callers pass attributes under their names in portable artifacts. An absent attribute gets the specification's
//! default. The defaults also upgrade artifacts from versions that lack the attribute.

use bytes::Bytes;

use crate::attributes::{Named, is_none_type};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;
use crate::ops::Opcode;
use crate::ops::fields::{
    Bits, Bool, Channel, Config, Count64, DimList, Flag, Float, Groups, IdPairs, Index, Index32, IndexOrZero, Layouts,
    List, OptionalDims, OptionalWord, ReadField, Symbol, Text, UnitFlag, Word, value_of,
};

/// An op whose attributes are not converted to an [`OpKind`] yet.
pub(crate) struct UntypedOp<'a> {
    pub(crate) code: Opcode,
    /// Full name without the version, such as `stablehlo.add`.
    pub(crate) name: &'a str,
    pub(crate) attributes: Named<'a>,
    pub(crate) operands: &'a [ValueId],
    /// Types of all values that the function has defined so far, including the op's operands.
    pub(crate) values: &'a ValueTypes,
}

impl UntypedOp<'_> {
    fn rank(&self, operand: usize) -> Result<usize> {
        let ty = self.operands.get(operand).map(|&v| &self.values[v]);
        match ty {
            Some(Type::Tensor(tensor)) => Ok(tensor.rank()),
            Some(other) => match rank_of_text(other) {
                Some(rank) => Ok(rank),
                None => {
                    Err(Error::new(ErrorKind::Type, format_args!("operand {operand} must be a tensor, not {other}")))
                }
            },
            None => Err(Error::new(ErrorKind::Structure, format_args!("operand {operand} is missing"))),
        }
    }
}

/// Returns the rank of a tensor type that the IR keeps as text, because its elements are quantized or it has bounds.
/// Returns `None` for an unranked tensor type, and for any other type.
fn rank_of_text(ty: &Type) -> Option<usize> {
    let Type::Other(text) = ty else { return None };
    let extents = text.strip_prefix("tensor<").filter(|rest| !rest.starts_with('*'))?.split('x');
    let is_extent = |part: &&str| *part == "?" || !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    Some(extents.take_while(is_extent).count())
}

/// Returns the op's kind, and the inherent attributes for which the kind has no field.
pub(crate) fn kind(raw: &UntypedOp<'_>) -> Result<(OpKind, Attributes)> {
    let a = raw.attributes;
    let mut extra = Attributes::new();
    let code = raw.code;
    let kind = match code {
        Opcode::Unary(unary) => {
            keep(a, &mut extra, &["result_accuracy"]);
            OpKind::Unary(unary)
        }
        Opcode::Binary(binary) => OpKind::Binary(binary),
        Opcode::Constant => OpKind::Constant(constant(a)?),
        // `broadcast` adds new dimensions before the operand's dimensions.
        Opcode::Broadcast => {
            let sizes = a.ints("broadcast_sizes")?;
            if let Some(size) = sizes.iter().find(|&&size| size < 0) {
                return Err(Error::new(
                    ErrorKind::Attribute,
                    format_args!("`broadcast_sizes` holds the negative size {size}"),
                ));
            }
            let new = sizes.len();
            OpKind::BroadcastInDim { broadcast_dimensions: (new..new + raw.rank(0)?).collect() }
        }
        Opcode::Gather => OpKind::Gather {
            dimensions: gather_dimensions(a)?,
            slice_sizes: a.ints("slice_sizes")?,
            indices_are_sorted: a.flag("indices_are_sorted")?,
        },
        Opcode::Scatter => OpKind::Scatter {
            dimensions: scatter_dimensions(a)?,
            indices_are_sorted: a.flag("indices_are_sorted")?,
            unique_indices: a.flag("unique_indices")?,
        },
        Opcode::Sort => OpKind::Sort { dimension: sort_dimension(raw)?, is_stable: a.flag("is_stable")? },
        Opcode::Dot => OpKind::DotGeneral { dimensions: dot_dimensions(raw)?, precision: precision(a)? },
        Opcode::DotGeneral => {
            extra.extend(dot_algorithm(a)?);
            OpKind::DotGeneral { dimensions: dot_general_dimensions(a)?, precision: precision(a)? }
        }
        Opcode::Convolution => {
            let (dimensions, window, feature_group_count, batch_group_count) = convolution(a)?;
            let precision = precision(a)?;
            OpKind::Convolution { dimensions, window, feature_group_count, batch_group_count, precision }
        }
        Opcode::DynamicConv => {
            let (dimensions, mut window, feature_group_count, batch_group_count) = convolution(a)?;
            // Up to StableHLO 0.19.0, the op also had a constant `padding`, which had to be zero.
            if window.padding.iter().any(|&p| p != (0, 0)) {
                return Err(Error::new(
                    ErrorKind::Attribute,
                    "attribute `padding` must be zero; the third operand is the padding",
                ));
            }
            window.padding.clear();
            // Some producers wrote more strides than the convolution has spatial dimensions. Ignore the excess strides.
            window.strides.truncate(dimensions.input_spatial.len());
            let precision = precision(a)?;
            OpKind::DynamicConv { dimensions, window, feature_group_count, batch_group_count, precision }
        }
        Opcode::DynamicGather => OpKind::DynamicGather {
            dimensions: gather_dimensions(a)?,
            indices_are_sorted: a.flag("indices_are_sorted")?,
        },
        Opcode::CollectiveBroadcast => OpKind::CollectiveBroadcast {
            channel: Channel::read(a, "channel_id")?,
            has_dynamic_root: a.flag("has_dynamic_root")?,
            replica_groups: Groups::read(a, "replica_groups")?,
        },
        Opcode::Send | Opcode::Recv => {
            let channel = Channel::read(a, "channel_id")?;
            let is_host_transfer = a.flag("is_host_transfer")?;
            let source_target_pairs = a.pairs("source_target_pairs", 0)?;
            if code == Opcode::Send {
                OpKind::Send { channel, is_host_transfer, source_target_pairs }
            } else {
                OpKind::Recv { channel, is_host_transfer, source_target_pairs }
            }
        }
        Opcode::ReduceWindow | Opcode::SelectAndScatter => {
            a.ints("window_dimensions")?;
            let window = window(a, raw.rank(0)?)?;
            if code == Opcode::ReduceWindow {
                OpKind::ReduceWindow { window }
            } else {
                OpKind::SelectAndScatter { window }
            }
        }
        Opcode::Composite => {
            if a.int_or("version", 0)? != 0 {
                keep(a, &mut extra, &["version"]);
            }
            let composite_attributes = match a.find("composite_attributes") {
                Some(Attribute::Dictionary(entries)) => entries.clone(),
                Some(_) => {
                    return Err(Error::new(
                        ErrorKind::Attribute,
                        "attribute `composite_attributes` must be a dictionary",
                    ));
                }
                None => Attributes::new(),
            };
            OpKind::Composite { name: a.text("name")?, decomposition: a.text("decomposition")?, composite_attributes }
        }
        Opcode::CustomCall => {
            keep(a, &mut extra, &["called_computations", "output_operand_aliases", "result_tilings"]);
            // Artifacts store function names as strings, and the IR stores them as symbols.
            for (name, value) in &mut extra {
                if let (true, Attribute::Array(items)) = (name == "called_computations", value) {
                    for item in items {
                        if let Some(callee) = item.as_str() {
                            *item = Attribute::Symbol(callee.to_owned());
                        }
                    }
                }
            }
            // If either list of layouts is present and not empty, keep both lists, because the specification allows the
            // lists only together.
            let layouts = ["operand_layouts", "result_layouts"];
            let stated = |attribute: &Attribute| !matches!(attribute, Attribute::Array(items) if items.is_empty());
            if layouts.iter().filter_map(|name| a.find(name)).any(stated) {
                extra.extend(layouts.iter().filter_map(|&name| Some((name.to_owned(), a.find(name)?.clone()))));
            }
            OpKind::CustomCall {
                call_target_name: a.text("call_target_name")?,
                has_side_effect: a.flag("has_side_effect")?,
                backend_config: a.find("backend_config").cloned().unwrap_or(Attribute::String(Bytes::new())),
                // The default is the specification's `API_VERSION_ORIGINAL`, which is 1.
                api_version: a.int_or("api_version", 1)?,
            }
        }
        code => match from_table(code, a)? {
            Some(kind) => kind,
            None => {
                let attributes = a.0.iter().map(|&(name, value)| (name.to_owned(), value.clone())).collect();
                OpKind::Other { name: raw.name.to_owned(), attributes }
            }
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
        /// Builds the kind of an op that has a row in the section `table` of `op_table!`. Returns `None` for every
        /// other op.
        fn from_table(code: Opcode, a: Named<'_>) -> Result<Option<OpKind>> {
            Ok(Some(match code {
                $(Opcode::$op => OpKind::$op { $($($field: <$codec as ReadField<$ty>>::read(a, $attribute)?),+)? },)*
                _ => return Ok(None),
            }))
        }
    };
}

op_table!(read_ops);

/// Copies the named attributes to `extra`. Omits empty lists and the default accuracy, because an absent attribute has
/// the same meaning.
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
        Some(_) => Err(Error::new(ErrorKind::Attribute, "attribute `value` must be a tensor of a known element type")),
        None => Err(Error::new(ErrorKind::Attribute, "attribute `value` is missing")),
    }
}

/// Returns the precision of each operand. Uses the default precision if the attribute has no element for an operand.
fn precision(a: Named<'_>) -> Result<[Precision; 2]> {
    let mut list = [Precision::Default; 2];
    for (operand, word) in a.words("precision_config")?.into_iter().enumerate() {
        let Some(precision) = list.get_mut(operand) else {
            return Err(Error::new(ErrorKind::Attribute, "attribute `precision_config` must have at most two entries"));
        };
        *precision = value_of(word)?;
    }
    Ok(list)
}

/// Reads several attributes with `read`. Stores each value in the field that is paired with the attribute's name.
fn read_each<T>(fields: &mut [(&str, &mut T)], read: impl Fn(&str) -> Result<T>) -> Result<()> {
    for (name, field) in fields {
        **field = read(name)?;
    }
    Ok(())
}

fn gather_dimensions(a: Named<'_>) -> Result<Box<GatherDimensions>> {
    let mut d = Box::<GatherDimensions>::default();
    d.index_vector_dim = a.dim_or_zero("index_vector_dim")?;
    dimension_lists(
        a,
        &mut [
            ("offset_dims", &mut d.offset_dims),
            ("collapsed_slice_dims", &mut d.collapsed_slice_dims),
            ("operand_batching_dims", &mut d.operand_batching_dims),
            ("start_indices_batching_dims", &mut d.start_indices_batching_dims),
            ("start_index_map", &mut d.start_index_map),
        ],
    )?;
    Ok(d)
}

fn scatter_dimensions(a: Named<'_>) -> Result<Box<ScatterDimensions>> {
    let mut d = Box::<ScatterDimensions>::default();
    d.index_vector_dim = a.dim_or_zero("index_vector_dim")?;
    dimension_lists(
        a,
        &mut [
            ("update_window_dims", &mut d.update_window_dims),
            ("inserted_window_dims", &mut d.inserted_window_dims),
            ("input_batching_dims", &mut d.input_batching_dims),
            ("scatter_indices_batching_dims", &mut d.scatter_indices_batching_dims),
            ("scatter_dims_to_operand_dims", &mut d.scatter_dims_to_operand_dims),
        ],
    )?;
    Ok(d)
}

/// Reads several lists of dimension indices. An absent attribute results in an empty list.
fn dimension_lists(a: Named<'_>, fields: &mut [(&str, &mut Vec<usize>)]) -> Result<()> {
    read_each(fields, |name| a.dims_or_empty(name))
}

fn sort_dimension(raw: &UntypedOp<'_>) -> Result<usize> {
    let rank = raw.rank(0)?;
    let dimension = raw.attributes.int_or("dimension", -1)?;
    let signed_rank = i64::try_from(rank).unwrap_or(i64::MAX);
    let normal = if dimension < 0 { dimension.saturating_add(signed_rank) } else { dimension };
    usize::try_from(normal).ok().filter(|&d| d < rank).ok_or_else(|| {
        Error::new(
            ErrorKind::Attribute,
            format_args!("attribute `dimension` is {dimension}, outside the {rank} dimensions of the operands"),
        )
    })
}

/// Returns the dimension numbers of `dot`, which contracts the last dimension of the left operand with the first
/// dimension of the right operand.
fn dot_dimensions(raw: &UntypedOp<'_>) -> Result<DotDimensions> {
    let (lhs, rhs) = (raw.rank(0)?, raw.rank(1)?);
    if !(1..=2).contains(&lhs) || !(1..=2).contains(&rhs) {
        return Err(Error::new(
            ErrorKind::Shape,
            format_args!("operands must be vectors or matrices, not of rank {lhs} and {rhs}"),
        ));
    }
    let (lhs_contracting, rhs_contracting) = ([lhs - 1].into_iter().collect(), [0].into_iter().collect());
    Ok(DotDimensions { lhs_contracting, rhs_contracting, ..DotDimensions::default() })
}

fn dot_general_dimensions(a: Named<'_>) -> Result<DotDimensions> {
    let mut d = DotDimensions::default();
    let fields = &mut [
        ("lhs_batching_dimensions", &mut d.lhs_batching),
        ("rhs_batching_dimensions", &mut d.rhs_batching),
        ("lhs_contracting_dimensions", &mut d.lhs_contracting),
        ("rhs_contracting_dimensions", &mut d.rhs_contracting),
    ];
    read_each(fields, |name| a.dims_or_empty(name))?;
    Ok(d)
}

/// Returns the attribute `algorithm` in MLIR's text form. Artifacts store the algorithm as seven separate attributes.
/// Returns `None` if the op does not specify an algorithm.
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

/// Returns `count` copies of `default` if the list is empty, because an empty list means that the attribute is absent.
fn or_default<T: Clone>(list: Vec<T>, default: T, count: usize) -> Vec<T> {
    if list.is_empty() { vec![default; count] } else { list }
}

/// Reads the dimension numbers, the window, the feature group count and the batch group count of `convolution` or
/// `dynamic_conv`.
fn convolution(a: Named<'_>) -> Result<(Box<ConvDimensions>, Box<Window>, i64, i64)> {
    let mut d = Box::<ConvDimensions>::default();
    let fields = &mut [
        ("input_batch_dimension", &mut d.input_batch),
        ("input_feature_dimension", &mut d.input_feature),
        ("kernel_input_feature_dimension", &mut d.kernel_input_feature),
        ("kernel_output_feature_dimension", &mut d.kernel_output_feature),
        ("output_batch_dimension", &mut d.output_batch),
        ("output_feature_dimension", &mut d.output_feature),
    ];
    read_each(fields, |name| a.dim(name))?;
    let fields = &mut [
        ("input_spatial_dimensions", &mut d.input_spatial),
        ("kernel_spatial_dimensions", &mut d.kernel_spatial),
        ("output_spatial_dimensions", &mut d.output_spatial),
    ];
    read_each(fields, |name| a.dims(name))?;
    let n = d.input_spatial.len();
    let mut window = Box::<Window>::default();
    let fields = &mut [
        ("window_strides", &mut window.strides),
        ("lhs_dilation", &mut window.base_dilations),
        ("rhs_dilation", &mut window.window_dilations),
    ];
    read_each(fields, |name| Ok(or_default(a.ints_or(name, Vec::new())?, 1, n)))?;
    window.padding = or_default(a.pairs("padding", n)?, (0, 0), n);
    window.reversal = or_default(a.bools_or("window_reversal", Vec::new())?, false, n);
    Ok((d, window, a.int_or("feature_group_count", 1)?, a.int_or("batch_group_count", 1)?))
}

fn window(a: Named<'_>, rank: usize) -> Result<Box<Window>> {
    let mut window = Box::<Window>::default();
    let fields = &mut [
        ("window_dimensions", &mut window.dimensions),
        ("window_strides", &mut window.strides),
        ("base_dilations", &mut window.base_dilations),
        ("window_dilations", &mut window.window_dilations),
    ];
    read_each(fields, |name| a.ints_or(name, vec![1; rank]))?;
    window.padding = a.pairs("padding", rank)?;
    Ok(window)
}
