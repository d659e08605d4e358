//! Rewriting: replaces ops of a function with other ops.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::{Error, ErrorKind, Result};
use crate::ir::{
    Func, Literal, LocationId, Locations, Op, OpKind, Region, TensorType, Type, ValueId, ValueIds, ValueTypes,
    is_sharding,
};

/// The state of [`rewrite`]: the ops that replace the current one, and the values of the function.
#[derive(Debug)]
pub struct Patch<'f> {
    values: &'f mut ValueTypes,
    /// The ops of the region that is being rewritten, up to the current one.
    ops: Vec<Op>,
    /// The source location of the op that is being replaced.
    location: LocationId,
    /// The value that stands for each replaced value.
    same: HashMap<ValueId, ValueId>,
}

/// Calls `replace` for each op of a function, and for the ops within an op's regions before the op itself. The ops that
/// `replace` adds to the patch take the place of the op. To keep an op, add it with [`Patch::push`].
///
/// To keep the rest of the function valid, define the results of the replaced op again, or let other values stand for
/// them with [`Patch::replace_uses`]. [`verify`](crate::verify) checks the outcome.
///
/// ```
/// use stablehlo::VerifyLevel;
/// use stablehlo::ir::{Binary, OpKind, Unary};
///
/// let mut module = stablehlo::parse("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
///   %0 = stablehlo.multiply %x, %x : tensor<2xf32>
///   %1 = stablehlo.rsqrt %0 : tensor<2xf32>
///   return %1 : tensor<2xf32>
/// }", VerifyLevel::FULL)?;
/// stablehlo::rewrite(&mut module.funcs[0], &module.locations, |op, patch| {
///     if let OpKind::Unary(Unary::Rsqrt) = op.kind {
///         let ty = patch.tensor(op.results[0])?.clone();
///         let root = patch.add(OpKind::Unary(Unary::Sqrt), &op.operands, ty.clone());
///         let one = patch.constant(ty, 1.0f32.to_le_bytes().to_vec())?;
///         patch.define(OpKind::Binary(Binary::Divide), &[one, root], &op.results);
///     } else {
///         patch.push(op);
///     }
///     Ok(())
/// })?;
/// stablehlo::verify(&module, VerifyLevel::FULL)?;
/// assert!(module.to_string().contains("stablehlo.divide"));
/// # Ok::<(), stablehlo::Error>(())
/// ```
///
/// # Errors
///
/// Returns the first error of `replace`, with the op, the function and the place of the op in the program. The function
/// is then incomplete.
pub fn rewrite(
    func: &mut Func,
    locations: &Locations,
    mut replace: impl FnMut(Op, &mut Patch<'_>) -> Result<()>,
) -> Result<()> {
    let values = &mut func.values;
    let mut patch = Patch { values, ops: Vec::new(), location: LocationId::default(), same: HashMap::new() };
    let name = &func.name;
    let replace = &mut |op: Op, patch: &mut Patch<'_>| {
        let (kind, location) = (op.kind.name_parts(), op.location);
        // What the signature needs.
        let mut same = Op::new(OpKind::Return, op.operands.clone(), op.results.clone());
        same.attributes.extend(op.attributes.iter().filter(|(name, _)| is_sharding(name)).cloned());
        replace(op, patch).map_err(|error| {
            error
                .with_op(&kind.join())
                .with_signature(|| same.signature(patch.types()))
                .with_func(name)
                .with_location(locations.format(location))
        })
    };
    func.body = patch.rewritten(std::mem::take(&mut func.body), replace)?;
    Ok(())
}

impl Patch<'_> {
    fn rewritten(&mut self, region: Region, replace: &mut impl FnMut(Op, &mut Self) -> Result<()>) -> Result<Region> {
        let Region { args, ops } = region;
        self.region(args, |patch| {
            patch.ops.reserve(ops.len());
            for mut op in ops {
                patch.substitute(&mut op.operands);
                for region in &mut op.regions {
                    *region = patch.rewritten(std::mem::take(region), replace)?;
                }
                patch.location = op.location;
                replace(op, patch)?;
            }
            Ok(())
        })
    }

    fn substitute(&self, operands: &mut ValueIds) {
        if !self.same.is_empty() {
            for operand in operands {
                *operand = self.same.get(operand).copied().unwrap_or(*operand);
            }
        }
    }

    fn substitute_in_regions(&self, op: &mut Op) {
        for op in op.regions.iter_mut().flat_map(|region| &mut region.ops) {
            self.substitute(&mut op.operands);
            self.substitute_in_regions(op);
        }
    }

    /// Replaces a value with `by`, of the same type, in the ops of the function that are visited later. Does not change
    /// the operands that [`Patch::add`] and [`Patch::define`] receive.
    pub fn replace_uses(&mut self, value: ValueId, by: ValueId) {
        let by = self.same.get(&by).copied().unwrap_or(by);
        self.same.insert(value, by);
    }

    /// Adds the ops of a region, with `args` in place of its arguments. Returns the operands of the op that ends the
    /// region, which is not added. A region can be inlined once, because its ops define their results.
    ///
    /// # Errors
    ///
    /// Returns an error if the region is empty, or if the number or the types of `args` are wrong.
    pub fn inline(&mut self, region: Region, args: &[ValueId]) -> Result<ValueIds> {
        let Region { args: own, mut ops } = region;
        let Some(end) = ops.pop() else {
            return Err(Error::new(ErrorKind::Structure, "an empty region cannot be inlined"));
        };
        if own.len() != args.len() {
            let message = format_args!("a region has {} arguments, and is inlined with {}", own.len(), args.len());
            return Err(Error::new(ErrorKind::Structure, message));
        }
        // An argument may itself be an argument of the region, so resolve all of them before the first replacement.
        let mut resolved = ValueIds::from(args);
        self.substitute(&mut resolved);
        for (&value, &by) in own.iter().zip(&resolved) {
            let (expected, found) = (&self.values[value], &self.values[by]);
            if expected != found {
                let message = format_args!("a region with an argument of type {expected} is inlined with {found}");
                return Err(Error::new(ErrorKind::Type, message));
            }
        }
        self.same.extend(own.iter().copied().zip(resolved));
        for mut op in ops {
            self.substitute(&mut op.operands);
            self.substitute_in_regions(&mut op);
            self.ops.push(op);
        }
        let mut results = end.operands;
        self.substitute(&mut results);
        Ok(results)
    }

    /// Creates a region with these arguments from the ops that `build` adds.
    ///
    /// # Errors
    ///
    /// Returns the error of `build`.
    pub fn region(&mut self, args: Vec<ValueId>, build: impl FnOnce(&mut Self) -> Result<()>) -> Result<Region> {
        let outer = std::mem::take(&mut self.ops);
        let built = build(self);
        let ops = std::mem::replace(&mut self.ops, outer);
        built.map(|()| Region { args, ops })
    }

    /// Returns the types of all values of the function.
    #[must_use]
    pub fn types(&self) -> &ValueTypes {
        self.values
    }

    /// Returns the type of a value.
    ///
    /// # Errors
    ///
    /// Returns an error if the value is not a tensor.
    pub fn tensor(&self, value: ValueId) -> Result<&TensorType> {
        match self.values.get(value.0 as usize) {
            Some(Type::Tensor(ty)) => Ok(ty),
            Some(other) => Err(Error::new(ErrorKind::Type, format_args!("expected a tensor, found {other}"))),
            None => Err(Error::new(ErrorKind::Reference, format_args!("value {} does not exist", value.0))),
        }
    }

    /// Changes the type of a value.
    pub fn set_type(&mut self, value: ValueId, ty: impl Into<Arc<Type>>) {
        self.values.set(value.0 as usize, ty);
    }

    /// Creates a value that no op defines yet.
    pub fn value(&mut self, ty: impl Into<Arc<Type>>) -> ValueId {
        self.values.push(ty)
    }

    /// Adds an op as it is.
    pub fn push(&mut self, op: Op) {
        self.ops.push(op);
    }

    /// Adds an op that defines `results`, at the location of the replaced op. Returns the op, for example to set its
    /// regions.
    pub fn define(&mut self, kind: OpKind, operands: &[ValueId], results: &[ValueId]) -> &mut Op {
        let location = self.location;
        let at = self.ops.len();
        self.ops.push(Op { location, ..Op::new(kind, operands, results) });
        &mut self.ops[at]
    }

    /// Adds an op with one result at the location of the replaced op, and returns the result.
    pub fn add(&mut self, kind: OpKind, operands: &[ValueId], ty: TensorType) -> ValueId {
        let result = self.value(Type::Tensor(ty));
        self.define(kind, operands, &[result]);
        result
    }

    /// Adds a constant with this data, which is as for [`Literal::new`], and returns its value.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Literal::new`].
    pub fn constant(&mut self, ty: TensorType, data: impl Into<Bytes>) -> Result<ValueId> {
        Ok(self.add(OpKind::Constant(Literal::new(ty.clone(), data)?), &[], ty))
    }
}

#[cfg(feature = "text")]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Module;
    use crate::verify::{VerifyLevel, verify};

    fn parsed(text: &str) -> Module {
        crate::parse(text.to_owned(), VerifyLevel::FULL).unwrap()
    }

    /// Replaces each `if` by the ops of its first branch.
    fn first_branch(op: Op, patch: &mut Patch<'_>) -> Result<()> {
        if !matches!(op.kind, OpKind::If) {
            patch.push(op);
            return Ok(());
        }
        let region = op.regions.into_iter().next().unwrap_or_default();
        let results = patch.inline(region, &[])?;
        for (&value, &by) in op.results.iter().zip(&results) {
            patch.replace_uses(value, by);
        }
        Ok(())
    }

    #[test]
    fn replaced_values_reach_nested_regions() {
        let branch =
            |ops: &str| format!("({{ {ops} }}, {{ stablehlo.return %y : tensor<f32> }}) : (tensor<i1>) -> tensor<f32>");
        let inner = branch("%b = stablehlo.sine %a : tensor<f32> stablehlo.return %b : tensor<f32>");
        let middle = branch(&format!(
            "%a = stablehlo.cosine %x : tensor<f32> %i = \"stablehlo.if\"(%c) {inner} stablehlo.return %i : tensor<f32>"
        ));
        // `%0` is `%x`, also within the loop.
        let text = format!(
            "func.func @main(%c: tensor<i1>, %x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {{
               %0 = \"stablehlo.if\"(%c) {pass}
               %1 = \"stablehlo.if\"(%c) {middle}
               %2 = \"stablehlo.while\"(%1) ({{
                 ^bb0(%v: tensor<f32>):
                   %l = stablehlo.compare LT, %v, %0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
                   stablehlo.return %l : tensor<i1>
               }}, {{
                 ^bb0(%v: tensor<f32>):
                   %n = stablehlo.add %v, %1 : tensor<f32>
                   stablehlo.return %n : tensor<f32>
               }}) : (tensor<f32>) -> tensor<f32>
               return %2 : tensor<f32>
             }}",
            pass = branch("stablehlo.return %x : tensor<f32>")
        );
        let mut module = parsed(&text);
        rewrite(&mut module.funcs[0], &module.locations, first_branch).unwrap();
        verify(&module, VerifyLevel::FULL).unwrap();
        let expected = parsed(
            "func.func @main(%c: tensor<i1>, %x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
               %a = stablehlo.cosine %x : tensor<f32>
               %b = stablehlo.sine %a : tensor<f32>
               %2 = \"stablehlo.while\"(%b) ({
                 ^bb0(%v: tensor<f32>):
                   %l = stablehlo.compare LT, %v, %x : (tensor<f32>, tensor<f32>) -> tensor<i1>
                   stablehlo.return %l : tensor<i1>
               }, {
                 ^bb0(%v: tensor<f32>):
                   %n = stablehlo.add %v, %b : tensor<f32>
                   stablehlo.return %n : tensor<f32>
               }) : (tensor<f32>) -> tensor<f32>
               return %2 : tensor<f32>
             }",
        );
        assert_eq!(module.to_string(), expected.to_string());
    }

    fn stop() -> Error {
        Error::new(ErrorKind::Unsupported, "stop")
    }

    #[test]
    fn faults_are_named() {
        let mut module = parsed("func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }");
        let mut faults = Vec::new();
        rewrite(&mut module.funcs[0], &module.locations, |op, patch| {
            faults.push(patch.inline(Region::default(), &[]).unwrap_err());
            let one = Region::new(vec![ValueId(0)], vec![op.clone()]);
            faults.push(patch.inline(one, &[]).unwrap_err());
            faults.push(patch.tensor(ValueId(9)).unwrap_err());
            let number = patch.value(Type::Tensor(TensorType::new([], crate::ir::ElementType::I32)));
            faults.push(patch.inline(Region::new(vec![ValueId(0)], vec![op.clone()]), &[number]).unwrap_err());
            // A region that fails leaves the ops before it.
            patch.add(OpKind::Iota { iota_dimension: 0 }, &[], TensorType::new([2], crate::ir::ElementType::F32));
            patch.region(Vec::new(), |_| Err(stop())).unwrap_err();
            let token = patch.value(Type::Token);
            faults.push(patch.tensor(token).unwrap_err());
            faults.push(patch.constant(TensorType::new([2], crate::ir::ElementType::F32), vec![0; 3]).unwrap_err());
            patch.push(op);
            Ok(())
        })
        .unwrap();
        let faults: Vec<String> = faults.iter().map(Error::to_string).collect();
        assert_eq!(
            faults,
            [
                "an empty region cannot be inlined",
                "a region has 1 arguments, and is inlined with 0",
                "value 9 does not exist",
                "a region with an argument of type tensor<f32> is inlined with tensor<i32>",
                "expected a tensor, found !stablehlo.token",
                "a constant of type tensor<2xf32> has 3 bytes, but must have 2 elements or one",
            ]
        );
        assert_eq!(module.funcs[0].body.ops.len(), 2);
        let failed = rewrite(&mut module.funcs[0], &module.locations, |_, _| Err(stop())).unwrap_err();
        assert_eq!((failed.message(), failed.op(), failed.func()), ("stop", Some("stablehlo.iota"), Some("main")));
    }

    #[test]
    fn arguments_can_be_swapped() {
        let text = "func.func @main(%c: tensor<i1>, %x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
          %0:2 = \"stablehlo.while\"(%x, %y) ({
            ^bb0(%p: tensor<f32>, %q: tensor<f32>):
              stablehlo.return %c : tensor<i1>
          }, {
            ^bb0(%p: tensor<f32>, %q: tensor<f32>):
              stablehlo.return %q, %p : tensor<f32>, tensor<f32>
          }) : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
          return %0#0 : tensor<f32>
        }";
        let mut module = parsed(text);
        rewrite(&mut module.funcs[0], &module.locations, |op, patch| {
            if let OpKind::While = op.kind {
                // Two turns of the loop: its body swaps the values, and does not define any.
                let body = &op.regions[1];
                let once = patch.inline(body.clone(), &op.operands)?;
                let args = body.args.clone();
                assert_eq!(once[..], [op.operands[1], op.operands[0]]);
                let crossed = patch.inline(Region::new(args.clone(), body.ops.clone()), &[args[1], args[0]])?;
                assert_eq!(crossed[..], op.operands[..]);
                for (&value, &by) in op.results.iter().zip(&crossed) {
                    patch.replace_uses(value, by);
                }
                return Ok(());
            }
            patch.push(op);
            Ok(())
        })
        .unwrap();
        let expected = "func.func @main(%c: tensor<i1>, %x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }";
        assert_eq!(module.to_string(), parsed(expected).to_string());
    }
}
