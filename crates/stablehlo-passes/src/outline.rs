//! Outlining: moves ops of a function into another function.

use std::collections::HashMap;

use stablehlo::ir::{Func, Op, OpKind, Region, Type, ValueId, ValueIds, ValueTypes};
use stablehlo::{Error, ErrorKind, Result};

/// The result of [`outline`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outline {
    /// The private function that contains the ops.
    pub func: Func,
    /// The values that a call of the function needs as operands. The ops use these values and do not define them.
    pub operands: ValueIds,
}

/// Creates a private function with copies of ops, in this order, that returns `results`. `types` are the types of the
/// function to which the ops belong. Values from outside that the ops or their regions use become arguments, in the
/// order of their first use.
///
/// The caller adds the function to the module, and replaces the ops with a call of the function.
///
/// ```
/// use stablehlo::VerifyLevel;
/// use stablehlo::ir::{Op, OpKind};
///
/// let mut module = stablehlo::parse("func.func @main(%x: tensor<f32>) -> tensor<f32> {
///   %0 = stablehlo.sine %x : tensor<f32>
///   %1 = stablehlo.add %0, %x : tensor<f32>
///   return %1 : tensor<f32>
/// }", VerifyLevel::FULL)?;
/// let main = &mut module.funcs[0];
/// let results = main.body.ops[1].results.clone();
/// let outline = stablehlo_passes::outline("work", &main.body.ops[..2], &results, &main.values)?;
/// let call = Op::new(OpKind::Call { callee: "work".into() }, outline.operands, results);
/// main.body.ops.splice(..2, [call]);
/// module.funcs.push(outline.func);
/// stablehlo::verify(&module, VerifyLevel::FULL)?;
/// # Ok::<(), stablehlo::Error>(())
/// ```
///
/// # Errors
///
/// Returns an error if none of the ops defines one of the `results`, or if a value has no type.
pub fn outline<'o>(
    name: &str,
    ops: impl IntoIterator<Item = &'o Op>,
    results: &[ValueId],
    types: &ValueTypes,
) -> Result<Outline> {
    let mut copy = Copy {
        from: types,
        values: ValueTypes::new(),
        new: HashMap::new(),
        operands: ValueIds::new(),
        args: Vec::new(),
    };
    let mut ops = ops.into_iter().map(|op| copy.op(op)).collect::<Result<Vec<_>>>()?;
    let args = copy.operands.len();
    let returned = results.iter().map(|&value| copy.used(value)).collect::<Result<ValueIds>>()?;
    if let Some(value) = copy.operands.get(args) {
        let message =
            format_args!("value {} is a result of function `{name}`, but no op of `{name}` defines it", value.0);
        return Err(Error::new(ErrorKind::Reference, message));
    }
    let results: Vec<Type> = returned.iter().map(|&value| copy.values[value].clone()).collect();
    ops.push(Op::new(OpKind::Return, returned, ValueIds::new()));
    let func = Func::new(name, Region::new(copy.args, ops), copy.values, results);
    Ok(Outline { func: Func { public: false, ..func }, operands: copy.operands })
}

/// The state of [`outline`].
struct Copy<'f> {
    /// Types of the values of the old function.
    from: &'f ValueTypes,
    /// Types of the values of the new function.
    values: ValueTypes,
    /// The new value for each old value.
    new: HashMap<ValueId, ValueId>,
    /// The old values that became arguments.
    operands: ValueIds,
    /// The arguments of the new function.
    args: Vec<ValueId>,
}

impl Copy<'_> {
    fn op(&mut self, op: &Op) -> Result<Op> {
        let operands = op.operands.iter().map(|&value| self.used(value)).collect::<Result<_>>()?;
        let regions = op.regions.iter().map(|region| self.region(region)).collect::<Result<_>>()?;
        let results = op.results.iter().map(|&value| self.defined(value)).collect::<Result<_>>()?;
        Ok(op.copied(operands, results, regions))
    }

    fn region(&mut self, region: &Region) -> Result<Region> {
        let args = region.args.iter().map(|&value| self.defined(value)).collect::<Result<_>>()?;
        let ops = region.ops.iter().map(|op| self.op(op)).collect::<Result<_>>()?;
        Ok(Region { args, ops })
    }

    /// Returns the new value for a value that a copied op uses. Adds an argument if no copied op defines the value.
    fn used(&mut self, old: ValueId) -> Result<ValueId> {
        if let Some(&new) = self.new.get(&old) {
            return Ok(new);
        }
        let new = self.defined(old)?;
        self.operands.push(old);
        self.args.push(new);
        Ok(new)
    }

    fn defined(&mut self, old: ValueId) -> Result<ValueId> {
        let ty = self
            .from
            .shared(old.0 as usize)
            .ok_or_else(|| Error::new(ErrorKind::Reference, format_args!("value {} has no type", old.0)))?;
        let new = self.values.push(ty.clone());
        self.new.insert(old, new);
        Ok(new)
    }
}
