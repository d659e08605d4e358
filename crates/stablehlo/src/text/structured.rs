//! Parses StableHLO's structured attributes that the IR keeps as text. The text is normalized, so that equal attributes
//! have equal texts.

use super::parser::Parser;
use crate::error::Result;
use crate::ir::{Attribute, ElementType};
use crate::print::{attribute_text, float_text, quoted};

impl Parser<'_> {
    /// Parses the body of `#stablehlo.name<...>` after the name.
    pub(super) fn structured_attribute(&mut self, name: &str) -> Result<Attribute> {
        let start = self.pos;
        let body = self.angle_body()?;
        let inside = Parser::new(&body[1..body.len() - 1]).within(self);
        let canonical = inside.structured(name).map_err(|e| e.with_offset(start))?;
        Ok(Attribute::Other(match canonical {
            Some(canonical) => format!("#stablehlo.{name}<{canonical}>"),
            None => format!("#stablehlo.{name}{body}"),
        }))
    }

    /// Returns the normalized body of `#stablehlo.name<...>`. The parser's text is the body without brackets. Returns
    /// `None` if the text is kept unchanged.
    fn structured(mut self, name: &str) -> Result<Option<String>> {
        let body = match name {
            "output_operand_alias" => self.output_operand_alias()?,
            "dot_algorithm" => self.dot_algorithm()?,
            "result_accuracy" => self.result_accuracy()?,
            "bounds" => self.bounds()?,
            "axis_ref" => self.axis_ref()?,
            "mesh_axis" => self.mesh_axis()?,
            "mesh" => self.stablehlo_mesh()?,
            "replica_group_mesh_axes" => self.replica_group_mesh_axes()?,
            _ => return Ok(None),
        };
        if self.at_end() { Ok(Some(body)) } else { Err(self.expected("the end of the attribute")) }
    }

    /// Parses `name =`. A comma precedes all fields but the first.
    fn field(&mut self, name: &str, first: bool) -> Result<()> {
        if !first {
            self.expect(",")?;
        }
        if !self.keyword(name) {
            return Err(self.expected(&format!("`{name}`")));
        }
        self.expect("=")
    }

    /// Parses a string, and returns it in quotes.
    fn quoted_name(&mut self) -> Result<String> {
        self.string().map(|name| quoted(&name))
    }

    fn index_list(&mut self) -> Result<Vec<i64>> {
        self.list("[", "]", Self::integer)
    }

    /// Parses a list in square brackets, and returns its normalized text. The text of each element must start with
    /// `prefix`.
    fn attributes_of(&mut self, prefix: &str) -> Result<String> {
        let items = self.list("[", "]", |p| p.attribute_of(prefix))?;
        Ok(format!("[{}]", items.join(", ")))
    }

    fn attribute_of(&mut self, prefix: &str) -> Result<String> {
        match self.attribute()? {
            Attribute::Other(text) if text.starts_with(prefix) => Ok(text),
            _ => Err(self.error(format_args!("expected an attribute of the form `{prefix}...>`"))),
        }
    }

    fn output_operand_alias(&mut self) -> Result<String> {
        self.field("output_tuple_indices", true)?;
        let output = self.index_list()?;
        self.field("operand_index", false)?;
        let operand = self.integer()?;
        self.field("operand_tuple_indices", false)?;
        let inner = self.index_list()?;
        Ok(format!("output_tuple_indices = {output:?}, operand_index = {operand}, operand_tuple_indices = {inner:?}"))
    }

    /// Parses the operand and accumulation types, the component and operation counts, and the accumulation mode.
    fn dot_algorithm(&mut self) -> Result<String> {
        let mut text = String::new();
        for name in ["lhs_precision_type", "rhs_precision_type", "accumulation_type"] {
            self.field(name, text.is_empty())?;
            let comma = if text.is_empty() { "" } else { ", " };
            text.push_str(&format!("{comma}{name} = {}", self.ty()?.into_type()));
        }
        for name in ["lhs_component_count", "rhs_component_count", "num_primitive_operations"] {
            self.field(name, false)?;
            text.push_str(&format!(", {name} = {}", self.integer()?));
        }
        self.field("allow_imprecise_accumulation", false)?;
        let imprecise = match self.attribute()? {
            Attribute::Bool(imprecise) => imprecise,
            _ => return Err(self.error("`allow_imprecise_accumulation` must be true or false")),
        };
        Ok(format!("{text}, allow_imprecise_accumulation = {imprecise}"))
    }

    /// Parses tolerances and a mode. Omits tolerances that are zero.
    fn result_accuracy(&mut self) -> Result<String> {
        let (mut text, mut first) = (String::new(), true);
        for name in ["atol", "rtol", "ulps"] {
            let after_comma = !first && self.looking_at(",") && self.after_comma() == name;
            if !(after_comma || first && self.word() == name) {
                continue;
            }
            self.field(name, first)?;
            first = false;
            match self.attribute()? {
                Attribute::Integer(0, ElementType::I64) if name == "ulps" => {}
                Attribute::Integer(value, ElementType::I64) if name == "ulps" => {
                    text.push_str(&format!("ulps = {value}, "));
                }
                Attribute::Float(value, ElementType::F64) if name != "ulps" => {
                    if value.to_bits() != 0 {
                        text.push_str(&format!("{name} = {}, ", float_text(value.to_bits(), ElementType::F64)));
                    }
                }
                _ => return Err(self.error(format_args!("`{name}` must be a plain number"))),
            }
        }
        self.field("mode", first)?;
        const MODE: &str = "#stablehlo.result_accuracy_mode<";
        let mode = self.attribute_of(MODE)?;
        let word = mode.strip_prefix(MODE).and_then(|rest| rest.strip_suffix('>')).unwrap_or_default().trim();
        if !matches!(word, "DEFAULT" | "HIGHEST" | "TOLERANCE") {
            return Err(self.error(format_args!("unknown mode `{word}`; it is DEFAULT, HIGHEST or TOLERANCE")));
        }
        Ok(format!("{text}mode = {MODE}{word}>"))
    }

    /// Returns the word after a comma, without consuming it.
    fn after_comma(&mut self) -> String {
        let start = self.pos;
        self.eat(",");
        let word = self.word().to_owned();
        self.pos = start;
        word
    }

    /// Parses bounds, such as `16, ?`.
    fn bounds(&mut self) -> Result<String> {
        let mut items = Vec::new();
        while !self.at_end() {
            items.push(if self.eat("?") { "?".to_owned() } else { self.integer()?.to_string() });
            if !self.eat(",") {
                break;
            }
        }
        Ok(items.join(", "))
    }

    /// Parses an axis, such as `name = "x", sub_axis_info = (1)2`.
    fn axis_ref(&mut self) -> Result<String> {
        self.field("name", true)?;
        let mut text = format!("name = {}", self.quoted_name()?);
        if self.looking_at(",") {
            self.field("sub_axis_info", false)?;
            self.expect("(")?;
            let before = self.integer()?;
            self.expect(")")?;
            text.push_str(&format!(", sub_axis_info = ({before}){}", self.integer()?));
        }
        Ok(text)
    }

    /// Parses a mesh axis, such as `name = "x", size = 2`.
    fn mesh_axis(&mut self) -> Result<String> {
        self.field("name", true)?;
        let name = self.quoted_name()?;
        self.field("size", false)?;
        Ok(format!("name = {name}, size = {}", self.integer()?))
    }

    /// Parses a mesh: `axes = [...], device_ids = dense<...>`.
    fn stablehlo_mesh(&mut self) -> Result<String> {
        self.field("axes", true)?;
        let mut text = format!("axes = {}", self.attributes_of("#stablehlo.mesh_axis<")?);
        if self.looking_at(",") {
            self.field("device_ids", false)?;
            match self.attribute()? {
                devices @ Attribute::Tensor(_) => {
                    text.push_str(&format!(", device_ids = {}", attribute_text(&devices)));
                }
                _ => return Err(self.error("`device_ids` must be a tensor")),
            }
        }
        Ok(text)
    }

    /// Parses `mesh = @name, axes = [...]`. The mesh is a symbol name or a mesh attribute.
    fn replica_group_mesh_axes(&mut self) -> Result<String> {
        self.field("mesh", true)?;
        let mesh = if self.peek() == b'@' {
            attribute_text(&Attribute::Symbol(self.symbol()?))
        } else {
            self.attribute_of("#stablehlo.mesh<")?
        };
        self.field("axes", false)?;
        Ok(format!("mesh = {mesh}, axes = {}", self.attributes_of("#stablehlo.axis_ref<")?))
    }
}
