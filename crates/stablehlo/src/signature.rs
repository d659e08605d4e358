//! The declared types of functions, for the text reader, the bytecode reader and the writer.

use crate::compatible::{all_compatible, unbounded};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Attribute, Attributes, TensorType, Type, function_text};

/// Returns the attributes of the `func.func` op of a function without a body. `lists` holds the attributes of each
/// argument and of each result.
pub(crate) fn declaration(
    name: &str,
    ty: String,
    visibility: Option<&str>,
    lists: [Vec<Attributes>; 2],
    discardable: Attributes,
) -> Attributes {
    let string = |text: &str| Attribute::String(text.as_bytes().to_vec().into());
    let mut attributes = Attributes::new();
    for (name, list) in ["arg_attrs", "res_attrs"].into_iter().zip(lists) {
        if list.iter().any(|entries| !entries.is_empty()) {
            let list = list.into_iter().map(Attribute::Dictionary).collect();
            attributes.push((name.to_owned(), Attribute::Array(list)));
        }
    }
    attributes.push(("function_type".to_owned(), Attribute::Type(Type::Other(ty))));
    attributes.push(("sym_name".to_owned(), string(name)));
    if let Some(visibility) = visibility.filter(|v| !v.is_empty()) {
        attributes.push(("sym_visibility".to_owned(), string(visibility)));
    }
    attributes.extend(discardable);
    attributes
}

/// Returns the result types of a function. `declared` is the declared function type, and `inputs` and `returned` are
/// the types that the body takes and returns. A declared extent may be dynamic where the extent in the body is static.
pub(crate) fn declared_results(declared: &Type, inputs: &[Type], returned: Vec<Type>) -> Result<Vec<Type>> {
    let actual = function_text(inputs, &returned);
    if matches!(declared, Type::Other(text) if *text == actual) {
        return Ok(returned);
    }
    open_results(declared, inputs, &returned)
        .ok_or_else(|| Error::new(ErrorKind::Type, format_args!("is declared as {declared} but its body is {actual}")))
}

#[cold]
fn open_results(declared: &Type, inputs: &[Type], returned: &[Type]) -> Option<Vec<Type>> {
    let Type::Other(text) = declared else { return None };
    // The declared inputs must equal the body's inputs, so only the results need to be split.
    let results = text.strip_prefix(function_text(inputs, &[]).strip_suffix("()")?)?;
    let mut declared = Vec::with_capacity(returned.len());
    let mut each = |text: &str| declared.extend(returned.get(declared.len()).map(|actual| result(text, actual)));
    match results.strip_prefix('(') {
        Some(list) => items(list, &mut each).filter(|rest| rest.is_empty()).map(drop)?,
        None => each(results),
    }
    (declared.len() == returned.len() && all_compatible(returned, &declared)).then_some(declared)
}

/// Returns the type of a declared result, given the type that the body returns.
fn result(text: &str, returned: &Type) -> Type {
    match unbounded(text) {
        _ if returned.to_string() == text => returned.clone(),
        Some((shape, element)) if !text.contains(',') => Type::Tensor(TensorType { shape, element }),
        _ => Type::Other(text.to_owned()),
    }
}

/// Splits a function type in the form of [`function_text`] into the texts of its input types and of its result types.
/// Returns `None` if the text is not a function type.
pub(crate) fn split(text: &str) -> Option<(Vec<&str>, Vec<&str>)> {
    let (mut inputs, mut results) = (Vec::new(), Vec::new());
    let rest = items(text.strip_prefix('(')?, &mut |text| inputs.push(text))?.strip_prefix(" -> ")?;
    match rest.strip_prefix('(') {
        Some(list) if items(list, &mut |text| results.push(text)) == Some("") => {}
        _ => results = vec![rest],
    }
    Some((inputs, results))
}

/// Calls `each` with each element of a list that ends in a closing parenthesis. Returns the text after the list, or
/// `None` if the brackets are not balanced.
fn items<'t>(list: &'t str, each: &mut dyn FnMut(&'t str)) -> Option<&'t str> {
    let (mut start, mut depth, mut last) = (0, 0usize, 0);
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'(' | b'<' | b'[' | b'{' => depth += 1,
            b',' | b')' if depth == 0 => {
                if at > start {
                    each(&list[start..at]);
                }
                if byte == b')' {
                    return Some(&list[at + 1..]);
                }
                // Skip the space after the comma.
                start = at + 2;
            }
            // The arrow of a function type is not a closing bracket.
            b'>' if last == b'-' => {}
            b')' | b'>' | b']' | b'}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        last = byte;
    }
    None
}

/// Adds a declared visibility of `public` or `nested` to a function's attributes. The field `public` of a function does
/// not distinguish these visibilities from an absent one.
pub(crate) fn keep_visibility(visibility: Option<&str>, attributes: &mut Attributes) {
    if let Some(stated @ ("public" | "nested")) = visibility {
        attributes.push(("sym_visibility".to_owned(), Attribute::String(stated.as_bytes().to_vec().into())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{DYNAMIC, ElementType};

    #[test]
    fn splits_function_types() {
        assert_eq!(split("() -> ()"), Some((vec![], vec![])));
        assert_eq!(split("(tensor<2xf32>, tuple<tensor<i1>, !stablehlo.token>) -> tensor<f32>"), {
            Some((vec!["tensor<2xf32>", "tuple<tensor<i1>, !stablehlo.token>"], vec!["tensor<f32>"]))
        });
        assert_eq!(split("((i1) -> i2, i3) -> (i4, i5)"), Some((vec!["(i1) -> i2", "i3"], vec!["i4", "i5"])));
        for text in ["", "tensor<f32>", "(i1", "(i1) i2", "(i1>) -> i2"] {
            assert_eq!(split(text), None, "{text}");
        }
    }

    #[test]
    fn dynamic_extents() {
        let tensor = |extent| Type::Tensor(TensorType::new([extent], ElementType::F32));
        let declared = |text: &str| declared_results(&Type::Other(text.to_owned()), &[tensor(3)], vec![tensor(3)]);
        assert_eq!(declared("(tensor<3xf32>) -> tensor<3xf32>").unwrap(), [tensor(3)]);
        assert_eq!(declared("(tensor<3xf32>) -> tensor<?xf32>").unwrap(), [tensor(DYNAMIC)]);
        let bounded = "tensor<?xf32, #stablehlo.bounds<4>>";
        assert_eq!(declared(&format!("(tensor<3xf32>) -> {bounded}")).unwrap(), [Type::Other(bounded.to_owned())]);
        for text in
            ["(tensor<3xf32>) -> tensor<4xf32>", "(tensor<?xf32>) -> tensor<3xf32>", "tensor<3xf32>", "() -> ()"]
        {
            assert!(declared(text).is_err(), "{text}");
        }
    }
}
