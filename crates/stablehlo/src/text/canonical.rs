//! Converts the attribute names of MLIR text to the names in portable artifacts, which the rest of the crate uses.

use super::ops::opcode_of;
use super::parser::Parser;
use crate::attributes::int;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Attribute, Attributes};
use crate::ops::{Opcode, is_attribute};

/// Splits an op's attributes into its inherent attributes, under their names in portable artifacts, and its discardable
/// attributes.
///
/// `listed` are the attributes from `<{...}>` or from keywords of the op's custom form. `rest` are the attributes from
/// the op's dictionary, which may contain both inherent and discardable attributes.
pub(super) fn split(name: &str, listed: Attributes, rest: Attributes) -> Result<(Attributes, Attributes)> {
    let Some(base) = name.strip_prefix("stablehlo.") else {
        // The inherent attributes of an op of another dialect are `listed`. If `listed` is empty, all attributes in the
        // op's dictionary are treated as inherent.
        return Ok(if listed.is_empty() { (rest, listed) } else { (listed, rest) });
    };
    let mut own = Attributes::with_capacity(listed.len());
    let mut discardable = Attributes::new();
    let code = opcode_of(name);
    let known = code != Opcode::Other;
    let listed = listed.into_iter().map(|entry| (entry, !known));
    for ((attribute, value), own_anyway) in listed.chain(rest.into_iter().map(|entry| (entry, false))) {
        match attribute.as_str() {
            // The names of an unknown op's inherent attributes are not known, so exactly the attributes in `listed` are
            // inherent.
            _ if !known && own_anyway => own.push((attribute, value)),
            _ if !known => discardable.push((attribute, value)),
            "operandSegmentSizes" | "resultSegmentSizes" | "operand_segment_sizes" | "result_segment_sizes" => {}
            "dimension_numbers" if matches!(code, Opcode::Convolution | Opcode::DynamicConv) => {
                let text = body(&value)?;
                own.extend(match text.strip_prefix("raw") {
                    Some(fields) => Parser::new(fields).fields()?,
                    None => convolution(text)?,
                });
            }
            "dimension_numbers" if matches!(code, Opcode::Gather | Opcode::DynamicGather) => {
                own.extend(Parser::new(body(&value)?).fields()?)
            }
            "dot_dimension_numbers" if code == Opcode::DotGeneral => own.extend(Parser::new(body(&value)?).fields()?),
            "scatter_dimension_numbers" if code == Opcode::Scatter => {
                own.extend(Parser::new(body(&value)?).fields()?);
            }
            "channel_handle" if is_attribute(base, "channel_id") => {
                for (field, value) in Parser::new(body(&value)?).fields()? {
                    match field.as_str() {
                        "handle" => own.push(("channel_id".to_owned(), value)),
                        "type" => own.push(("channel_type".to_owned(), value)),
                        _ => {}
                    }
                }
            }
            "algorithm" if code == Opcode::DotGeneral => own.push((attribute, value)),
            _ if is_attribute(base, &attribute) => own.push((attribute, value)),
            _ => discardable.push((attribute, value)),
        }
    }
    if let Some((_, (name, _))) = own.iter().enumerate().find(|(i, (name, _))| own[..*i].iter().any(|(n, _)| n == name))
    {
        return Err(Error::new(ErrorKind::Attribute, format_args!("attribute `{name}` is given twice")));
    }
    Ok((own, discardable))
}

/// Checks the form of dimension numbers in an attribute of a module. They must have the same form as in an inherent
/// attribute of an op. Accepts every other attribute.
pub(super) fn check(value: &Attribute) -> Result<()> {
    let Attribute::Other(text) = value else { return Ok(()) };
    let known: &[&str] = match text.strip_prefix("#stablehlo.").and_then(|rest| rest.split_once('<')) {
        Some(("conv", _)) => {
            let text = body(value)?;
            return if text.starts_with("raw") { Ok(()) } else { convolution(text).map(drop) };
        }
        Some(("dot", _)) => &[
            "lhs_batching_dimensions",
            "rhs_batching_dimensions",
            "lhs_contracting_dimensions",
            "rhs_contracting_dimensions",
        ],
        Some(("gather", _)) => &[
            "offset_dims",
            "collapsed_slice_dims",
            "operand_batching_dims",
            "start_indices_batching_dims",
            "start_index_map",
            "index_vector_dim",
        ],
        Some(("scatter", _)) => &[
            "update_window_dims",
            "inserted_window_dims",
            "input_batching_dims",
            "scatter_indices_batching_dims",
            "scatter_dims_to_operand_dims",
            "index_vector_dim",
        ],
        _ => return Ok(()),
    };
    match Parser::new(body(value)?).fields()?.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        Some((name, _)) => Err(Error::new(ErrorKind::Attribute, format_args!("unknown field `{name}`"))),
        None => Ok(()),
    }
}

/// Returns the text between the brackets of `#stablehlo.name<...>`. Returns an error for any other attribute.
fn body(value: &Attribute) -> Result<&str> {
    let inside = match value {
        Attribute::Other(text) => text.split_once('<').and_then(|(_, rest)| rest.strip_suffix('>')),
        _ => None,
    };
    inside.ok_or_else(|| Error::new(ErrorKind::Attribute, "expected an attribute of the form `#stablehlo.name<...>`"))
}

/// Parses dimension numbers such as `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`.
pub(super) fn convolution(text: &str) -> Result<Attributes> {
    let wrong =
        || Error::new(ErrorKind::Syntax, format_args!("`{text}` is not of the form `[b, 0, f]x[0, i, o]->[b, 0, f]`"));
    let (inputs, output) = text.split_once("->").ok_or_else(wrong)?;
    let (input, kernel) = inputs.split_once('x').ok_or_else(wrong)?;
    let mut attributes = Attributes::new();
    for (list, prefix, labels) in [
        (input, "input", [("b", "batch"), ("f", "feature")]),
        (kernel, "kernel", [("i", "input_feature"), ("o", "output_feature")]),
        (output, "output", [("b", "batch"), ("f", "feature")]),
    ] {
        let list = list.trim().strip_prefix('[').and_then(|l| l.strip_suffix(']')).ok_or_else(wrong)?;
        let items: Vec<&str> = list.split(',').map(str::trim).collect();
        let mut spatial = vec![None; items.len()];
        let mut named = [None; 2];
        for (position, &item) in items.iter().enumerate() {
            let position = i64::try_from(position).map_err(|_| wrong())?;
            let slot = match labels.iter().position(|(label, _)| *label == item) {
                Some(which) => &mut named[which],
                None if item == "?" => continue,
                None => spatial.get_mut(item.parse::<usize>().map_err(|_| wrong())?).ok_or_else(wrong)?,
            };
            if slot.replace(position).is_some() {
                return Err(wrong());
            }
        }
        for (which, (_, name)) in labels.iter().enumerate() {
            let position = named[which].ok_or_else(wrong)?;
            attributes.push((format!("{prefix}_{name}_dimension"), int(position)));
        }
        let count = spatial.iter().take_while(|s| s.is_some()).count();
        if spatial[count..].iter().any(Option::is_some) {
            return Err(wrong());
        }
        let spatial = spatial.into_iter().flatten().map(int).collect();
        attributes.push((format!("{prefix}_spatial_dimensions"), Attribute::Array(spatial)));
    }
    Ok(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn convolution_dimensions() {
        let attributes = convolution("[b, 1, 0, f]x[0, 1, i, o]->[f, b, 0, 1]").unwrap();
        let find = |name: &str| attributes.iter().find(|(n, _)| n == name).map(|(_, a)| a.clone());
        let ints = |list: &[i64]| Some(Attribute::Array(list.iter().map(|&v| int(v)).collect()));
        assert_eq!(find("input_spatial_dimensions"), ints(&[2, 1]));
        assert_eq!(find("output_feature_dimension"), Some(int(0)));
        assert_eq!(find("kernel_output_feature_dimension"), Some(int(3)));
        for bad in [
            "",
            "[b]x[i]",
            "[b, f, 0, 0]x[i, o, 0]->[b, f, 0]",
            "[b, f, 7]x[i, o, 0]->[b, f, 0]",
            "[b, f]x[i, o]->[b, b]",
        ] {
            assert!(convolution(bad).is_err(), "{bad}");
        }
    }
}
