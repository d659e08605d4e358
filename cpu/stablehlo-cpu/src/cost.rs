//! Estimates the cost of a program from its operations.

use stablehlo::ir::{Func, Module, Op, OpKind, Region, Type, Unary, ValueId};

/// Maximum depth of nested calls and regions. Operations that are nested more deeply add no cost. The limit prevents a
/// stack overflow, because the walk is recursive. Real programs do not nest that deeply.
const MAX_DEPTH: usize = 96;
/// Maximum number of operations to visit. The limit bounds the time of an estimate. If each function calls the next one
/// twice, the number of visits grows exponentially.
const MAX_VISITS: usize = 1 << 20;

/// Estimated number of operations of one execution. Each loop counts as one iteration, and all branches of a
/// conditional count.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Cost {
    /// Simple arithmetic, such as additions and multiplications.
    pub flops: f64,
    /// Transcendental functions, such as exponentials and sines.
    pub transcendentals: f64,
}

impl Cost {
    /// Returns the cost per device if `by` devices share the work equally.
    #[must_use]
    pub fn shared(self, by: f64) -> Self {
        Self { flops: self.flops / by, transcendentals: self.transcendentals / by }
    }
}

/// Estimates the cost of one execution of a module.
pub fn cost(module: &Module) -> Cost {
    let mut walk = Walk { module, cost: Cost::default(), visits: 0 };
    if let Some(entry) = module.entry() {
        walk.region(entry, &entry.body, 1.0, 0);
    }
    walk.cost
}

/// Returns the extents of a tensor, or a single zero for any other type. A dynamic extent counts as zero.
fn extents(func: &Func, value: ValueId) -> Vec<f64> {
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    match func.ty(value) {
        Type::Tensor(tensor) => tensor.shape.iter().map(|extent| (*extent).max(0) as f64).collect(),
        _ => vec![0.0],
    }
}

fn elements(func: &Func, value: Option<&ValueId>) -> f64 {
    value.map_or(0.0, |value| extents(func, *value).iter().product())
}

/// Walks through a module and adds up the cost of its operations.
struct Walk<'m> {
    module: &'m Module,
    cost: Cost,
    visits: usize,
}

impl Walk<'_> {
    /// Adds the cost of a region that runs `times` times, and that `depth` calls and regions contain.
    fn region(&mut self, func: &Func, body: &Region, times: f64, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        for op in &body.ops {
            self.visits += 1;
            if self.visits > MAX_VISITS {
                return;
            }
            self.operation(func, op, times, depth);
        }
    }

    fn nested(&mut self, func: &Func, op: &Op, times: f64, depth: usize) {
        for body in &op.regions {
            self.region(func, body, times, depth + 1);
        }
    }

    fn operation(&mut self, func: &Func, op: &Op, times: f64, depth: usize) {
        let out = elements(func, op.results.first());
        let first = elements(func, op.operands.first());
        let cost = &mut self.cost;
        match &op.kind {
            OpKind::Unary(unary) => match unary {
                Unary::Cbrt
                | Unary::Cosine
                | Unary::Exp2
                | Unary::Exponential
                | Unary::ExponentialMinusOne
                | Unary::Log
                | Unary::Log2
                | Unary::LogPlusOne
                | Unary::Logistic
                | Unary::Rsqrt
                | Unary::Sine
                | Unary::Sqrt
                | Unary::Tan
                | Unary::Tanh => cost.transcendentals += times * out,
                _ => cost.flops += times * out,
            },
            OpKind::Binary(stablehlo::ir::Binary::Power | stablehlo::ir::Binary::Atan2) => {
                cost.transcendentals += times * out;
            }
            OpKind::Binary(_) | OpKind::Compare { .. } | OpKind::Select | OpKind::Clamp | OpKind::Convert => {
                cost.flops += times * out;
            }
            OpKind::Fma => cost.flops += times * 2.0 * out,
            OpKind::DotGeneral { dimensions, .. } => {
                let lhs = op.operands.first().map(|lhs| extents(func, *lhs)).unwrap_or_default();
                let summed: f64 = dimensions.lhs_contracting.iter().filter_map(|d| lhs.get(*d)).product();
                cost.flops += times * 2.0 * out * summed;
            }
            OpKind::Convolution { dimensions, .. } => {
                let kernel = op.operands.get(1).map(|kernel| extents(func, *kernel)).unwrap_or_default();
                let features = kernel.get(dimensions.kernel_output_feature).copied().unwrap_or(1.0).max(1.0);
                cost.flops += times * 2.0 * out * kernel.iter().product::<f64>() / features;
            }
            // For each result element, the body runs once per reduced element after the first.
            OpKind::Reduce { .. } => self.nested(func, op, times * (first - out).max(0.0), depth),
            OpKind::ReduceWindow { window } | OpKind::SelectAndScatter { window } => {
                #[expect(clippy::cast_precision_loss, reason = "an estimate")]
                let size: f64 = window.dimensions.iter().map(|extent| (*extent).max(1) as f64).product();
                self.nested(func, op, times * out * (size - 1.0).max(0.0), depth);
            }
            OpKind::Scatter { .. } => {
                let updates = elements(func, op.operands.last());
                self.nested(func, op, times * updates, depth);
            }
            OpKind::Sort { .. } => self.nested(func, op, times * first * first.max(2.0).log2().ceil(), depth),
            OpKind::Cholesky { .. } => {
                let n = op.operands.first().and_then(|a| extents(func, *a).last().copied()).unwrap_or(0.0);
                cost.flops += times * first * n / 3.0;
            }
            OpKind::TriangularSolve { .. } => {
                let n = op.operands.first().and_then(|a| extents(func, *a).last().copied()).unwrap_or(0.0);
                cost.flops += times * out * n;
            }
            OpKind::Fft { .. } => cost.flops += times * 5.0 * first * first.max(2.0).log2(),
            OpKind::RngBitGenerator { .. } => cost.flops += times * 16.0 * elements(func, op.results.last()),
            OpKind::Call { callee } | OpKind::Composite { decomposition: callee, .. } => {
                if let Some(callee) = self.module.func(callee) {
                    self.region(callee, &callee.body, times, depth + 1);
                }
            }
            _ => self.nested(func, op, times, depth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(body: &str) -> Cost {
        let text = format!("func.func @main(%a: tensor<8x4xf32>, %b: tensor<4x2xf32>) -> tensor<8x2xf32> {{ {body} }}");
        cost(&stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap())
    }

    #[test]
    fn operation_counts() {
        let dot = "%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] \
                   : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>";
        assert_eq!(of(&format!("{dot}\n return %0 : tensor<8x2xf32>")), Cost { flops: 128.0, transcendentals: 0.0 });
        let tail = "%1 = stablehlo.tanh %0 : tensor<8x2xf32>\n %2 = stablehlo.add %1, %0 : tensor<8x2xf32>";
        let both = of(&format!("{dot}\n {tail}\n return %2 : tensor<8x2xf32>"));
        assert_eq!(both, Cost { flops: 144.0, transcendentals: 16.0 });
        let tail = "%1 = stablehlo.log2 %0 : tensor<8x2xf32>\n %2 = stablehlo.fma %1, %0, %0 : tensor<8x2xf32>";
        let both = of(&format!("{dot}\n {tail}\n return %2 : tensor<8x2xf32>"));
        assert_eq!(both, Cost { flops: 160.0, transcendentals: 16.0 });
    }

    #[test]
    fn doubling_calls_end() {
        let calls = |k: i32| {
            let name = format!("@f{}", k - 1);
            format!(
                "func.func private @f{k}() {{ func.call {name}() : () -> ()\n func.call {name}() : () -> ()\n return }}\n"
            )
        };
        let text: String = (1..60).map(calls).collect();
        let text = format!(
            "{text} func.func private @f0() {{ return }}
             func.func @main() {{ func.call @f59() : () -> ()\n return }}"
        );
        assert_eq!(cost(&stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap()), Cost::default());
    }
}
