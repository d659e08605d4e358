//! A program as one function: calls and composites replaced by what they call.

use ::stablehlo::ir::{Func, Module, Op, OpKind, Region, ValueId, ValueTypes};

use super::entry;
use crate::{Error, Result};

/// Ops after inlining; more suggests functions that double with every call.
const MAX_OPS: usize = 1 << 20;
/// Nesting of calls and regions.
const MAX_DEPTH: usize = 96;

/// The program with its [entry](super::entry) function alone, where every `call` is replaced by the ops of the function
/// it calls, and every `composite` by those of its decomposition unless its name is one of `keep`: then the op stays, and
/// so does the function of its decomposition.
///
/// Frameworks write nested functions (JAX's `relu`, `where`, `clip`, `softmax`) as calls, so a device that walks one
/// list of ops begins with this:
///
/// ```
/// use device_plugin::stablehlo::ir::OpKind;
/// use device_plugin::{Program, stablehlo};
///
/// let code = "
///     func.func private @twice(%a: tensor<f32>) -> tensor<f32> {
///       %0 = stablehlo.add %a, %a : tensor<f32>
///       return %0 : tensor<f32>
///     }
///     func.func @main(%x: tensor<f32>) -> tensor<f32> {
///       %0 = func.call @twice(%x) : (tensor<f32>) -> tensor<f32>
///       return %0 : tensor<f32>
///     }";
/// let module = stablehlo::parse(&Program { format: "mlir".to_owned(), code: code.into() })?;
/// let module = stablehlo::inline(&module, &[])?;
/// let ops = &stablehlo::entry(&module)?.body.ops;
/// assert!(matches!(ops[0].kind, OpKind::Binary(_)) && matches!(ops[1].kind, OpKind::Return));
/// # Ok::<(), device_plugin::Error>(())
/// ```
///
/// # Errors
///
/// Those of [`entry`](super::entry); `UNIMPLEMENTED` for calls that nest too deeply or become too many ops.
pub fn inline(module: &Module, keep: &[&str]) -> Result<Module> {
    let main = entry(module)?;
    let mut inliner = Inliner { module, keep, values: ValueTypes::new(), ops: 0, depth: 0, kept: Vec::new() };
    let body = inliner.region(main, &main.body, &mut vec![None; main.values.len()])?;
    let mut funcs = vec![Func { body, values: inliner.values, ..main.clone() }];
    // What a kept composite decomposes into may call others, which are inlined in turn.
    let mut next = 0;
    while let Some(name) = inliner.kept.get(next).cloned() {
        let func = module.func(&name).ok_or_else(|| unknown(&name))?;
        inliner.values = ValueTypes::new();
        let body = inliner.region(func, &func.body, &mut vec![None; func.values.len()])?;
        funcs.push(Func { body, values: std::mem::take(&mut inliner.values), ..func.clone() });
        next += 1;
    }
    Ok(Module {
        name: module.name.clone(),
        attributes: module.attributes.clone(),
        funcs,
        symbols: module.symbols.clone(),
        locations: module.locations.clone(),
        version: module.version,
    })
}

struct Inliner<'m> {
    module: &'m Module,
    keep: &'m [&'m str],
    /// Types of the values of the function that is made.
    values: ValueTypes,
    ops: usize,
    depth: usize,
    /// Decompositions that are still needed.
    kept: Vec<String>,
}

/// The new names of the values of a function.
type Map = Vec<Option<ValueId>>;

impl<'m> Inliner<'m> {
    fn define(&mut self, func: &Func, old: ValueId, map: &mut Map) -> Result<ValueId> {
        let id = u32::try_from(self.values.len()).map_err(|_| too_large())?;
        let ty = func.values.shared(old.0 as usize).ok_or_else(|| undefined(old))?;
        self.values.push(ty.clone());
        name(map, old, ValueId(id))?;
        Ok(ValueId(id))
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
            return Err(Error::unimplemented(format!("calls and regions nested more than {MAX_DEPTH} deep")));
        }
        for op in from {
            self.ops += 1;
            if self.ops > MAX_OPS {
                return Err(too_large());
            }
            let operands = op.operands.iter().map(|value| known(map, *value)).collect::<Result<Vec<_>>>()?;
            let callee = match &op.kind {
                OpKind::Call { callee } => Some(callee),
                OpKind::Composite { name, decomposition, .. } if self.keep.contains(&name.as_str()) => {
                    if !self.kept.contains(decomposition) {
                        self.kept.push(decomposition.clone());
                    }
                    None
                }
                OpKind::Composite { decomposition, .. } => Some(decomposition),
                _ => None,
            };
            if let Some(callee) = callee {
                let results = self.call(callee, &operands, to)?;
                if results.len() != op.results.len() {
                    return Err(Error::invalid_argument(format!(
                        "function `{callee}` returns {} values, and its caller wants {}",
                        results.len(),
                        op.results.len()
                    )));
                }
                for (old, new) in op.results.iter().zip(results) {
                    name(map, *old, new)?;
                }
                continue;
            }
            let regions = op.regions.iter().map(|region| self.region(func, region, map)).collect::<Result<_>>()?;
            let results = op.results.iter().map(|value| self.define(func, *value, map)).collect::<Result<_>>()?;
            to.push(Op {
                kind: op.kind.clone(),
                operands: operands.into(),
                results,
                regions,
                attributes: op.attributes.clone(),
                location: op.location,
            });
        }
        self.depth -= 1;
        Ok(())
    }

    /// Adds the ops of a function, which ends in its return, and gives what that returns.
    fn call(&mut self, callee: &str, operands: &[ValueId], to: &mut Vec<Op>) -> Result<Vec<ValueId>> {
        let func = self.module.func(callee).ok_or_else(|| unknown(callee))?;
        if func.args().len() != operands.len() {
            return Err(Error::invalid_argument(format!(
                "function `{callee}` takes {} arguments, and its caller gives {}",
                func.args().len(),
                operands.len()
            )));
        }
        let mut map: Map = vec![None; func.values.len()];
        for (argument, operand) in func.args().iter().zip(operands) {
            name(&mut map, *argument, *operand)?;
        }
        let body = func.body.ops.split_last();
        let (last, ops) = body.ok_or_else(|| Error::invalid_argument(format!("function `{callee}` has no return")))?;
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
    Error::invalid_argument(format!("no function is named `{name}`"))
}

fn undefined(value: ValueId) -> Error {
    Error::invalid_argument(format!("value {} is used before it is defined", value.0))
}

fn too_large() -> Error {
    Error::unimplemented(format!("more than {MAX_OPS} ops after inlining calls"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stablehlo::parse;
    use crate::{ErrorCode, Program};

    fn module(text: &str) -> Module {
        parse(&Program { format: "mlir".to_owned(), code: text.to_owned().into() }).unwrap()
    }

    /// Names of the ops of a function, those of its regions behind theirs.
    fn names(ops: &[Op]) -> Vec<String> {
        let inner = |op: &Op| op.regions.iter().flat_map(|region| names(&region.ops)).collect::<Vec<_>>();
        ops.iter().flat_map(|op| std::iter::once(op.kind.name()).chain(inner(op))).collect()
    }

    const NESTED: &str = "module @m {
        func.func @main(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
            %0 = func.call @outer(%x) : (tensor<f32>) -> tensor<f32>
            %1:2 = stablehlo.while(%a = %0, %b = %x) : tensor<f32>, tensor<f32>
              cond {
                %2 = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
                stablehlo.return %2 : tensor<i1>
              } do {
                %3 = func.call @outer(%a) : (tensor<f32>) -> tensor<f32>
                stablehlo.return %3, %x : tensor<f32>, tensor<f32>
              }
            return %1#0, %0 : tensor<f32>, tensor<f32>
        }
        func.func private @outer(%y: tensor<f32>) -> tensor<f32> {
            %0 = func.call @inner(%y, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
            %1 = stablehlo.tanh %0 : tensor<f32>
            return %1 : tensor<f32>
        }
        func.func private @inner(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
            %0 = stablehlo.composite \"acme.sum\" %a, %b {decomposition = @sum} : (tensor<f32>, tensor<f32>) -> tensor<f32>
            return %0 : tensor<f32>
        }
        func.func private @sum(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
            %0 = stablehlo.add %a, %b : tensor<f32>
            return %0 : tensor<f32>
        }
    }";

    #[test]
    fn calls_and_composites_become_their_ops_in_regions_too() {
        let inlined = inline(&module(NESTED), &[]).unwrap();
        assert_eq!(inlined.funcs.len(), 1);
        let main = entry(&inlined).unwrap();
        assert_eq!(
            names(&main.body.ops).join(" ").replace("stablehlo.", ""),
            "add tanh while compare return add tanh return return"
        );
        // The result is a program like another.
        ::stablehlo::verify(&inlined).unwrap();
        let again = module(&inlined.to_string());
        assert_eq!(names(&entry(&again).unwrap().body.ops), names(&main.body.ops));
    }

    #[test]
    fn composites_the_device_knows_stay() {
        let inlined = inline(&module(NESTED), &["acme.sum"]).unwrap();
        let funcs: Vec<_> = inlined.funcs.iter().map(|func| func.name.as_str()).collect();
        assert_eq!(funcs, ["main", "sum"]);
        let names = names(&entry(&inlined).unwrap().body.ops);
        assert_eq!(names.iter().filter(|name| *name == "stablehlo.composite").count(), 2, "{names:?}");
        ::stablehlo::verify(&inlined).unwrap();
    }

    #[test]
    fn functions_that_double_are_refused() {
        let mut text = String::from(
            "func.func @main(%x: tensor<f32>) -> tensor<f32> {
            %0 = func.call @f0(%x) : (tensor<f32>) -> tensor<f32>
            return %0 : tensor<f32>\n}\n",
        );
        for level in 0..40 {
            let next = level + 1;
            text += &format!(
                "func.func private @f{level}(%x: tensor<f32>) -> tensor<f32> {{
                    %0 = func.call @f{next}(%x) : (tensor<f32>) -> tensor<f32>
                    %1 = func.call @f{next}(%0) : (tensor<f32>) -> tensor<f32>
                    return %1 : tensor<f32>\n}}\n"
            );
        }
        text += "func.func private @f40(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }";
        let error = inline(&module(&text), &[]).unwrap_err();
        assert_eq!(error.code(), ErrorCode::UNIMPLEMENTED);
        assert!(error.message().contains("1048576 ops"), "{error}");
    }
}
