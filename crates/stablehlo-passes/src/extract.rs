//! Extracts a function of a module.

use std::collections::HashSet;

use stablehlo::ir::{Attribute, Func, Module, Op, OpKind};

/// Creates a module whose entry function is `func`, with the functions of `module` that `func` refers to. These are
/// callees, decompositions of composites, and `called_computations` of custom calls, directly or indirectly. Makes
/// `func` public and the other functions private.
///
/// Use it to compile a function that [`outline_unsupported`](crate::outline_unsupported) created.
///
/// ```
/// use stablehlo::VerifyLevel;
///
/// let module = stablehlo::parse("func.func @main(%x: tensor<f32>) -> tensor<f32> {
///   %0 = call @f(%x) : (tensor<f32>) -> tensor<f32>
///   return %0 : tensor<f32>
/// }
/// func.func private @f(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }", VerifyLevel::FULL)?;
/// let part = stablehlo_passes::extract(&module, module.funcs[1].clone());
/// assert_eq!(part.entry().map(|func| &*func.name), Some("f"));
/// assert_eq!(part.funcs.len(), 1);
/// # Ok::<(), stablehlo::Error>(())
/// ```
#[must_use]
pub fn extract(module: &Module, func: Func) -> Module {
    let mut known = HashSet::from([func.name.clone()]);
    let mut funcs = vec![Func { public: true, ..func }];
    let mut next = 0;
    while let Some(func) = funcs.get(next) {
        let names = func.body.all_ops().flat_map(references);
        let names: Vec<&str> = names.filter(|name| known.insert((*name).to_owned())).collect();
        let found: Vec<Func> = names.into_iter().filter_map(|name| module.func(name).cloned()).collect();
        funcs.extend(found.into_iter().map(|func| Func { public: false, ..func }));
        next += 1;
    }
    module.with_funcs(funcs)
}

/// Returns the names of the functions that an op refers to.
pub(crate) fn references(op: &Op) -> impl Iterator<Item = &str> {
    let own = match &op.kind {
        OpKind::Call { callee: name } | OpKind::Composite { decomposition: name, .. } => Some(&**name),
        _ => None,
    };
    let lists = op.attributes.iter().filter_map(|(name, value)| match value {
        Attribute::Array(names) if name == "called_computations" => Some(names),
        _ => None,
    });
    own.into_iter().chain(lists.flatten().filter_map(Attribute::as_str))
}
