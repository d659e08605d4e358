//! Register blocks: the inner loop of a matrix product, over packed strips of both operands.

use std::marker::PhantomData;

use pulp::{Simd, WithSimd};

use super::number::Wide;

/// Number of rows of a register block on machines with fewer than 32 vector registers. [`MANY_ROWS`] is for at least 32
/// vector registers.
pub(super) const FEW_ROWS: usize = 6;
pub(super) const MANY_ROWS: usize = 12;

/// Evaluates an expression with a constant for the number of rows of a register block on the current machine. The
/// optional second constant is the number of rows that are multiplied at a time in a strip with few rows. Only this
/// macro chooses these numbers.
macro_rules! with_rows {
    ($S:ident, $rows:ident $(, $third:ident)? => $call:expr) => {
        if $S::REGISTER_COUNT >= 32 {
            const $rows: usize = crate::engine::kernels::gemm::tile::MANY_ROWS;
            $(const $third: usize = $rows / 3;)?
            $call
        } else {
            const $rows: usize = crate::engine::kernels::gemm::tile::FEW_ROWS;
            $(const $third: usize = $rows / 3;)?
            $call
        }
    };
}

pub(super) use with_rows;

/// Computes the number of rows and columns of a register block.
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
    /// Number of rows and columns. The last strip of each operand may have fewer lines than a register block.
    pub(super) size: (usize, usize),
    /// Strips of both operands.
    pub(super) a: &'a [W],
    pub(super) b: &'a [W],
    /// The output. For each strip of B, it contains all rows of the block.
    pub(super) to: &'a mut [W],
    /// Whether this is the first panel, which stores its products. Later panels add their products to the output.
    pub(super) first: bool,
}

impl<W: Wide> WithSimd for Block<'_, W> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        with_rows!(S, ROWS, THIRD => self.tiles::<S, ROWS, THIRD>(simd));
    }
}

impl<W: Wide> Block<'_, W> {
    #[inline(always)]
    fn tiles<S: Simd, const MR: usize, const THIRD: usize>(self, simd: S) {
        let Block { depth, size: (rows, columns), a, b, to, first } = self;
        let nr = 2 * W::lanes::<S>();
        let padded = a.len() / depth;
        for (j, (b, to)) in b.chunks_exact(nr * depth).zip(to.chunks_exact_mut(nr * padded)).enumerate() {
            let strip = Strip { depth, rows, b, to, first };
            if columns - j * nr > nr / 2 {
                strip.tiles::<S, MR, THIRD, 2>(simd, a);
            } else {
                strip.tiles::<S, MR, THIRD, 1>(simd, a);
            }
        }
    }
}

/// The part of a block that belongs to one strip of B.
struct Strip<'a, W> {
    depth: usize,
    rows: usize,
    b: &'a [W],
    to: &'a mut [W],
    first: bool,
}

impl<W: Wide> Strip<'_, W> {
    /// Multiplies the strips of A by `VECTORS` vectors of B. If the last strip has few rows, they are multiplied
    /// `THIRD` rows at a time, because a third or more of a whole register block would consist of missing rows.
    #[inline(always)]
    fn tiles<S: Simd, const MR: usize, const THIRD: usize, const VECTORS: usize>(self, simd: S, a: &[W]) {
        let Strip { depth, rows, b, to, first } = self;
        let nr = 2 * W::lanes::<S>();
        for (i, (a, to)) in a.chunks_exact(MR * depth).zip(to.chunks_exact_mut(MR * nr)).enumerate() {
            let left = rows - i * MR;
            if left > 2 * THIRD {
                store(simd, &product::<W, S, MR, MR, VECTORS>(simd, a, 0, b), to, first);
                continue;
            }
            for (third, to) in to.chunks_exact_mut(THIRD * nr).take(left.div_ceil(THIRD)).enumerate() {
                store(simd, &product::<W, S, MR, THIRD, VECTORS>(simd, a, third * THIRD, b), to, first);
            }
        }
    }
}

/// Stores the rows `acc` of a product in `to` if `replace` is set. Otherwise adds them to `to`. Each row of `to`
/// consists of two vectors.
#[inline(always)]
fn store<W: Wide, S: Simd, const VECTORS: usize>(
    simd: S,
    acc: &[[W::Vector<S>; VECTORS]],
    to: &mut [W],
    replace: bool,
) {
    for (pair, acc) in W::vectors_mut::<S>(to).chunks_exact_mut(2).zip(acc) {
        for (to, &acc) in pair.iter_mut().zip(acc) {
            *to = if replace { acc } else { W::plus(simd, *to, acc) };
        }
    }
}

/// Multiplies `ROWS` rows of a strip of A, starting at row `first`, by the first `VECTORS` vectors of a strip of B. The
/// strip of A has `MR` rows, and the strip of B has two vectors.
#[inline(always)]
pub(super) fn product<W: Wide, S: Simd, const MR: usize, const ROWS: usize, const VECTORS: usize>(
    simd: S,
    a: &[W],
    first: usize,
    b: &[W],
) -> [[W::Vector<S>; VECTORS]; ROWS] {
    let zero = W::splat(simd, W::default());
    let mut acc = [[zero; VECTORS]; ROWS];
    // Use indices, because whether the compiler inlines iterator adapters into the loop depends on the build's
    // settings.
    let (a, b) = (a.as_chunks::<MR>().0, W::vectors::<S>(b).as_chunks::<2>().0);
    let depth = a.len().min(b.len());
    let (a, b) = (&a[..depth], &b[..depth]);
    for p in 0..depth {
        let (a, b) = (&a[p][first..first + ROWS], &b[p][..VECTORS]);
        for i in 0..ROWS {
            let x = W::splat(simd, a[i]);
            for j in 0..VECTORS {
                acc[i][j] = W::mul_add(simd, x, b[j], acc[i][j]);
            }
        }
    }
    acc
}
