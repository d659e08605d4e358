//! Selects the version of each op, and writes all its attributes. Artifacts also contain attributes with default
//! values.

use bytes::Bytes;
use smallvec::SmallVec;

use super::attributes::{find, named};
use super::encoder::Encoder;
use super::fields::WriteField;
use super::versions::needs;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;
use crate::ops::fields::{
    Bits, Bool, Channel, Config, Count64, DimList, Flag, Float, Groups, IdPairs, Index, Index32, IndexOrZero, Layouts,
    List, OptionalDims, OptionalWord, Symbol, Text, UnitFlag, Word,
};
use crate::ops::{second, since, vhlo_attributes};

/// Table index of an op's VHLO name, and the name and table index of each of its attributes. The attributes are sorted
/// by name.
pub(super) struct Spelled {
    pub(super) name: usize,
    pub(super) attributes: Named,
}

/// Names and indices of attributes.
pub(super) type Named = SmallVec<[(&'static str, usize); 12]>;

/// Returns whether an attribute is an 8-bit floating-point type.
fn is_byte_float(attribute: &Attribute) -> bool {
    matches!(attribute, Attribute::Type(Type::Other(name)) if name.starts_with("f8"))
}

/// Returns how to express an op in older StableHLO versions. The writer does not replace the op itself, because the
/// results would have other bits.
fn remedy(base: &str) -> Option<&'static str> {
    match base {
        "exp2" => Some("`power(2, x)` is close"),
        "log2" => Some("`log` divided by ln 2 is close"),
        "fma" => Some("`multiply` and `add` are close, but round twice"),
        _ => None,
    }
}

impl Encoder {
    /// Returns whether the written StableHLO version has the second version of an op. If it does not, and `extra` names
    /// a feature that requires the second version, returns an error.
    pub(super) fn has_second(&self, base: &str, extra: Option<&str>) -> Result<bool> {
        let Some(since) = second(base) else { return Ok(false) };
        if let Some(extra) = extra {
            needs(self.version, since, || extra.to_owned())?;
        }
        Ok(self.version >= since)
    }

    /// Selects the VHLO version of a StableHLO op, and adds its attributes to the tables.
    pub(super) fn spell(&mut self, func: &Func, op: &Op) -> Result<Spelled> {
        let base = match &op.kind {
            OpKind::Other { name, .. } => name.strip_prefix("stablehlo.").unwrap_or(name),
            kind => kind.base_name(),
        };
        if let Some(since) = since(base) {
            needs(self.version, since, || "the op".to_owned())
                .map_err(|e| if let Some(remedy) = remedy(base) { e.with_remedy(remedy) } else { e })?;
        }
        self.check_types(func, op)?;
        let mut attributes = Named::new();
        let second = match &op.kind {
            OpKind::Other { .. } => {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    format_args!("portable artifacts of StableHLO {} cannot contain this op", self.version),
                ));
            }
            _ => self.own(base, func, op, &mut attributes)?,
        };
        attributes.sort_unstable_by_key(|&(name, _)| name);
        Ok(Spelled { name: self.vhlo_name(base, second), attributes })
    }

    /// Checks uses of an op that require a newer StableHLO version than the op itself: reductions that accumulate in
    /// another type, comparisons in weak order, and convolutions of two element types.
    pub(super) fn check_types(&self, func: &Func, op: &Op) -> Result<()> {
        if matches!(op.kind, OpKind::Compare { compare_type: ComparisonType::WeakOrder, .. }) {
            needs(self.version, Version(1, 22, 0), || "comparison type WEAKORDER".to_owned())?;
        }
        let reduces = matches!(
            op.kind,
            OpKind::Reduce { .. }
                | OpKind::ReduceWindow { .. }
                | OpKind::Scatter { .. }
                | OpKind::SelectAndScatter { .. }
                | OpKind::AllReduce { .. }
                | OpKind::ReduceScatter { .. }
        );
        let element = |v: &ValueId| func.ty(*v).as_tensor().map(|t| t.element);
        if reduces && op.results.iter().zip(&op.operands).any(|(r, o)| element(r) != element(o)) {
            needs(self.version, Version(0, 17, 0), || "reducing in another type than that of the operands".to_owned())?;
        }
        let convolves = matches!(op.kind, OpKind::Convolution { .. } | OpKind::DynamicConv { .. });
        if let ([lhs, rhs, ..], true) = (&op.operands[..], convolves)
            && element(lhs) != element(rhs)
        {
            needs(self.version, Version(1, 20, 0), || "a convolution of two element types".to_owned())?;
        }
        Ok(())
    }

    pub(super) fn index(&mut self, value: usize) -> Result<usize> {
        self.vhlo_integer(i64::try_from(value).unwrap_or(i64::MAX), ElementType::I64)
    }

    pub(super) fn precision(&mut self, precision: &[Precision]) -> Result<usize> {
        let items = precision.iter().map(|&p| self.vhlo_word(Precision::FAMILY, p.word()));
        let items = items.collect::<Result<Vec<_>>>()?;
        Ok(self.vhlo_array(&items))
    }

    /// Adds the inherent attributes of an op that is not an [`OpKind::Other`]. Returns whether the second version of
    /// the op is written.
    fn own(&mut self, base: &str, func: &Func, op: &Op, put: &mut Named) -> Result<bool> {
        let variadic = (op.operands.len() != 1 || op.results.len() != 1).then_some("more than one operand or result");
        if self.table_attributes(&op.kind, put)? {
            return self.has_second(base, variadic);
        }
        let extra = |name: &str| find(&op.attributes, name);
        match &op.kind {
            OpKind::Unary(_) => {
                let accuracy = match extra("result_accuracy") {
                    Some(Attribute::Other(text)) => super::texts::inside(text, "result_accuracy"),
                    _ => None,
                };
                let is_in_first = vhlo_attributes(base, 1).is_some();
                let second = !is_in_first && self.has_second(base, accuracy.map(|_| "attribute `result_accuracy`"))?;
                if is_in_first || second {
                    put.push(("result_accuracy", self.vhlo_result_accuracy(accuracy.unwrap_or_default())?));
                }
                return Ok(second);
            }
            OpKind::Constant(literal) => put.push(("value", self.vhlo_literal(literal)?)),
            OpKind::Gather { dimensions, slice_sizes, indices_are_sorted } => {
                put.push(("slice_sizes", self.vhlo_ints(slice_sizes)?));
                return self.gather(base, dimensions, *indices_are_sorted, put);
            }
            OpKind::Scatter { dimensions: d, indices_are_sorted, unique_indices } => {
                let batched = !d.input_batching_dims.is_empty() || !d.scatter_indices_batching_dims.is_empty();
                let second = self.has_second(base, batched.then_some("a batching dimension"))?;
                put.push(("update_window_dims", self.vhlo_dims(&d.update_window_dims)?));
                put.push(("inserted_window_dims", self.vhlo_dims(&d.inserted_window_dims)?));
                put.push(("scatter_dims_to_operand_dims", self.vhlo_dims(&d.scatter_dims_to_operand_dims)?));
                put.push(("index_vector_dim", self.index(d.index_vector_dim)?));
                put.push(("indices_are_sorted", self.vhlo_bool(*indices_are_sorted)));
                put.push(("unique_indices", self.vhlo_bool(*unique_indices)));
                if second {
                    put.push(("input_batching_dims", self.vhlo_dims(&d.input_batching_dims)?));
                    put.push(("scatter_indices_batching_dims", self.vhlo_dims(&d.scatter_indices_batching_dims)?));
                }
                return Ok(second);
            }
            OpKind::Sort { dimension, is_stable } => {
                put.push(("dimension", self.index(*dimension)?));
                put.push(("is_stable", self.vhlo_bool(*is_stable)));
            }
            OpKind::DotGeneral { dimensions, precision } => {
                put.push(("precision_config", self.precision(precision)?));
                return self.dot_general(base, dimensions, extra("algorithm"), put);
            }
            OpKind::DynamicGather { dimensions, indices_are_sorted } => {
                return self.gather(base, dimensions, *indices_are_sorted, put);
            }
            OpKind::CollectiveBroadcast { channel, has_dynamic_root, replica_groups } => {
                let second = self.has_second(base, has_dynamic_root.then_some("a dynamic root").or(variadic))?;
                put.push(("channel_id", Channel::write(self, channel)?));
                put.push(("replica_groups", Groups::write(self, replica_groups)?));
                if second {
                    put.push(("has_dynamic_root", self.vhlo_bool(*has_dynamic_root)));
                }
                return Ok(second);
            }
            OpKind::Send { channel, is_host_transfer, source_target_pairs }
            | OpKind::Recv { channel, is_host_transfer, source_target_pairs } => {
                let listed = (!source_target_pairs.is_empty()).then_some("attribute `source_target_pairs`");
                let second = self.has_second(base, listed)?;
                put.push(("channel_id", self.vhlo_integer(channel.id, ElementType::I64)?));
                put.push(("channel_type", self.vhlo_integer(channel.channel_type, ElementType::I64)?));
                put.push(("is_host_transfer", self.vhlo_bool(*is_host_transfer)));
                if second && source_target_pairs.is_empty() {
                    put.push(("source_target_pairs", self.vhlo_ints(&[])?));
                } else if second {
                    put.push(("source_target_pairs", self.vhlo_pairs(source_target_pairs)?));
                }
                return Ok(second);
            }
            OpKind::Convolution { dimensions, window, feature_group_count, batch_group_count, precision }
            | OpKind::DynamicConv { dimensions, window, feature_group_count, batch_group_count, precision } => {
                self.convolution(dimensions, put)?;
                put.push(("window_strides", self.vhlo_ints(&window.strides)?));
                let dynamic = matches!(op.kind, OpKind::DynamicConv { .. });
                let second = self.has_second(base, None)?;
                if dynamic && !second {
                    // The first version of the op has a `padding` attribute, which must be zero.
                    put.push(("padding", self.vhlo_pairs(&vec![(0, 0); dimensions.input_spatial.len()])?));
                } else if !dynamic {
                    put.push(("padding", self.vhlo_pairs(&window.padding)?));
                }
                put.push(("lhs_dilation", self.vhlo_ints(&window.base_dilations)?));
                put.push(("rhs_dilation", self.vhlo_ints(&window.window_dilations)?));
                put.push(("window_reversal", self.vhlo_bools(&window.reversal)?));
                put.push(("feature_group_count", self.vhlo_integer(*feature_group_count, ElementType::I64)?));
                put.push(("batch_group_count", self.vhlo_integer(*batch_group_count, ElementType::I64)?));
                put.push(("precision_config", self.precision(precision)?));
                return Ok(second);
            }
            OpKind::ReduceWindow { window } | OpKind::SelectAndScatter { window } => {
                put.push(("window_dimensions", self.vhlo_ints(&window.dimensions)?));
                put.push(("window_strides", self.vhlo_ints(&window.strides)?));
                put.push(("padding", self.vhlo_pairs(&window.padding)?));
                if matches!(op.kind, OpKind::ReduceWindow { .. }) {
                    put.push(("base_dilations", self.vhlo_ints(&window.base_dilations)?));
                    put.push(("window_dilations", self.vhlo_ints(&window.window_dilations)?));
                }
            }
            OpKind::Composite { name, decomposition, composite_attributes } => {
                let regions = op.regions.iter().any(|r| !r.ops.is_empty());
                let second = self.has_second(base, regions.then_some("a region of the composite"))?;
                put.push(("name", self.vhlo_string(name.as_bytes())));
                put.push(("decomposition", self.vhlo_string(decomposition.as_bytes())));
                put.push(("composite_attributes", self.vhlo_dictionary(composite_attributes)?));
                let zero = Attribute::Integer(0, ElementType::I64);
                put.push(("version", self.vhlo_attribute(extra("version").unwrap_or(&zero))?));
                return Ok(second);
            }
            OpKind::CustomCall { .. } => return self.custom_call(base, func, op, put),
            _ => {}
        }
        Ok(false)
    }

    /// Adds the attributes that `gather` and `dynamic_gather` share. Returns whether the second version of the op is
    /// written.
    pub(super) fn gather(&mut self, base: &str, d: &GatherDimensions, sorted: bool, put: &mut Named) -> Result<bool> {
        let batched = !d.operand_batching_dims.is_empty() || !d.start_indices_batching_dims.is_empty();
        let second = self.has_second(base, batched.then_some("a batching dimension"))?;
        put.push(("offset_dims", self.vhlo_dims(&d.offset_dims)?));
        put.push(("collapsed_slice_dims", self.vhlo_dims(&d.collapsed_slice_dims)?));
        put.push(("start_index_map", self.vhlo_dims(&d.start_index_map)?));
        put.push(("index_vector_dim", self.index(d.index_vector_dim)?));
        put.push(("indices_are_sorted", self.vhlo_bool(sorted)));
        if second {
            put.push(("operand_batching_dims", self.vhlo_dims(&d.operand_batching_dims)?));
            put.push(("start_indices_batching_dims", self.vhlo_dims(&d.start_indices_batching_dims)?));
        }
        Ok(second)
    }

    fn dot_general(
        &mut self,
        base: &str,
        d: &DotDimensions,
        algorithm: Option<&Attribute>,
        put: &mut Named,
    ) -> Result<bool> {
        let second = self.has_second(base, algorithm.map(|_| "attribute `algorithm`"))?;
        put.push(("lhs_batching_dimensions", self.vhlo_dims(&d.lhs_batching)?));
        put.push(("rhs_batching_dimensions", self.vhlo_dims(&d.rhs_batching)?));
        put.push(("lhs_contracting_dimensions", self.vhlo_dims(&d.lhs_contracting)?));
        put.push(("rhs_contracting_dimensions", self.vhlo_dims(&d.rhs_contracting)?));
        if !second {
            return Ok(false);
        }
        let fields = match algorithm {
            Some(Attribute::Other(text)) => {
                super::texts::inside(text, "dot_algorithm").map(crate::text::fields).transpose()?
            }
            _ => None,
        };
        // Without fields, all attributes are absent.
        let absent = if fields.is_none() { self.vhlo_absent()? } else { 0 };
        for name in [
            "lhs_precision_type",
            "rhs_precision_type",
            "accumulation_type",
            "lhs_component_count",
            "rhs_component_count",
            "num_primitive_operations",
            "allow_imprecise_accumulation",
        ] {
            let value = match &fields {
                None => absent,
                Some(fields) => match find(fields, name) {
                    // Algorithms with several primitive operations for 8-bit floating-point types require a newer
                    // version.
                    Some(value)
                        if name == "num_primitive_operations"
                            && value.as_integer() > Some(1)
                            && find(fields, "lhs_precision_type").is_some_and(is_byte_float) =>
                    {
                        needs(self.version, Version(1, 21, 0), || {
                            "an `algorithm` of several products of f8".to_owned()
                        })?;
                        self.vhlo_attribute(value).map_err(|e| named(e, name))?
                    }
                    Some(value) => self.vhlo_attribute(value).map_err(|e| named(e, name))?,
                    None => {
                        return Err(Error::new(
                            ErrorKind::Attribute,
                            format_args!("`algorithm` has no field `{name}`"),
                        ));
                    }
                },
            };
            put.push((name, value));
        }
        Ok(true)
    }

    pub(super) fn convolution(&mut self, d: &ConvDimensions, put: &mut Named) -> Result<()> {
        put.push(("input_batch_dimension", self.index(d.input_batch)?));
        put.push(("input_feature_dimension", self.index(d.input_feature)?));
        put.push(("input_spatial_dimensions", self.vhlo_dims(&d.input_spatial)?));
        put.push(("kernel_input_feature_dimension", self.index(d.kernel_input_feature)?));
        put.push(("kernel_output_feature_dimension", self.index(d.kernel_output_feature)?));
        put.push(("kernel_spatial_dimensions", self.vhlo_dims(&d.kernel_spatial)?));
        put.push(("output_batch_dimension", self.index(d.output_batch)?));
        put.push(("output_feature_dimension", self.index(d.output_feature)?));
        put.push(("output_spatial_dimensions", self.vhlo_dims(&d.output_spatial)?));
        Ok(())
    }

    fn custom_call(&mut self, base: &str, func: &Func, op: &Op, put: &mut Named) -> Result<bool> {
        let OpKind::CustomCall { call_target_name, has_side_effect, backend_config, api_version } = &op.kind else {
            return Ok(false);
        };
        let future = |v: &ValueId| matches!(func.ty(*v), Type::Other(text) if text.starts_with("!stablehlo.future"));
        if op.operands.iter().chain(&op.results).any(future) {
            needs(self.version, Version(1, 17, 0), || "a custom call of futures".to_owned())?;
        }
        let tilings = find(&op.attributes, "result_tilings");
        let second = self.has_second(base, tilings.map(|_| "attribute `result_tilings`"))?;
        put.push(("call_target_name", self.vhlo_string(call_target_name.as_bytes())));
        put.push(("has_side_effect", self.vhlo_bool(*has_side_effect)));
        put.push(("api_version", self.vhlo_api_version(*api_version)?));
        // For the typed FFI, the configuration is always a dictionary, even if it is empty.
        let empty = Attribute::Dictionary(Attributes::new());
        let config = match backend_config {
            Attribute::String(bytes) if bytes.is_empty() && *api_version == 4 => &empty,
            config => config,
        };
        if matches!(config, Attribute::Dictionary(_)) {
            needs(self.version, Version(1, 3, 0), || "a dictionary as `backend_config`".to_owned())?;
        }
        put.push(("backend_config", self.vhlo_attribute(config).map_err(|e| named(e, "backend_config"))?));
        let lists = ["called_computations", "operand_layouts", "output_operand_aliases", "result_layouts"];
        for name in lists.into_iter().chain(second.then_some("result_tilings")) {
            let list = match find(&op.attributes, name) {
                Some(list) => self.vhlo_attribute(list).map_err(|e| named(e, name))?,
                None => self.vhlo_array(&[]),
            };
            put.push((name, list));
        }
        Ok(second)
    }
}

macro_rules! write_ops {
    (
        table { $(
            $(#[$doc:meta])*
            $op:ident $name:literal ($($counts:tt)*)
            $({ $($field:ident : $ty:ty as $codec:ident = $attribute:literal),+ $(,)? })?
            $form:ident $([$($word:literal $of:ident),*])?;
        )* }
        own { $($own:tt)* }
    ) => {
        impl Encoder {
            /// Adds the attributes of an op that has a row in the section `table` of `op_table!`. Returns `false` for
            /// every other op.
            fn table_attributes(&mut self, kind: &OpKind, put: &mut Named) -> Result<bool> {
                match kind {
                    $(OpKind::$op { $($($field),+)? } => {
                        $($(
                            let number = <$codec as WriteField<$ty>>::write(self, $field);
                            put.push(($attribute, number.map_err(|e| named(e, $attribute))?));
                        )+)?
                    })*
                    _ => return Ok(false),
                }
                Ok(true)
            }
        }
    };
}

op_table!(write_ops);
