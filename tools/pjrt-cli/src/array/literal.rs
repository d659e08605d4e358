//! Parses arrays on the command line: `f32[2,2]=1,2,3,4`, `f32[4]=0`, `f32=[[1,2],[3,4]]`.

use pjrt::{ElementType, HostArray, Shape};

use super::element;

/// Maximum nesting depth of a list.
const MAX_RANK: usize = 64;

/// The values of a literal in row-major order, and its extents if the literal is a list in brackets.
struct Values<'a> {
    items: Vec<&'a str>,
    extents: Option<Vec<usize>>,
}

/// Returns whether a string is a literal without a type, such as `1.5`, `true` or `[[1,2],[3,4]]`.
pub(super) fn is_bare(text: &str) -> bool {
    text.starts_with('[') || text.parse::<f64>().is_ok() || matches!(text, "true" | "false" | "True" | "False")
}

/// Parses a literal with a type, such as `f32[2,2]` or `f32`. If the type has no brackets, a nested list sets the
/// extents.
pub(super) fn typed(shape: &str, values: &str) -> Result<HostArray, String> {
    let values = Values::parse(values)?;
    let bracketed = shape.contains('[');
    let mut shape = parse_shape(shape)?;
    if !bracketed && let Some(extents) = &values.extents {
        let extents = extents.iter().map(|extent| i64::try_from(*extent));
        shape.dimensions = extents.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    }
    array(shape, &values)
}

/// Parses a literal without a type as an array of the given shape.
pub(super) fn of_shape(shape: Shape, values: &str) -> Result<HostArray, String> {
    array(shape, &Values::parse(values)?)
}

/// Creates an array of the given shape from the values. A single value that is not in a list fills the whole array.
fn array(shape: Shape, values: &Values<'_>) -> Result<HostArray, String> {
    let too_large = || format!("{shape} exceeds the address space");
    let count = shape.num_elements().ok_or_else(too_large)?;
    let size = shape.host_size().ok_or_else(too_large)?;
    if let Some(extents) = &values.extents
        && !extents.iter().map(|extent| i64::try_from(*extent)).eq(shape.dimensions.iter().map(|extent| Ok(*extent)))
        // A flat list can fill any shape.
        && extents.len() > 1
    {
        return Err(format!("the shape is {shape}, but the list has the extents {extents:?}"));
    }
    let mut data = Vec::new();
    for item in &values.items {
        element::parse(shape.element_type, item, &mut data)?;
    }
    if values.items.len() == 1 && values.extents.is_none() && count > 1 {
        data.try_reserve_exact(size).map_err(|_| too_large())?;
        data = data.repeat(count);
    } else if values.items.len() != count {
        return Err(format!("{shape} has {count} elements, but the list has {} values", values.items.len()));
    }
    super::new(shape, data)
}

impl<'a> Values<'a> {
    fn parse(text: &'a str) -> Result<Self, String> {
        let text = text.trim();
        if text.starts_with('[') {
            return Self::nested(text);
        }
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect();
        Ok(Self { items, extents: None })
    }

    /// Parses a list of values or of lists with equal extents.
    fn nested(text: &'a str) -> Result<Self, String> {
        let mut items = Vec::new();
        // The number of elements of each open list, and the extent of the lists at each depth.
        let mut open: Vec<usize> = Vec::new();
        let mut extents: Vec<Option<usize>> = Vec::new();
        let mut leaves_at = None;
        let mut rest = text;
        let mut expects_entry = true;
        loop {
            rest = rest.trim_start();
            let Some(next) = rest.chars().next() else { return Err("a list lacks its closing `]`".to_owned()) };
            match next {
                '[' if expects_entry => {
                    if open.len() == MAX_RANK {
                        return Err(format!("lists are nested more than {MAX_RANK} deep"));
                    }
                    if let Some(count) = open.last_mut() {
                        *count += 1;
                    }
                    open.push(0);
                    if extents.len() < open.len() {
                        extents.push(None);
                    }
                    rest = &rest[1..];
                }
                ']' => {
                    let depth = open.len();
                    let Some(count) = open.pop() else { return Err("a `]` has no matching `[`".to_owned()) };
                    if expects_entry && count > 0 {
                        return Err("a value is missing after the last comma".to_owned());
                    }
                    let extent = &mut extents[depth - 1];
                    if *extent.get_or_insert(count) != count {
                        return Err(format!("the list is ragged: its lists at depth {depth} differ in length"));
                    }
                    rest = rest[1..].trim_start();
                    expects_entry = false;
                    if open.is_empty() {
                        break;
                    }
                }
                ',' if !expects_entry => {
                    expects_entry = true;
                    rest = &rest[1..];
                    continue;
                }
                _ if expects_entry => {
                    let end = rest.find([',', ']', '[']).unwrap_or(rest.len());
                    items.push(rest[..end].trim());
                    if *leaves_at.get_or_insert(open.len()) != open.len() {
                        return Err("the list is ragged: it mixes values and lists".to_owned());
                    }
                    if let Some(count) = open.last_mut() {
                        *count += 1;
                    }
                    rest = &rest[end..];
                    expects_entry = false;
                    continue;
                }
                other => return Err(format!("expected a comma or `]`, but found `{other}`")),
            }
            if next == '[' {
                expects_entry = true;
            }
        }
        if !rest.is_empty() {
            return Err(format!("`{rest}` follows the list"));
        }
        if leaves_at.is_some_and(|depth| depth != extents.len()) {
            return Err("the list is ragged: it mixes values and lists".to_owned());
        }
        Ok(Self { items, extents: Some(extents.into_iter().map(|extent| extent.unwrap_or(0)).collect()) })
    }
}

/// Parses a shape such as `f32[2,3]` or `pred[]`. An element type without brackets, such as `f32`, is the shape of a
/// scalar.
fn parse_shape(text: &str) -> Result<Shape, String> {
    let (ty, dimensions) = match text.split_once('[') {
        None => (text, ""),
        Some((ty, rest)) => (ty, rest.strip_suffix(']').ok_or_else(|| format!("{text}: a shape is TYPE[EXTENT,...]"))?),
    };
    let element_type = super::element_type(ty.trim())?;
    let extents = dimensions.split(',').map(str::trim).filter(|d| !d.is_empty());
    let extent = |d: &str| d.parse::<u32>().map(i64::from).map_err(|_| format!("{d:?} is not an extent"));
    Ok(Shape::new(element_type, extents.map(extent).collect::<Result<Vec<_>, _>>()?))
}

/// Returns the element type that has this name in NumPy, PyTorch or Rust.
pub(super) fn other_name(name: &str) -> Option<ElementType> {
    Some(match name.to_ascii_lowercase().as_str() {
        "bool" | "boolean" => ElementType::Pred,
        "int8" => ElementType::S8,
        "int16" | "short" => ElementType::S16,
        "int32" | "int" => ElementType::S32,
        "int64" | "long" | "isize" => ElementType::S64,
        "uint8" | "byte" => ElementType::U8,
        "uint16" => ElementType::U16,
        "uint32" | "uint" => ElementType::U32,
        "uint64" | "usize" => ElementType::U64,
        "float16" | "half" => ElementType::F16,
        "bfloat16" => ElementType::Bf16,
        "float32" | "float" => ElementType::F32,
        "float64" | "double" => ElementType::F64,
        "complex64" => ElementType::C64,
        "complex128" | "complex" => ElementType::C128,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extents(text: &str) -> Result<Vec<usize>, String> {
        Values::parse(text).map(|values| values.extents.unwrap_or_default())
    }

    #[test]
    fn nested_lists_have_extents() {
        assert_eq!(extents("[[1,2],[3,4],[5,6]]"), Ok(vec![3, 2]));
        assert_eq!(extents(" [ 1 , 2 ] "), Ok(vec![2]));
        assert_eq!(extents("[]"), Ok(vec![0]));
        assert_eq!(extents("[[],[]]"), Ok(vec![2, 0]));
        assert_eq!(extents("[[[7]]]"), Ok(vec![1, 1, 1]));
        let array = typed("f32", "[[1,2],[3,4]]").unwrap();
        assert_eq!(array.shape().to_string(), "f32[2,2]");
        assert_eq!(typed("f32[2,2]", "[[1,2],[3,4]]").unwrap(), array);
        assert_eq!(typed("f32[2,2]", "[1,2,3,4]").unwrap(), array);
        assert_eq!(of_shape(array.shape().clone(), "1,2,3,4").unwrap(), array);
        assert_eq!(typed("f32[2]", "7").unwrap(), typed("f32", "[7,7]").unwrap());
    }

    #[test]
    fn malformed_lists_are_refused() {
        for (text, reason) in [
            ("[1,2", "lacks its"),
            ("[1,2]]", "follows"),
            ("[1,]", "missing after the last comma"),
            ("[[1,2],[3]]", "ragged"),
            ("[[1],2]", "ragged"),
            ("[1,[2]]", "ragged"),
            ("[[],[1]]", "ragged"),
            ("[1][2]", "follows"),
            ("[1[2]]", "expected"),
        ] {
            let error = Values::parse(text).err().unwrap_or_else(|| panic!("{text} was read"));
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert!(extents(&"[".repeat(100_000)).unwrap_err().contains("64 deep"));
        assert!(typed("f32[2,3]", "[[1,2],[3,4]]").unwrap_err().contains("extents [2, 2]"));
        assert!(typed("f32[2]", "[7]").unwrap_err().contains("2 elements, but the list has 1 values"));
    }
}
