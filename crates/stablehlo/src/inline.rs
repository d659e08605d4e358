//! Inlining: replaces calls and composites with the bodies of the functions that they reference.

use std::collections::HashSet;

use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Func, Module, Op, OpKind, Region, ValueId, ValueIds, ValueTypes};

/// Maximum number of ops after inlining. Without this limit, nested calls could make a program grow exponentially.
const MAX_OPS: usize = 1 << 20;
/// Maximum nesting depth of calls and regions.
const MAX_DEPTH: usize = 96;

/// Inlines all functions into the [entry](Module::entry) function. Replaces every `call` with the ops of the called
/// function, and every `composite` with the ops of its decomposition. Keeps a composite whose name is in `keep`, and
/// the function that is its decomposition.
///
/// Frameworks send nested functions (JAX's `relu`, `where`, `clip`, `softmax`) as calls. Call `inline` first if your
/// device expects a single list of ops:
///
/// ```
/// use stablehlo::VerifyLevel;
/// use stablehlo::ir::OpKind;
///
/// let module = stablehlo::parse(
///     "func.func private @twice(%a: tensor<f32>) -> tensor<f32> {
///        %0 = stablehlo.add %a, %a : tensor<f32>
///        return %0 : tensor<f32>
///      }
///      func.func @main(%x: tensor<f32>) -> tensor<f32> {
///        %0 = func.call @twice(%x) : (tensor<f32>) -> tensor<f32>
///        return %0 : tensor<f32>
///      }",
///     VerifyLevel::FULL,
/// )?;
/// let module = stablehlo::inline(&module, &[])?;
/// let ops = &module.entry().expect("the module has one").body.ops;
/// assert!(matches!(ops[0].kind, OpKind::Binary(_)) && matches!(ops[1].kind, OpKind::Return));
/// # Ok::<(), stablehlo::Error>(())
/// ```
///
/// # Errors
///
/// Returns an error if the module has no entry function, if calls and regions are nested too deeply, if the inlined
/// module has too many ops, or if a call does not match the function that it references.
pub fn inline(module: &Module, keep: &[&str]) -> Result<Module> {
    let main = module.entry().ok_or_else(|| {
        Error::new(ErrorKind::Structure, "the module has no function `main`, nor a single public one")
    })?;
    let inlines = |op: &Op| !matches!(&op.kind, OpKind::Composite { name, .. } if keep.contains(&name.as_str()));
    let mut inliner = Inliner::new(module, &inlines);
    let mut funcs = vec![inliner.func(main)?];
    // The decomposition of a kept composite may itself call functions, so inline these calls, too.
    let mut kept = HashSet::new();
    let mut next = 0;
    while let Some(func) = funcs.get(next) {
        let names = func.body.all_ops().filter_map(callee).filter(|&name| !kept.contains(name));
        for name in names.cloned().collect::<Vec<String>>() {
            if kept.insert(name.clone()) {
                let func = module.func(&name).ok_or_else(|| unknown(&name))?;
                funcs.push(inliner.func(func)?);
            }
        }
        next += 1;
    }
    Ok(module.with_funcs(funcs))
}

/// Replaces the calls and composites for which `inlines` returns `true`, in all functions, with the ops of the
/// functions that they reference. Keeps all functions. Returns `None` if there are no such ops.
///
/// # Errors
///
/// Returns an error in the same cases as [`inline()`], except that the module need not have an entry function.
pub fn inline_ops(module: &Module, inlines: impl Fn(&Op) -> bool) -> Result<Option<Module>> {
    let is_inlined = |op: &Op| callee(op).is_some() && inlines(op);
    let is_concerned = |func: &Func| func.body.all_ops().any(is_inlined);
    if !module.funcs.iter().any(is_concerned) {
        return Ok(None);
    }
    let mut inliner = Inliner::new(module, &is_inlined);
    let mut funcs = Vec::with_capacity(module.funcs.len());
    for func in &module.funcs {
        funcs.push(if is_concerned(func) { inliner.func(func)? } else { func.clone() });
    }
    Ok(Some(module.with_funcs(funcs)))
}

/// Returns the function that computes the results of a call or a composite.
fn callee(op: &Op) -> Option<&String> {
    match &op.kind {
        OpKind::Call { callee } | OpKind::Composite { decomposition: callee, .. } => Some(callee),
        _ => None,
    }
}

struct Inliner<'m> {
    module: &'m Module,
    /// Whether a call or composite is inlined.
    inlines: &'m dyn Fn(&Op) -> bool,
    /// Types of the values of the function that is being built.
    values: ValueTypes,
    ops: usize,
    depth: usize,
}

/// For each value of a function, indexed by its old id, the new id, or `None` if the value is not defined yet.
type Map = Vec<Option<ValueId>>;

impl<'m> Inliner<'m> {
    fn new(module: &'m Module, inlines: &'m dyn Fn(&Op) -> bool) -> Self {
        Self { module, inlines, values: ValueTypes::new(), ops: 0, depth: 0 }
    }

    fn func(&mut self, func: &'m Func) -> Result<Func> {
        let body = self.region(func, &func.body, &mut vec![None; func.values.len()])?;
        Ok(Func {
            name: func.name.clone(),
            public: func.public,
            arg_attributes: func.arg_attributes.clone(),
            results: func.results.clone(),
            result_attributes: func.result_attributes.clone(),
            attributes: func.attributes.clone(),
            body,
            values: std::mem::take(&mut self.values),
            location: func.location,
        })
    }

    fn define(&mut self, func: &Func, old: ValueId, map: &mut Map) -> Result<ValueId> {
        let ty = func.values.shared(old.0 as usize).ok_or_else(|| undefined(old))?;
        let new = self.values.push(ty.clone());
        name(map, old, new)?;
        Ok(new)
    }

    fn region(&mut self, func: &'m Func, region: &'m Region, map: &mut Map) -> Result<Region> {
        let args = region.args.iter().map(|arg| self.define(func, *arg, map)).collect::<Result<_>>()?;
        let mut ops = Vec::with_capacity(region.ops.len());
        self.ops(func, &region.ops, map, &mut ops)?;
        Ok(Region { args, ops })
    }

    fn ops(&mut self, func: &'m Func, from: &'m [Op], map: &mut Map, to: &mut Vec<Op>) -> Result<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Error::new(
                ErrorKind::Limit,
                format_args!("calls and regions nested more than {MAX_DEPTH} deep"),
            ));
        }
        for op in from {
            self.ops += 1;
            if self.ops > MAX_OPS {
                return Err(too_large());
            }
            let operands = op.operands.iter().map(|value| known(map, *value)).collect::<Result<ValueIds>>()?;
            if let Some(callee) = callee(op).filter(|_| (self.inlines)(op)) {
                let results = self.call(callee, &operands, to)?;
                if results.len() != op.results.len() {
                    return Err(Error::new(
                        ErrorKind::Structure,
                        format_args!(
                            "function `{callee}` returns {} values, and its caller expects {}",
                            results.len(),
                            op.results.len()
                        ),
                    ));
                }
                for (old, new) in op.results.iter().zip(results) {
                    name(map, *old, new)?;
                }
                continue;
            }
            let regions = op.regions.iter().map(|region| self.region(func, region, map)).collect::<Result<_>>()?;
            let results = op.results.iter().map(|value| self.define(func, *value, map)).collect::<Result<_>>()?;
            to.push(op.copied(operands, results, regions));
        }
        self.depth -= 1;
        Ok(())
    }

    /// Appends the ops of a function to `to`, except for its `return` op. Returns the new ids of the operands of the
    /// `return` op.
    fn call(&mut self, callee: &str, operands: &[ValueId], to: &mut Vec<Op>) -> Result<Vec<ValueId>> {
        let func = self.module.func(callee).ok_or_else(|| unknown(callee))?;
        if func.args().len() != operands.len() {
            return Err(Error::new(
                ErrorKind::Structure,
                format_args!(
                    "function `{callee}` takes {} arguments, and its caller gives {}",
                    func.args().len(),
                    operands.len()
                ),
            ));
        }
        let mut map: Map = vec![None; func.values.len()];
        for (argument, operand) in func.args().iter().zip(operands) {
            name(&mut map, *argument, *operand)?;
        }
        let body = func.body.ops.split_last();
        let (last, ops) =
            body.ok_or_else(|| Error::new(ErrorKind::Structure, format_args!("function `{callee}` has no return")))?;
        self.ops(func, ops, &mut map, to)?;
        last.operands.iter().map(|value| known(&map, *value)).collect()
    }
}

fn name(map: &mut Map, old: ValueId, new: ValueId) -> Result<()> {
    *map.get_mut(old.0 as usize).ok_or_else(|| undefined(old))? = Some(new);
    Ok(())
}

fn known(map: &Map, value: ValueId) -> Result<ValueId> {
    map.get(value.0 as usize).copied().flatten().ok_or_else(|| undefined(value))
}

fn unknown(name: &str) -> Error {
    Error::new(ErrorKind::Reference, format_args!("no function is named `{name}`"))
}

fn undefined(value: ValueId) -> Error {
    Error::new(ErrorKind::Reference, format_args!("value {} is used before it is defined", value.0))
}

fn too_large() -> Error {
    Error::new(ErrorKind::Limit, format_args!("more than {MAX_OPS} ops after inlining calls"))
}
