//! Constant folding. Elementwise ops are folded if the elements of their operands are equal or few. Kernels are folded
//! if their inputs have few elements.

use super::{FOLDED, LoweringContext};
use crate::engine::dtype::TensorType;
use crate::engine::elementwise::Map;
use crate::engine::graph::ValueIndex;
use crate::engine::kernels::{Context, Kernel};

impl LoweringContext<'_, '_> {
    /// Computes the result of an elementwise op on constants of equal elements.
    pub(super) fn fold(&mut self, map: &Map, ins: &[ValueIndex], splats: &[[u8; 16]], ty: &TensorType) -> ValueIndex {
        // Copy the element to memory that is aligned for every element type.
        let operand = |i: usize| splats.get(i).map_or([0u128], |&b| [u128::from_ne_bytes(b)]);
        let (a, b, c) = (operand(0), operand(1), operand(2));
        let size = |i: usize| ins.get(i).map_or(0, |&v| usize::from(self.graph.values[v as usize].size));
        let mut result = [0u128];
        let bytes = &mut bytemuck::bytes_of_mut(&mut result)[..ty.dtype.size()];
        let part = |x, i| &bytemuck::bytes_of::<[u128; 1]>(x)[..size(i)];
        map.code.run(part(&a, 0), part(&b, 1), part(&c, 2), bytes);
        let element = bytes.to_vec();
        self.graph.splat_value(&element, ty.elements())
    }

    /// Computes the result of an elementwise op on constants of few elements, such as those of shape computations.
    /// Returns `None` if an operand is not constant or the result has too many elements.
    pub(super) fn fold_dense(&mut self, map: &Map, ins: &[ValueIndex], ty: &TensorType) -> Option<ValueIndex> {
        let constant = |&v: &ValueIndex| self.graph.values[v as usize].constant.is_some();
        let n = ty.elements();
        if n > FOLDED || !ins.iter().all(constant) {
            return None;
        }
        let mut operands: Vec<Vec<u128>> = Vec::with_capacity(3);
        for &v in ins {
            let value = &self.graph.values[v as usize];
            let (size, count) = (usize::from(value.size), value.n);
            let mut bytes = self.known(v)?;
            if count == 1 {
                bytes = bytes.repeat(n);
            }
            let mut operand = vec![0u128; (n * size).div_ceil(16)];
            bytemuck::cast_slice_mut(&mut operand)[..n * size].copy_from_slice(bytes.get(..n * size)?);
            operands.push(operand);
        }
        let part = |i: usize| -> &[u8] {
            let size = |v: &ValueIndex| usize::from(self.graph.values[*v as usize].size);
            match (operands.get(i), ins.get(i)) {
                (Some(operand), Some(v)) => &bytemuck::cast_slice(operand)[..n * size(v)],
                _ => &[],
            }
        };
        let mut result = vec![0u128; ty.bytes().div_ceil(16)];
        let bytes: &mut [u8] = &mut bytemuck::cast_slice_mut(&mut result)[..ty.bytes()];
        map.code.run(part(0), part(1), part(2), bytes);
        self.dense(ty, bytemuck::cast_slice(&result).get(..ty.bytes())?).ok()
    }

    /// Computes the results of a kernel on constants of few elements, such as those of shape computations. Returns
    /// `None` if an input is not such a constant, a result has too many elements, or the kernel must not run at compile
    /// time.
    pub(super) fn fold_kernel(
        &mut self,
        kernel: &dyn Kernel,
        ins: &[ValueIndex],
        starts: &[Option<u16>],
        types: &[TensorType],
    ) -> Option<Vec<ValueIndex>> {
        let few = |v: &ValueIndex| {
            let value = &self.graph.values[*v as usize];
            value.constant.is_some() && value.n <= FOLDED
        };
        // Do not run loops, because they may never end, and a compilation cannot be stopped.
        if ins.is_empty()
            || !kernel.is_pure()
            || kernel.has_loop()
            || !ins.iter().all(few)
            || types.iter().any(|t| t.elements() > FOLDED)
        {
            return None;
        }
        let aligned = |bytes: &[u8]| {
            let mut words = vec![0u128; bytes.len().div_ceil(16)];
            bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
            words
        };
        let given: Vec<Vec<u8>> = ins.iter().map(|&v| self.known(v)).collect::<Option<_>>()?;
        let words: Vec<Vec<u128>> = given.iter().map(|g| aligned(g)).collect();
        let slices: Vec<&[u8]> =
            words.iter().zip(&given).map(|(w, g)| &bytemuck::cast_slice::<u128, u8>(w)[..g.len()]).collect();
        let mut made: Vec<Vec<u128>> = Vec::with_capacity(types.len());
        for (i, ty) in types.iter().enumerate() {
            made.push(match starts.get(i).copied().flatten() {
                Some(from) => aligned(given.get(usize::from(from)).filter(|g| g.len() == ty.bytes())?),
                None => vec![0; ty.bytes().div_ceil(16)],
            });
        }
        {
            let mut outs: Vec<&mut [u8]> = made
                .iter_mut()
                .zip(types)
                .map(|(w, ty)| &mut bytemuck::cast_slice_mut::<u128, u8>(w)[..ty.bytes()])
                .collect();
            kernel.run(&slices, &mut outs, &Context::unstoppable(self.graph.pool)).ok()?;
        }
        let dense = |(w, ty): (Vec<u128>, &TensorType)| {
            self.dense(ty, &bytemuck::cast_slice::<u128, u8>(&w)[..ty.bytes()]).ok()
        };
        made.into_iter().zip(types).map(dense).collect()
    }
}
