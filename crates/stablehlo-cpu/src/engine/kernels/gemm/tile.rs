//! Register blocks: the inner loop of a product, over packed strips of both operands.

use std::marker::PhantomData;

use pulp::{Simd, WithSimd};

use super::number::Wide;

/// Rows of a register block, for machines with 16 and with 32 vector registers.
pub(super) const FEW_ROWS: usize = 6;
pub(super) const MANY_ROWS: usize = 12;

/// Calls a method with the rows of this machine's register block as its last generic argument. This is the only place
/// that chooses the number of rows.
macro_rules! with_rows {
    ($S:ident, $rows:ident => $call:expr) => {
        if $S::REGISTER_COUNT >= 32 {
            const $rows: usize = crate::engine::kernels::gemm::tile::MANY_ROWS;
            $call
        } else {
            const $rows: usize = crate::engine::kernels::gemm::tile::FEW_ROWS;
            $call
        }
    };
}

pub(super) use with_rows;

/// Rows and columns of a register block.
pub(super) struct Shape<W>(pub(super) PhantomData<W>);

impl<W: Wide> WithSimd for Shape<W> {
    type Output = (usize, usize);

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> (usize, usize) {
        (with_rows!(S, ROWS => ROWS), 2 * W::lanes::<S>())
    }
}

/// A block of the output over the depth of one panel.
pub(super) struct Block<'a, W> {
    pub(super) depth: usize,
    /// Strips of both operands.
    pub(super) a: &'a [W],
    pub(super) b: &'a [W],
    /// The block: for each strip of B, all rows.
    pub(super) to: &'a mut [W],
    /// Whether this is the first panel. It stores its values, and later panels add to them.
    pub(super) first: bool,
}

impl<W: Wide> WithSimd for Block<'_, W> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        with_rows!(S, ROWS => self.tiles::<S, ROWS>(simd));
    }
}

impl<W: Wide> Block<'_, W> {
    #[inline(always)]
    fn tiles<S: Simd, const MR: usize>(self, simd: S) {
        let Block { depth, a, b, to, first } = self;
        let nr = 2 * W::lanes::<S>();
        let rows = a.len() / depth;
        for (b, to) in b.chunks_exact(nr * depth).zip(to.chunks_exact_mut(nr * rows)) {
            for (a, to) in a.chunks_exact(MR * depth).zip(to.chunks_exact_mut(MR * nr)) {
                let acc = product::<W, S, MR>(simd, a, b);
                for (pair, acc) in W::vectors_mut::<S>(to).chunks_exact_mut(2).zip(&acc) {
                    for (to, &acc) in pair.iter_mut().zip(acc) {
                        *to = if first { acc } else { W::plus(simd, *to, acc) };
                    }
                }
            }
        }
    }
}

/// The product of two strips: `MR` rows of two vectors.
#[inline(always)]
pub(super) fn product<W: Wide, S: Simd, const MR: usize>(simd: S, a: &[W], b: &[W]) -> [[W::Vector<S>; 2]; MR] {
    let zero = W::splat(simd, W::default());
    let mut acc = [[zero; 2]; MR];
    // Use indices, because whether iterator adapters are compiled into the loop depends on the build's settings.
    let (a, b) = (a.as_chunks::<MR>().0, W::vectors::<S>(b).as_chunks::<2>().0);
    let depth = a.len().min(b.len());
    let (a, b) = (&a[..depth], &b[..depth]);
    for p in 0..depth {
        let [b0, b1] = b[p];
        for i in 0..MR {
            let x = W::splat(simd, a[p][i]);
            acc[i][0] = W::mul_add(simd, x, b0, acc[i][0]);
            acc[i][1] = W::mul_add(simd, x, b1, acc[i][1]);
        }
    }
    acc
}
