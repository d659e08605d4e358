//! Splits types and attributes that the IR keeps as text.

use crate::ir::{Attribute, DYNAMIC, ElementType};

/// Components of a tensor or buffer type.
pub(super) struct Tensor<'a> {
    pub(super) buffer: bool,
    pub(super) shape: Vec<i64>,
    pub(super) element: &'a str,
    pub(super) encoding: Option<&'a str>,
}

/// Splits a type of the form `tensor<2x?xT, encoding>` or `memref<2xT>` into its components. Returns `None` for any
/// other text.
pub(super) fn tensor(text: &str) -> Option<Tensor<'_>> {
    let (inside, buffer) = match text.strip_prefix("tensor<") {
        Some(rest) => (rest, false),
        None => (text.strip_prefix("memref<")?, true),
    };
    let mut parts = split(inside.strip_suffix('>')?).into_iter();
    let (mut rest, encoding) = (parts.next()?, parts.next());
    if parts.next().is_some() {
        return None;
    }
    let mut shape = Vec::new();
    while let Some((extent, tail)) = rest.split_once('x') {
        shape.push(match extent {
            "?" => DYNAMIC,
            _ if !extent.is_empty() && extent.bytes().all(|b| b.is_ascii_digit()) => extent.parse().ok()?,
            _ => break,
        });
        rest = tail;
    }
    Some(Tensor { buffer, shape, element: rest, encoding })
}

/// Splits a text at commas that are outside of brackets and strings.
pub(super) fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut start) = (0usize, false, 0);
    let mut parts = Vec::new();
    let bytes = text.as_bytes();
    for (i, &byte) in bytes.iter().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' if i > 0 && bytes[i - 1] == b'-' => {}
            b'>' | b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(text[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    let last = text[start..].trim();
    if !last.is_empty() {
        parts.push(last);
    }
    parts
}

/// Returns a name without its quotes and escapes. A name without quotes is returned unchanged.
pub(super) fn string(text: &str) -> String {
    match crate::text::whole_attribute(text) {
        Some(Attribute::String(name)) => String::from_utf8_lossy(&name).into_owned(),
        _ => text.to_owned(),
    }
}

/// Returns the text between the brackets of `#stablehlo.name<...>`. Returns `None` for any other text.
pub(super) fn inside<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.strip_prefix("#stablehlo.")?.strip_prefix(name)?.strip_prefix('<')?.strip_suffix('>')
}

/// Returns the bounds in `#stablehlo.bounds<16, ?>`, or in the older form `#stablehlo.type_extensions<bounds = [16,
/// ?]>`.
pub(super) fn bounds(text: &str) -> Option<Vec<i64>> {
    let list = match inside(text, "bounds") {
        Some(list) => list,
        None => inside(text, "type_extensions")?
            .strip_prefix("bounds")?
            .trim_start()
            .strip_prefix('=')?
            .trim_matches([' ', '[', ']']),
    };
    split(list).into_iter().map(|one| if one == "?" { Some(DYNAMIC) } else { one.parse().ok() }).collect()
}

/// Components of a quantized element type.
pub(super) struct Quantized {
    pub(super) storage: ElementType,
    pub(super) signed: bool,
    pub(super) expressed: ElementType,
    pub(super) range: (i64, i64),
    pub(super) axis: Option<u64>,
    /// Scale and zero point of each slice along the axis. Without an axis, there is a single pair.
    pub(super) steps: Vec<(f64, i64)>,
}

/// Splits a quantized type such as `!quant.uniform<i8<-128:127>:f32:0, {1.0:2, 3.0}>` into its components. Returns
/// `None` for any other text.
pub(super) fn quantized(text: &str) -> Option<Quantized> {
    let body = text.strip_prefix("!quant.uniform<")?.strip_suffix('>')?;
    let parts = split(body);
    let [head, steps] = parts[..] else { return None };
    let (storage, rest) = match head.split_once('<') {
        Some((storage, rest)) => (storage, rest.split_once('>')?),
        None => {
            let (storage, rest) = head.split_once(':')?;
            (storage, ("", &head[head.len() - rest.len() - 1..]))
        }
    };
    let mut fields = rest.1.strip_prefix(':')?.split(':');
    let expressed = ElementType::from_name(fields.next()?)?;
    let axis = fields.next().map(str::parse).transpose().ok()?;
    let (signed, width) = match storage.strip_prefix('u') {
        Some(width) => (false, width.trim_start_matches('i')),
        None => (true, storage.strip_prefix('i')?),
    };
    let bits: u32 = width.parse().ok().filter(|w| (1..=32).contains(w))?;
    let range = match rest.0.split_once(':') {
        Some((min, max)) => (min.parse().ok()?, max.parse().ok()?),
        None if signed => (-1i64 << (bits - 1), (1i64 << (bits - 1)) - 1),
        None => (0, (1i64 << bits) - 1),
    };
    let step = |text: &str| match text.split_once(':') {
        Some((scale, zero)) => Some((scale.trim().parse().ok()?, zero.trim().parse().ok()?)),
        None => Some((text.trim().parse().ok()?, 0)),
    };
    let steps = match steps.strip_prefix('{') {
        Some(list) => split(list.strip_suffix('}')?).into_iter().map(step).collect::<Option<Vec<_>>>()?,
        None => vec![step(steps)?],
    };
    // Artifacts store a signless integer type and a separate sign flag, so use the signless type for both signs.
    let storage = ElementType::from_name(&format!("i{width}"))?;
    Some(Quantized { storage, signed, expressed, range, axis, steps })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_tensor_types() {
        let t = tensor("tensor<2x?x!quant.uniform<i8:f32:0, {1.0:2,3.0}>, #stablehlo.bounds<?, 4>>").unwrap();
        assert_eq!((t.shape, t.element), (vec![2, DYNAMIC], "!quant.uniform<i8:f32:0, {1.0:2,3.0}>"));
        assert_eq!(bounds(t.encoding.unwrap()), Some(vec![DYNAMIC, 4]));
        let t = tensor("memref<f32>").unwrap();
        assert!(t.buffer && t.shape.is_empty() && t.element == "f32");
        assert!(tensor("tuple<>").is_none());
        assert_eq!(bounds("#stablehlo.type_extensions<bounds = [16, ?]>"), Some(vec![16, DYNAMIC]));
    }

    #[test]
    fn parses_quantized_types() {
        let q = quantized("!quant.uniform<u8<1:255>:f32, 0.5:-3>").unwrap();
        assert_eq!((q.storage, q.signed, q.range, q.axis), (ElementType::I8, false, (1, 255), None));
        assert_eq!(q.steps, [(0.5, -3)]);
        let q = quantized("!quant.uniform<i4:bf16:1, {3.4e+01:16,2.0}>").unwrap();
        assert_eq!((q.range, q.axis, q.steps), ((-8, 7), Some(1), vec![(34.0, 16), (2.0, 0)]));
        for bad in ["!quant.uniform<>", "!quant.any<i8>", "!quant.uniform<i8:f32>", "!quant.uniform<i99:f32, 1.0>"] {
            assert!(quantized(bad).is_none(), "{bad}");
        }
    }
}
