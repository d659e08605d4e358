//! Reads the attributes of custom calls.

use ::stablehlo::ir::{self, Op, OpKind};

use super::types::element_type;
use crate::ElementType;
use crate::ffi::{Attribute, Attributes};

/// Maximum length to which a splat list is expanded.
const MAX_LIST: usize = 1 << 16;

/// Returns the attributes of a custom call for its handler. They come from the attribute `mhlo.backend_config` if it is
/// a dictionary, and otherwise from `backend_config`. JAX writes `mhlo.backend_config` if `backend_config` is empty. An
/// attribute is omitted if [`Attribute`] cannot represent its value. Returns `None` if the op is not a custom call.
pub fn call_attributes(op: &Op) -> Option<Attributes> {
    let OpKind::CustomCall { backend_config, .. } = &op.kind else { return None };
    Some(config_attributes(backend_config, &op.attributes))
}

/// Returns the same attributes as [`call_attributes`], from the `backend_config` and the discardable attributes of a
/// call.
pub fn config_attributes(backend_config: &ir::Attribute, discardable: &ir::Attributes) -> Attributes {
    let beside = discardable.iter().find(|(name, _)| name == "mhlo.backend_config").map(|(_, value)| value);
    match (beside, backend_config) {
        (Some(ir::Attribute::Dictionary(entries)), _) | (_, ir::Attribute::Dictionary(entries)) => {
            let mut attributes = Attributes::default();
            for (name, value) in entries {
                if let Some(known) = attribute(value) {
                    attributes.values.push((name.clone(), known));
                    attributes.types.push(number_type(value));
                }
            }
            attributes
        }
        (_, ir::Attribute::String(text)) => {
            Attributes { text: Some(String::from_utf8_lossy(text).into_owned()), ..Attributes::default() }
        }
        _ => Attributes::default(),
    }
}

/// Returns the element type of an integer or float attribute for [`Attributes::types`]. Returns `None` for types that
/// buffers do not support and for other attributes. Also returns `None` for `S64` and `F64`, because handlers assume 64
/// bits if the type is `None`.
fn number_type(value: &ir::Attribute) -> Option<ElementType> {
    let (ir::Attribute::Integer(_, ty) | ir::Attribute::Float(_, ty)) = value else { return None };
    element_type(*ty).ok().filter(|ty| !matches!(ty, ElementType::S64 | ElementType::F64))
}

fn attribute(value: &ir::Attribute) -> Option<Attribute> {
    Some(match value {
        ir::Attribute::Unit => Attribute::Bool(true),
        ir::Attribute::Bool(value) => Attribute::Bool(*value),
        ir::Attribute::Integer(value, _) => Attribute::Int(*value),
        ir::Attribute::Float(value, _) => Attribute::Float(*value),
        ir::Attribute::String(text) => Attribute::String(String::from_utf8_lossy(text).into_owned()),
        ir::Attribute::Symbol(name) => Attribute::String(name.clone()),
        ir::Attribute::Dictionary(entries) => {
            let known = entries.iter().filter_map(|(name, value)| Some((name.clone(), attribute(value)?)));
            Attribute::Dictionary(known.collect())
        }
        list => match list.as_integers() {
            Some(integers) => Attribute::IntList(integers),
            None => Attribute::FloatList(floats(list)?),
        },
    })
}

/// Returns the values of a list of floats. Returns `None` for another attribute, and for a splat of more than
/// [`MAX_LIST`] elements.
fn floats(list: &ir::Attribute) -> Option<Vec<f64>> {
    let literal = match list {
        ir::Attribute::DenseArray(literal) | ir::Attribute::Tensor(literal) => literal,
        ir::Attribute::Array(values) => {
            let float = |value: &ir::Attribute| match value {
                ir::Attribute::Float(value, _) => Some(*value),
                _ => None,
            };
            return values.iter().map(float).collect();
        }
        _ => return None,
    };
    let wide: Vec<f64> = match literal.ty.element {
        ir::ElementType::F64 => literal.data.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect(),
        ir::ElementType::F32 => {
            literal.data.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes).into()).collect()
        }
        _ => return None,
    };
    if !literal.splat {
        return Some(wide);
    }
    // A splat may represent a list that does not fit into memory.
    let count = literal.ty.num_elements().filter(|count| *count <= MAX_LIST)?;
    Some(vec![*wide.first()?; count])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stablehlo::{VerifyLevel, entry, parse};
    use crate::{Program, Result};

    fn attributes(config: &str) -> Result<Option<Attributes>> {
        let code = format!(
            "func.func @main(%x: tensor<f32>) -> tensor<f32> {{
                %0 = stablehlo.custom_call @scale(%x) {{{config}}} : (tensor<f32>) -> tensor<f32>
                return %0 : tensor<f32>
            }}"
        );
        let module = parse(&Program::mlir(code), VerifyLevel::FULL)?;
        Ok(call_attributes(&entry(&module)?.body.ops[0]))
    }

    #[test]
    fn handler_receives_attributes_of_program() {
        let given = attributes(
            "api_version = 4 : i32, backend_config = {factor = 1.5 : f32, times = 3 : i64, name = \"x\", on = true,
             sizes = array<i64: 1, 2>, weights = array<f64: 0.5, 2.0>, same = dense<0.25> : tensor<3xf32>,
             inner = {a = 1 : ui8}}",
        );
        let given = given.unwrap().unwrap();
        let value = |name: &str| given.get(name).cloned().unwrap();
        assert_eq!(value("factor"), Attribute::Float(1.5));
        assert_eq!(value("times"), Attribute::Int(3));
        assert_eq!(value("name"), Attribute::String("x".to_owned()));
        assert_eq!(value("on"), Attribute::Bool(true));
        assert_eq!(value("sizes"), Attribute::IntList(vec![1, 2]));
        assert_eq!(value("weights"), Attribute::FloatList(vec![0.5, 2.0]));
        assert_eq!(value("same"), Attribute::FloatList(vec![0.25; 3]));
        assert_eq!(value("inner"), Attribute::Dictionary(vec![("a".to_owned(), Attribute::Int(1))]));
        let ty = |name: &str| given.types[given.values.iter().position(|(other, _)| other == name).unwrap()];
        assert_eq!((ty("factor"), ty("times"), ty("name")), (Some(ElementType::F32), None, None));

        let beside = attributes("backend_config = \"\", mhlo.backend_config = {n = 2 : i32}").unwrap().unwrap();
        assert_eq!((beside.get("n"), &beside.text), (Some(&Attribute::Int(2)), &None));
        let text = attributes("backend_config = \"opaque\"").unwrap().unwrap();
        assert_eq!(text.text.as_deref(), Some("opaque"));
        let many = attributes("api_version = 4 : i32, backend_config = {z = dense<0.5> : tensor<99999999xf32>}");
        assert_eq!(many.unwrap().unwrap().values, []);
    }

    #[test]
    fn other_ops_have_none() {
        let code = "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }";
        let module = parse(&Program::mlir(code), VerifyLevel::FULL).unwrap();
        assert_eq!(call_attributes(&entry(&module).unwrap().body.ops[0]), None);
    }
}
