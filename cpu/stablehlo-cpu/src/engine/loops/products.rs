//! Translates small products of a matrix and a vector.

use stablehlo::ir::Binary;
use stablehlo_jit::{Access, Element, Expression, Statement, Value};

use super::signature::element_of;
use super::translator::Translator;
use crate::engine::graph::{Node, ValueIndex};
use crate::engine::kernels::dot::Dot;
use crate::engine::kernels::gemm::{LANES, SUMS, VectorProduct};

/// Maximum number of multiplications. The code contains each of them. For larger products, the interpreter's vector
/// code is faster, although a call of the interpreter takes longer than some multiplications.
const MAX_MULTIPLICATIONS: usize = 64;

impl Translator<'_> {
    /// Translates a small product of a matrix and a vector. Returns `None` for all other products.
    pub(super) fn product(&mut self, dot: &Dot, node: &Node) -> Option<()> {
        let product = dot.vector_product()?;
        let VectorProduct { is_matrix_left, count, free, contract, step } = product;
        if count == 0 || count * dot.k > MAX_MULTIPLICATIONS {
            return None;
        }
        let (left, right) = ((node.ins[0], dot.lhs.batch.offset()), (node.ins[1], dot.rhs.batch.offset()));
        let (matrix, vector) = if is_matrix_left { (left, right) } else { (right, left) };
        let element = element_of(dot.operand)?;
        let x = (0..dot.k).map(|p| self.element_at(vector.0, vector.1 + p * step, element));
        let x = x.collect::<Option<Vec<Value>>>()?;
        let mut results = Vec::with_capacity(count);
        for i in 0..count {
            let row = (0..dot.k).map(|p| self.element_at(matrix.0, matrix.1 + i * free + p * contract, element));
            let row = row.collect::<Option<Vec<Value>>>()?;
            results.push(self.dot_product(&row, &x, element, product.has_contiguous_rows())?);
        }
        self.hold_all(node.outs[0], &results)
    }

    /// Computes a dot product. The code multiplies and adds in the same order as the interpreter. It omits the partial
    /// sums of the interpreter to which no product is added. These are 0, and adding 0 to a partial sum does not change
    /// its bits, because a partial sum is never -0.
    fn dot_product(&mut self, row: &[Value], x: &[Value], element: Element, is_contiguous: bool) -> Option<Value> {
        let zero = self.define(element, Expression::Constant([0; 8]));
        let mut sums = vec![zero; if is_contiguous { LANES } else { SUMS }.min(row.len())];
        let lanes = sums.len();
        for (p, (&y, &x)) in row.iter().zip(x).enumerate() {
            let sum = &mut sums[p % lanes];
            *sum = self.define(element, Expression::FusedMultiplyAdd(y, x, *sum));
        }
        if is_contiguous {
            let mut width = LANES / 2;
            while width > 0 {
                for lane in width..sums.len().min(2 * width) {
                    let sum = Expression::Binary(Binary::Add, sums[lane - width], sums[lane]);
                    sums[lane - width] = self.define(element, sum);
                }
                sums.truncate(width);
                width /= 2;
            }
            return sums.first().copied();
        }
        let halves = sums.chunks(SUMS / 2).map(<[Value]>::to_vec).collect::<Vec<_>>();
        let mut add = |a, b| self.define(element, Expression::Binary(Binary::Add, a, b));
        let halves: Vec<Value> = halves.into_iter().filter_map(|half| half.into_iter().reduce(&mut add)).collect();
        halves.into_iter().reduce(add)
    }

    /// Records the elements of a value. Keeps them in registers if the value is small enough, and stores them in memory
    /// otherwise.
    fn hold_all(&mut self, v: ValueIndex, elements: &[Value]) -> Option<()> {
        if elements.len() <= self.most {
            return self.hold_elements(v, elements);
        }
        let (to, own) = (self.temporary(v)?, self.element(v)?);
        for (i, &value) in elements.iter().enumerate() {
            let value = self.bits(value, own)?;
            let to = Access { array: to.array, offset: to.start + i * own.size(), terms: Vec::new() };
            self.out.push(Statement::Store { to, value });
        }
        self.hold_at(v, to);
        Some(())
    }
}
