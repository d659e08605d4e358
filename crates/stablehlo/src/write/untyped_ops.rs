//! Ops without a kind of their own, whose attributes are kept raw.

use super::attributes::{find, named};
use super::encoder::Encoder;
use super::ops::Named;
use super::versions::needs;
use crate::error::{Error, Result};
use crate::ir::*;
use crate::ops::{Names, is_plain, vhlo_attributes};

impl Encoder {
    /// The attributes of an op that are kept raw. Returns whether it has its second form.
    pub(super) fn other(&mut self, base: &str, op: &Op, own: &Attributes, put: &mut Named) -> Result<bool> {
        let variadic = op.operands.len() != 1 || op.results.len() != 1;
        let extra = match base {
            "all_gather" | "all_reduce" | "all_to_all" | "collective_broadcast" if variadic => {
                Some("more than one operand or result")
            }
            "collective_broadcast" if find(own, "has_dynamic_root") == Some(&Attribute::Bool(true)) => {
                Some("a dynamic root")
            }
            "send" | "recv" => {
                let pairs = find(own, "source_target_pairs").and_then(Attribute::as_integers);
                pairs.is_some_and(|p| !p.is_empty()).then_some("attribute `source_target_pairs`")
            }
            "dynamic_gather" => ["operand_batching_dims", "start_indices_batching_dims"]
                .iter()
                .any(|name| find(own, name).and_then(Attribute::as_integers).is_some_and(|l| !l.is_empty()))
                .then_some("a batching dimension"),
            _ => None,
        };
        let second = self.has_second(base, extra)?;
        let names = match vhlo_attributes(base, if second { 2 } else { 1 }) {
            Some(names) => names,
            None if is_plain(base) => Names::default(),
            None => {
                return Err(Error::new(format_args!(
                    "no portable artifact of StableHLO {} holds this op",
                    self.version
                )));
            }
        };
        for name in names.iter() {
            let value = match find(own, name) {
                Some(value) => self.other_value(name, value).map_err(|e| named(e, name))?,
                None => self.other_default(base, name, own)?,
            };
            put.push((name, value));
        }
        Ok(second)
    }

    /// A raw attribute. Artifacts store lists of numbers as tensors.
    fn other_value(&mut self, name: &str, value: &Attribute) -> Result<usize> {
        if name == "layout" || name == "precision_config" {
            return self.vhlo_attribute(value);
        }
        match value {
            Attribute::Array(items) => {
                let flags: Option<Vec<bool>> =
                    items.iter().map(|i| if let Attribute::Bool(v) = i { Some(*v) } else { None }).collect();
                match (flags, value.as_integers()) {
                    (Some(flags), _) if !flags.is_empty() || name == "window_reversal" => self.vhlo_bools(&flags),
                    (_, Some(values)) => self.vhlo_ints(&values),
                    _ => self.vhlo_attribute(value),
                }
            }
            // Unit attributes are booleans in artifacts.
            Attribute::Unit => Ok(self.vhlo_bool(true)),
            _ => self.vhlo_attribute(value),
        }
    }

    /// The artifact's value for an attribute that a program omits.
    fn other_default(&mut self, base: &str, name: &str, own: &Attributes) -> Result<usize> {
        let spatial = find(own, "input_spatial_dimensions").and_then(Attribute::as_integers).map_or(0, |l| l.len());
        match name {
            "channel_id" | "channel_type" | "batch_dims" => self.vhlo_integer(0, ElementType::I64),
            "use_global_device_ids" | "has_dynamic_root" | "is_host_transfer" | "indices_are_sorted" => {
                Ok(self.vhlo_bool(false))
            }
            "feature_group_count" | "batch_group_count" => self.vhlo_integer(1, ElementType::I64),
            "window_strides" | "lhs_dilation" | "rhs_dilation" => self.vhlo_ints(&vec![1; spatial]),
            "window_reversal" => self.vhlo_bools(&vec![false; spatial]),
            "padding" => self.vhlo_pairs(&vec![(0, 0); spatial]),
            "precision_config" => self.precision(&[Precision::Default; 2]),
            "infeed_config" | "outfeed_config" => Ok(self.vhlo_string(b"")),
            "layout" => Ok(self.vhlo_array(&[])),
            "source_target_pairs"
            | "known_expanding_dimensions"
            | "known_nonexpanding_dimensions"
            | "operand_batching_dims"
            | "start_indices_batching_dims" => self.vhlo_ints(&[]),
            _ => Err(Error::new(format_args!("attribute `{name}` of {base} is missing"))),
        }
    }

    /// Ops of other dialects. Artifacts can contain those of Shardy since 1.11.0.
    pub(super) fn foreign(&mut self, name: &str, own: &Attributes) -> Result<Vec<usize>> {
        let Some(names) = crate::ops::shardy_attributes(name) else {
            return Err(Error::new("an op of a dialect that portable artifacts cannot contain"));
        };
        needs(self.version, Version(1, 11, 0), || "an op of another dialect".to_owned())?;
        let mut numbers = Vec::new();
        for attribute in names.iter() {
            match find(own, attribute) {
                Some(value) => numbers.push(self.builtin_attribute(value)),
                None => return Err(Error::new(format_args!("attribute `{attribute}` is missing"))),
            }
        }
        Ok(numbers)
    }
}
