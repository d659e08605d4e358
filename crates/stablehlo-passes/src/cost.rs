//! Estimates the cost of a program from its operations.

use stablehlo::ir::{Binary, DYNAMIC, Func, Module, Op, OpKind, Region, Type, Unary, ValueId};

/// Maximum depth of nested calls and regions. Operations that are nested more deeply add no cost. The limit prevents a
/// stack overflow, because the walk is recursive. Real programs do not nest that deeply.
const MAX_DEPTH: usize = 96;
/// Maximum number of operations to visit. The limit bounds the time of an estimate. If each function calls the next one
/// twice, the number of visits grows exponentially.
const MAX_VISITS: usize = 1 << 20;

/// Estimated number of operations of one execution. Each loop counts as one iteration, and all branches of a
/// conditional count. Sizes `?` count as zero, and [`Cost::unknown`] says for how many ops.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Cost {
    /// Simple arithmetic, such as additions and multiplications.
    pub flops: f64,
    /// Transcendental functions, such as exponentials and sines.
    pub transcendentals: f64,
    /// Bytes that ops read and write, as if each op ran alone. Ops that a `reduce` or another op applies to elements
    /// access no bytes. A slice reads only its own elements.
    pub bytes_accessed: f64,
    /// Number of ops with a size `?`, whose cost is not complete.
    pub unknown: usize,
}

impl Cost {
    /// Returns the cost per device if `by` devices share the work equally.
    #[must_use]
    pub fn shared(self, by: f64) -> Self {
        let (flops, transcendentals) = (self.flops / by, self.transcendentals / by);
        Self { flops, transcendentals, bytes_accessed: self.bytes_accessed / by, ..self }
    }
}

/// Estimates the cost of one execution of a module.
///
/// ```
/// let module = stablehlo::parse("func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
///   %0 = stablehlo.tanh %x : tensor<8xf32>
///   %1 = stablehlo.add %0, %x : tensor<8xf32>
///   return %1 : tensor<8xf32>
/// }", stablehlo::VerifyLevel::FULL)?;
/// let total = stablehlo_passes::cost(&module);
/// assert_eq!((total.flops, total.transcendentals, total.bytes_accessed), (8.0, 8.0, 160.0));
/// # Ok::<(), stablehlo::Error>(())
/// ```
#[must_use]
pub fn cost(module: &Module) -> Cost {
    let mut walk = Walk { module, cost: Cost::default(), visits: 0 };
    if let Some(entry) = module.entry() {
        walk.region(entry, &entry.body, Run { times: 1.0, depth: 0, in_memory: true });
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

/// Returns the number of bytes of a tensor, and zero for any other type.
fn bytes(func: &Func, value: Option<&ValueId>) -> f64 {
    let bits = value.and_then(|&value| func.values.tensor(value)).map_or(0, |ty| ty.element.bit_width());
    elements(func, value) * f64::from(bits) / 8.0
}

/// How ops run.
#[derive(Clone, Copy)]
struct Run {
    times: f64,
    /// Number of calls and regions around the ops.
    depth: usize,
    /// Whether operands and results are in memory.
    in_memory: bool,
}

/// Walks through a module and adds up the cost of its operations.
struct Walk<'m> {
    module: &'m Module,
    cost: Cost,
    visits: usize,
}

impl Walk<'_> {
    fn region(&mut self, func: &Func, body: &Region, run: Run) {
        if run.depth > MAX_DEPTH {
            return;
        }
        for op in &body.ops {
            self.visits += 1;
            if self.visits > MAX_VISITS {
                return;
            }
            self.operation(func, op, run);
        }
    }

    /// Visits the regions of an op.
    fn nested(&mut self, func: &Func, op: &Op, times: f64, in_memory: bool, depth: usize) {
        for body in &op.regions {
            self.region(func, body, Run { times, depth: depth + 1, in_memory });
        }
    }

    /// Adds the bytes that an op reads and writes itself.
    fn access(&mut self, func: &Func, op: &Op, run: Run) {
        let all = |values: &[ValueId]| values.iter().map(|value| bytes(func, Some(value))).sum::<f64>();
        let written = all(&op.results);
        let accessed = match op.kind {
            OpKind::Slice { .. } | OpKind::DynamicSlice { .. } | OpKind::Gather { .. } => {
                2.0 * written + all(op.operands.get(1..).unwrap_or_default())
            }
            // The device can write into the operand.
            OpKind::DynamicUpdateSlice => {
                bytes(func, op.operands.get(1)) + all(op.operands.get(1..).unwrap_or_default())
            }
            OpKind::Return
            | OpKind::Tuple
            | OpKind::GetTupleElement { .. }
            | OpKind::OptimizationBarrier
            | OpKind::GetDimensionSize { .. }
            | OpKind::AfterAll
            | OpKind::While
            | OpKind::If
            | OpKind::Case
            | OpKind::Call { .. }
            | OpKind::Composite { .. } => 0.0,
            _ => written + all(&op.operands),
        };
        if run.in_memory {
            self.cost.bytes_accessed += run.times * accessed;
        }
        let is_unknown = |value: &ValueId| func.values.tensor(*value).is_some_and(|ty| ty.shape.contains(&DYNAMIC));
        self.cost.unknown += usize::from(op.operands.iter().chain(&op.results).any(is_unknown));
    }

    fn operation(&mut self, func: &Func, op: &Op, run: Run) {
        self.access(func, op, run);
        let Run { times, depth, in_memory } = run;
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
            OpKind::Binary(Binary::Power | Binary::Atan2) => {
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
            OpKind::Reduce { .. } => self.nested(func, op, times * (first - out).max(0.0), false, depth),
            OpKind::ReduceWindow { window } | OpKind::SelectAndScatter { window } => {
                #[expect(clippy::cast_precision_loss, reason = "an estimate")]
                let size: f64 = window.dimensions.iter().map(|extent| (*extent).max(1) as f64).product();
                self.nested(func, op, times * out * (size - 1.0).max(0.0), false, depth);
            }
            OpKind::Scatter { .. } => {
                let updates = elements(func, op.operands.last());
                self.nested(func, op, times * updates, false, depth);
            }
            OpKind::Sort { .. } => self.nested(func, op, times * first * first.max(2.0).log2().ceil(), false, depth),
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
                    self.region(callee, &callee.body, Run { depth: depth + 1, ..run });
                }
            }
            OpKind::Map { .. } => self.nested(func, op, times * out, false, depth),
            _ => self.nested(func, op, times, in_memory, depth),
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
        let counts = |cost: Cost| (cost.flops, cost.transcendentals, cost.bytes_accessed, cost.unknown);
        let bytes = |elements: u32| f64::from(4 * elements);
        let dot_bytes = bytes(32 + 8 + 16);
        assert_eq!(counts(of(&format!("{dot}\n return %0 : tensor<8x2xf32>"))), (128.0, 0.0, dot_bytes, 0));
        let tail = "%1 = stablehlo.tanh %0 : tensor<8x2xf32>\n %2 = stablehlo.add %1, %0 : tensor<8x2xf32>";
        let both = of(&format!("{dot}\n {tail}\n return %2 : tensor<8x2xf32>"));
        assert_eq!(counts(both), (144.0, 16.0, dot_bytes + bytes(2 * 16 + 3 * 16), 0));
        let tail = "%1 = stablehlo.log2 %0 : tensor<8x2xf32>\n %2 = stablehlo.fma %1, %0, %0 : tensor<8x2xf32>";
        let both = of(&format!("{dot}\n {tail}\n return %2 : tensor<8x2xf32>"));
        assert_eq!(counts(both), (160.0, 16.0, dot_bytes + bytes(2 * 16 + 4 * 16), 0));
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

    #[test]
    fn sums_slices_and_unknown_sizes() {
        let module = stablehlo::parse(
            "func.func @main(%a: tensor<8x4xf32>, %d: tensor<?xf32>) -> (tensor<8xf32>, tensor<2xi4>, tensor<?xf32>) {
               %z = stablehlo.constant dense<0.0> : tensor<f32>
               %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1]
                 : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
               %c = stablehlo.constant dense<1> : tensor<100xi4>
               %1 = stablehlo.slice %c [0:2] : (tensor<100xi4>) -> tensor<2xi4>
               %2 = stablehlo.sine %d : tensor<?xf32>
               return %0, %1, %2 : tensor<8xf32>, tensor<2xi4>, tensor<?xf32>
             }",
            stablehlo::VerifyLevel::FULL,
        )
        .unwrap();
        let main = &module.funcs[0];
        let of = |at: usize| {
            let mut walk = Walk { module: &module, cost: Cost::default(), visits: 0 };
            walk.operation(main, &main.body.ops[at], Run { times: 1.0, depth: 0, in_memory: true });
            walk.cost
        };
        // 24 additions of elements, which are not in memory of their own.
        let sum = of(1);
        assert_eq!((sum.flops, sum.bytes_accessed, sum.unknown), (24.0, 4.0 * f64::from(32 + 1 + 8), 0));
        assert_eq!((of(2).bytes_accessed, of(3).bytes_accessed), (50.0, 2.0));
        assert_eq!((of(4).transcendentals, of(4).unknown), (0.0, 1));
        // The return also has an operand of unknown size.
        assert_eq!(cost(&module).unknown, 2);
    }
}
