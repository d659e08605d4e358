//! Rules of string attributes: the accuracy of elementwise ops, the algorithm of `dot_general`, and the names of
//! composites.

use super::site::{Site, ensure};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;

#[inline]
pub(super) fn verify(site: &Site<'_>) -> Result<()> {
    match &site.op.kind {
        OpKind::Unary(_) => match text_of(site, "result_accuracy") {
            Some(text) => accuracy(text),
            None => Ok(()),
        },
        OpKind::DotGeneral { precision, .. } => match text_of(site, "algorithm") {
            Some(text) => {
                let plain = precision.iter().all(|&p| p == Precision::Default);
                ensure!(Attribute, plain, "the precision must be DEFAULT if an algorithm is given");
                algorithm(text)
            }
            None => Ok(()),
        },
        OpKind::Composite { name, .. } => {
            ensure!(Attribute, is_namespaced(name), "the name must be of the form `namespace.op`, not `{name}`");
            Ok(())
        }
        _ => Ok(()),
    }
}

fn text_of<'a>(site: &Site<'a>, name: &str) -> Option<&'a str> {
    match site.op.attributes.iter().find(|(n, _)| n == name) {
        Some((_, Attribute::Other(text))) => Some(text),
        _ => None,
    }
}

/// Returns the text after `name =`, up to the next comma or `>`. Returns `None` if the field `name` is absent.
pub(super) fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let rest = text[text.find(name)? + name.len()..].trim_start().strip_prefix('=')?;
    rest.split([',', '>']).next().map(str::trim)
}

/// Checks that tolerances are not negative, and that they are zero if the mode is `HIGHEST`.
fn accuracy(text: &str) -> Result<()> {
    let highest = text.contains("<HIGHEST>") || text.contains("mode HIGHEST");
    for name in ["atol", "rtol", "ulps"] {
        let Some(value) = field(text, name) else { continue };
        ensure!(Attribute, !value.starts_with('-'), "`result_accuracy` has the negative tolerance {name} = {value}");
        let mantissa = value.split(['e', 'E']).next().unwrap_or_default();
        let zero = mantissa.bytes().all(|b| matches!(b, b'0' | b'.'));
        ensure!(Attribute, !highest || zero, "`result_accuracy` has the mode HIGHEST and a tolerance {name} = {value}");
    }
    Ok(())
}

/// Algorithms of the specification. Each row contains the operand type, the accumulation type, and the valid numbers of
/// primitive operations.
const ALGORITHMS: [(&str, &str, &str); 7] = [
    ("f16", "f16", "1"),
    ("f16", "f32", "1"),
    ("bf16", "bf16", "1"),
    ("bf16", "f32", "1 3 6 9"),
    ("tf32", "f32", "1 3"),
    ("f32", "f32", "1"),
    ("f64", "f64", "1"),
];

fn algorithm(text: &str) -> Result<()> {
    let get = |name: &str| {
        field(text, name).ok_or_else(|| Error::new(ErrorKind::Attribute, format_args!("`algorithm` lacks `{name}`")))
    };
    let counts = ["lhs_component_count", "rhs_component_count", "num_primitive_operations"].map(get);
    let mut single = true;
    for (count, name) in counts.iter().zip(["lhs", "rhs", "operations"]) {
        let count = count.as_ref().map_err(Error::clone)?;
        ensure!(
            Attribute,
            count.parse::<i64>().is_ok_and(|n| n > 0),
            "`algorithm` has {count} {name} components, which must be positive"
        );
        single &= *count == "1" || name == "operations";
    }
    let (lhs, rhs) = (get("lhs_precision_type")?, get("rhs_precision_type")?);
    let (sums, products) = (get("accumulation_type")?, get("num_primitive_operations")?);
    let rough = get("allow_imprecise_accumulation")? == "true";
    // StableHLO 1.21 and later allow several primitive operations for 8-bit floating-point types.
    let tiny = lhs.starts_with("f8") && rhs.starts_with("f8") && sums == "f32" && matches!(products, "1" | "3" | "4");
    let listed = |&(operands, total, counts): &(&str, &str, &str)| {
        lhs == operands && rhs == operands && sums == total && counts.split(' ').any(|count| count == products)
    };
    ensure!(
        Attribute,
        single && (tiny || (!rough && ALGORITHMS.iter().any(listed))),
        "no known hardware supports the algorithm {text}"
    );
    Ok(())
}

/// Returns whether a name has the form `namespace.op`. The namespace starts with a letter, and consists of letters,
/// digits and `_`. The parts after it may also contain `$`, and start with any of these characters.
fn is_namespaced(name: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut parts = name.split('.');
    let first = parts.next().unwrap_or_default();
    let rest: Vec<&str> = parts.collect();
    first.starts_with(|c: char| c.is_ascii_alphabetic())
        && first.chars().all(word)
        && !rest.is_empty()
        && rest.iter().all(|part| !part.is_empty() && part.chars().all(|c| word(c) || c == '$'))
}
