//! Rules of `async_start` and `async_done`. The region contains one collective or slice, and the types of its results
//! match the future.

use super::site::{Site, ensure, returned};
use crate::compatible::{all_compatible, list};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;

/// Returns whether the op can run asynchronously.
fn runs_asynchronously(kind: &OpKind) -> bool {
    matches!(
        kind,
        OpKind::AllGather { .. }
            | OpKind::AllReduce { .. }
            | OpKind::AllToAll { .. }
            | OpKind::CollectiveBroadcast { .. }
            | OpKind::CollectivePermute { .. }
            | OpKind::CollectiveReduce { .. }
            | OpKind::DynamicSlice { .. }
            | OpKind::DynamicUpdateSlice
            | OpKind::ReduceScatter { .. }
            | OpKind::Slice { .. }
    )
}

pub(super) fn start(site: &Site<'_>) -> Result<()> {
    let [region] = &site.op.regions[..] else {
        return Err(Error::new(
            ErrorKind::Structure,
            format_args!("must have one region, not {}", site.op.regions.len()),
        ));
    };
    let [inner, _] = &region.ops[..] else {
        return Err(Error::new(ErrorKind::Structure, "its region must hold one op and a return"));
    };
    let known = runs_asynchronously(&inner.kind);
    ensure!(Structure, known, "its region must hold a collective or a slice, not {}", inner.kind.name());
    let args = region.args.iter().map(|&v| site.func.ty(v));
    ensure!(
        Type,
        all_compatible(args.clone(), site.operands()),
        "the region takes ({}) but is given ({})",
        list(args),
        list(site.operands())
    );
    let types: Vec<&Type> = returned(region)?.iter().map(|&v| site.func.ty(v)).collect();
    future_of(site.result(0)?, &types)
}

/// Returns the types that a future contains. Returns an error if the operand's type is not a future.
pub(super) fn results(future: Option<&Type>) -> Result<Vec<Type>> {
    let inside = match future {
        Some(Type::Other(text)) => text.strip_prefix("!stablehlo.future<").and_then(|text| text.strip_suffix('>')),
        _ => None,
    };
    let types = inside.map(|inside| format!("({inside}) -> ()"));
    match types.and_then(|text| crate::text::function_type(&text)) {
        Some((types, _)) => Ok(types),
        None => Err(Error::new(ErrorKind::Type, "the operand must be a future")),
    }
}

pub(super) fn done(site: &Site<'_>) -> Result<()> {
    ensure!(Structure, site.op.operands.len() == 1, "must have one operand, not {}", site.op.operands.len());
    future_of(site.operand(0)?, &site.results().collect::<Vec<_>>())
}

/// Checks that `future` is a future of the types `types`. Compares the types as text without white space, because the
/// IR keeps a future as text.
fn future_of(future: &Type, types: &[&Type]) -> Result<()> {
    let inside = match future {
        Type::Other(text) => text.strip_prefix("!stablehlo.future<").and_then(|text| text.strip_suffix('>')),
        _ => None,
    };
    let Some(inside) = inside else {
        return Err(Error::new(ErrorKind::Type, format_args!("{future} must be a future")));
    };
    let bare = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    let written = list(types.iter().copied());
    // A dynamic extent is compatible with every static extent, so types with dynamic extents are not compared.
    let open = inside.contains('?') || written.contains('?');
    ensure!(Type, open || bare(inside) == bare(&written), "{future} does not hold ({written})");
    Ok(())
}
