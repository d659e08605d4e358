//! Definitions and users of the values of a function.

use stablehlo::ir::{Func, Op, ValueId};

/// The op that defines each value of a function, and the ops that use it, also in nested regions.
///
/// ```
/// use stablehlo_passes::Uses;
///
/// let module = stablehlo::parse("func.func @main(%x: tensor<f32>) -> tensor<f32> {
///   %0 = stablehlo.sine %x : tensor<f32>
///   %1 = stablehlo.add %0, %0 : tensor<f32>
///   return %1 : tensor<f32>
/// }", stablehlo::VerifyLevel::FULL)?;
/// let main = module.entry().expect("the module has one");
/// let uses = Uses::of(main);
/// let sine = main.body.ops[0].results[0];
/// assert_eq!(uses.definition(sine).expect("an op").kind.name(), "stablehlo.sine");
/// assert_eq!(uses.users(sine).len(), 1);
/// assert!(uses.definition(main.args()[0]).is_none());
/// # Ok::<(), stablehlo::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Uses<'f> {
    /// For each value, its definition and its users.
    values: Vec<(Option<&'f Op>, Vec<&'f Op>)>,
}

impl<'f> Uses<'f> {
    /// Visits all ops of a function.
    #[must_use]
    pub fn of(func: &'f Func) -> Self {
        let mut uses = Self { values: vec![(None, Vec::new()); func.values.len()] };
        for op in func.body.all_ops() {
            for result in &op.results {
                if let Some((definition, _)) = uses.values.get_mut(result.0 as usize) {
                    *definition = Some(op);
                }
            }
            for operand in &op.operands {
                // An op that uses a value twice is one user.
                if let Some((_, users)) = uses.values.get_mut(operand.0 as usize)
                    && !users.last().is_some_and(|&last| std::ptr::eq(last, op))
                {
                    users.push(op);
                }
            }
        }
        uses
    }

    /// Returns the op that defines a value. Returns `None` for arguments of the function and of regions.
    #[must_use]
    pub fn definition(&self, value: ValueId) -> Option<&'f Op> {
        self.values.get(value.0 as usize)?.0
    }

    /// Returns the ops that use a value, in program order. The op that ends a region uses the values that it returns.
    #[must_use]
    pub fn users(&self, value: ValueId) -> &[&'f Op] {
        self.values.get(value.0 as usize).map_or(&[], |(_, users)| users)
    }
}
