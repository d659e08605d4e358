//! Rules of custom calls: layouts, results that share the memory of operands, and calls that create buffers.

use super::site::{Site, ensure};
use super::string_attributes::field;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;

#[inline]
pub(super) fn verify(site: &Site<'_>) -> Result<()> {
    let OpKind::CustomCall { call_target_name, backend_config, api_version, .. } = &site.op.kind else {
        return Ok(());
    };
    let find = |name: &str| site.op.attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value);
    match (find("operand_layouts"), find("result_layouts")) {
        (None, None) => {}
        (Some(Attribute::Array(operands)), Some(Attribute::Array(results))) => {
            layouts(site.operands(), operands, "operand_layouts")?;
            match (site.op.results.len(), site.results().next()) {
                (1, Some(Type::Tuple(types))) => layouts(types.iter(), results, "result_layouts")?,
                _ => layouts(site.results(), results, "result_layouts")?,
            }
        }
        _ => {
            return Err(Error::new(
                ErrorKind::Attribute,
                "`operand_layouts` and `result_layouts` must be given together, as lists",
            ));
        }
    }
    // API version 4 is the typed FFI, whose configuration is a dictionary.
    if *api_version == 4 {
        let empty = matches!(backend_config, Attribute::String(text) if text.is_empty());
        ensure!(
            Attribute,
            empty || matches!(backend_config, Attribute::Dictionary(_)),
            "`backend_config` must be a dictionary for API version 4"
        );
    } else {
        ensure!(
            Attribute,
            !matches!(backend_config, Attribute::Dictionary(_)),
            "`backend_config` must be a string for API version {api_version}"
        );
    }
    let aliases = match find("output_operand_aliases") {
        Some(Attribute::Array(items)) => items.iter().map(alias).collect::<Result<Vec<_>>>()?,
        _ => Vec::new(),
    };
    for alias in &aliases {
        check_alias(site, alias)?;
    }
    match call_target_name.as_str() {
        "CreateBuffer" | "Pin" | "Unpin" if has_buffers(site) => pinning(site, call_target_name),
        "Pin" | "Unpin" if *api_version == 4 => {
            Err(Error::new(ErrorKind::Attribute, "must have a buffer as operand or result"))
        }
        _ if has_buffers(site) => buffers(site, &aliases),
        _ => Ok(()),
    }
}

/// Checks that each layout is a permutation of its value's dimensions. The layout of a token must be empty, and a tuple
/// cannot have a layout. The layouts of types that the IR keeps as text are not checked.
fn layouts<'t>(types: impl ExactSizeIterator<Item = &'t Type>, layouts: &[Attribute], name: &str) -> Result<()> {
    ensure!(
        Attribute,
        types.len() == layouts.len(),
        "`{name}` has {} entries for {} values",
        layouts.len(),
        types.len()
    );
    for (ty, layout) in types.zip(layouts) {
        let Some(order) = layout.as_integers() else {
            return Err(Error::new(ErrorKind::Attribute, format_args!("`{name}` must hold lists of dimensions")));
        };
        let rank = match ty {
            Type::Tensor(tensor) => tensor.rank(),
            Type::Other(_) => continue,
            Type::Tuple(_) => {
                return Err(Error::new(
                    ErrorKind::Attribute,
                    format_args!("`{name}` cannot describe the layouts of the parts of {ty}"),
                ));
            }
            Type::Token => 0,
        };
        let mut sorted = order.clone();
        sorted.sort_unstable();
        let permutation = sorted.len() == rank && sorted.iter().zip(0i64..).all(|(&d, want)| d == want);
        ensure!(
            Attribute,
            permutation,
            "`{name}` has {order:?} for {ty}, which must be a permutation of its {rank} dimensions"
        );
    }
    Ok(())
}

/// A result and an operand that share memory. `output` is an index path into the results. `operand` is the index of the
/// operand, and `part` is an index path into the operand if it is a tuple.
struct Alias {
    output: Vec<i64>,
    operand: i64,
    part: Vec<i64>,
}

fn alias(attribute: &Attribute) -> Result<Alias> {
    let wrong = || {
        Error::new(
            ErrorKind::Attribute,
            "`output_operand_aliases` must hold attributes of the form `#stablehlo.output_operand_alias<...>`",
        )
    };
    let Attribute::Other(text) = attribute else { return Err(wrong()) };
    let operand = field(text, "operand_index").and_then(|index| index.parse().ok());
    let list = |name: &str| list_field(text, name);
    match (list("output_tuple_indices"), operand, list("operand_tuple_indices")) {
        (Some(output), Some(operand), Some(part)) => Ok(Alias { output, operand, part }),
        _ => Err(wrong()),
    }
}

/// Returns the tuple element that an index path refers to, or the type itself if the path is empty.
fn part<'t>(mut ty: &'t Type, indices: &[i64], name: &str) -> Result<&'t Type> {
    for &index in indices {
        let element = match ty {
            Type::Tuple(types) => usize::try_from(index).ok().and_then(|i| types.get(i)),
            _ => None,
        };
        ty = element.ok_or_else(|| {
            Error::new(
                ErrorKind::Attribute,
                format_args!("`{name}` of an alias names element {index}, which {ty} lacks"),
            )
        })?;
    }
    Ok(ty)
}

fn check_alias(site: &Site<'_>, alias: &Alias) -> Result<()> {
    let count = site.op.operands.len();
    let Some(operand) = usize::try_from(alias.operand).ok().filter(|&i| i < count) else {
        return Err(Error::new(
            ErrorKind::Attribute,
            format_args!("`output_operand_aliases` names operand {}, but there are {count}", alias.operand),
        ));
    };
    let operand = part(site.operand(operand)?, &alias.part, "operand_tuple_indices")?;
    let all;
    let results = if site.op.results.len() == 1 {
        site.result(0)?
    } else {
        all = Type::Tuple(site.results().cloned().collect());
        &all
    };
    // A tuple result with one element is flattened, so the index 0 refers to the only result.
    let at = match alias.output[..] {
        [0] if !matches!(results, Type::Tuple(_)) => &[],
        ref at => at,
    };
    let output = part(results, at, "output_tuple_indices")?;
    ensure!(
        Attribute,
        operand == output,
        "`output_operand_aliases` pairs {output} with {operand}, but the types must be equal"
    );
    Ok(())
}

fn is_buffer(ty: &Type) -> bool {
    match ty {
        Type::Other(text) => text.starts_with("memref<"),
        Type::Tuple(types) => types.iter().any(is_buffer),
        _ => false,
    }
}

fn has_buffers(site: &Site<'_>) -> bool {
    site.operands().chain(site.results()).any(is_buffer)
}

/// Checks the calls that create a buffer, convert a tensor to a buffer, or convert a buffer to a tensor.
fn pinning(site: &Site<'_>, name: &str) -> Result<()> {
    let (operands, results) = (site.op.operands.len(), site.op.results.len());
    let wanted = usize::from(name != "CreateBuffer");
    ensure!(Structure, operands == wanted && results == 1, "must have {wanted} operands and one result");
    let result = site.result(0)?;
    ensure!(Type, is_buffer(result) == (name != "Unpin"), "cannot return {result}");
    if wanted == 0 {
        return Ok(());
    }
    let operand = site.operand(0)?;
    ensure!(Type, is_buffer(operand) == (name == "Unpin"), "cannot take {operand}");
    let text = |ty: &Type| ty.to_string().replacen("memref<", "tensor<", 1);
    ensure!(Type, text(operand) == text(result), "cannot convert {operand} to {result}");
    Ok(())
}

/// Checks that each result that is a buffer shares the memory of an operand, and that no buffer is shared twice.
fn buffers(site: &Site<'_>, aliases: &[Alias]) -> Result<()> {
    let mut outputs: Vec<&[i64]> = Vec::new();
    let mut operands: Vec<(i64, &[i64])> = Vec::new();
    for alias in aliases {
        let operand = site.operand(usize::try_from(alias.operand).unwrap_or(usize::MAX))?;
        if !is_buffer(part(operand, &alias.part, "operand_tuple_indices")?) {
            continue;
        }
        ensure!(Attribute, !outputs.contains(&&alias.output[..]), "result {:?} has two aliases", alias.output);
        ensure!(
            Attribute,
            !operands.contains(&(alias.operand, &alias.part)),
            "operand {}{:?} has two aliases",
            alias.operand,
            alias.part
        );
        outputs.push(&alias.output);
        operands.push((alias.operand, &alias.part));
    }
    if let [_] = site.op.results[..] {
        return every_buffer(site.result(0)?, &mut Vec::new(), &outputs);
    }
    for (i, ty) in (0i64..).zip(site.results()) {
        every_buffer(ty, &mut vec![i], &outputs)?;
    }
    Ok(())
}

fn every_buffer(ty: &Type, at: &mut Vec<i64>, outputs: &[&[i64]]) -> Result<()> {
    match ty {
        Type::Tuple(types) => {
            for (i, ty) in (0i64..).zip(types) {
                at.push(i);
                every_buffer(ty, at, outputs)?;
                at.pop();
            }
            Ok(())
        }
        _ if is_buffer(ty) => {
            ensure!(
                Attribute,
                outputs.contains(&&at[..]),
                "result {at:?} is a buffer without an operand; add an alias"
            );
            Ok(())
        }
        _ => Ok(()),
    }
}
