//! Finds the attributes that contain shardings and meshes.

use std::collections::HashMap;

use stablehlo::Result;
use stablehlo::ir::{Attribute, Attributes, Module};

use crate::sharding_text::{self, ParsedMesh};

/// Returns the attribute called `name`.
pub fn find<'a>(attributes: &'a Attributes, name: &str) -> Option<&'a Attribute> {
    attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value)
}

/// Returns the text of a string, a symbol or an unparsed attribute, or `None` for any other attribute.
pub fn text(attribute: &Attribute) -> Option<String> {
    match attribute {
        Attribute::Other(text) | Attribute::Symbol(text) => Some(text.clone()),
        Attribute::String(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}

/// Returns the meshes of the program by their symbols, such as `@name`.
pub fn meshes(module: &Module) -> Result<HashMap<String, ParsedMesh>> {
    let mut meshes = HashMap::new();
    for (op, attributes) in &module.symbols {
        if op == "sdy.mesh"
            && let Some(name) = find(attributes, "sym_name").and_then(text)
            && let Some(mesh) = find(attributes, "mesh").and_then(text)
        {
            meshes.insert(format!("@{name}"), sharding_text::mesh(&mesh)?);
        }
    }
    Ok(meshes)
}
