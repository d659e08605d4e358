//! Matrix multiplication of strided operands, with packed panels and a register-blocked inner loop in vector code.

use std::marker::PhantomData;

use super::blocking::{Out, blocks, cuts, work};
use super::number::{Float, Operand, Wide};
use super::pack::{BLOCK, Lines, Matrix, PANEL_A, PANEL_B, Part, TURNED, with_panel};
use super::split::Offset;
use super::tile::{Block, Shape};
use super::{split, vector};
use crate::engine::elementwise::map::arch;
use crate::engine::parallel;
use crate::engine::stop::Stop;

/// Maximum depth of a packed panel, so that its strips stay in the first-level and second-level caches.
const KC: usize = 384;
/// Maximum number of rows that are packed before the threads wait for one another. [`COLUMNS`] and [`DEEP`] limit the
/// columns and the depth.
const ROWS: usize = 2048;
const COLUMNS: usize = 2048;
const DEEP: usize = 4096;
/// Maximum number of packed elements of one operand.
const PACKED: usize = 4 << 20;

/// Computes `out = a * b` for a row-major `m x n` output. After a stop request, only a part of the output may be
/// computed.
pub(crate) fn gemm<T: Operand<Wide: Float>>(
    m: usize,
    k: usize,
    n: usize,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    out: &mut [T::Wide],
    stop: Option<&Stop>,
) {
    if k == 0 {
        return out.fill(T::Wide::default());
    }
    if m == 0 || n == 0 {
        return;
    }
    if let (Some(x), Some(y)) = (T::as_wide(a.data), T::as_wide(b.data)) {
        let a = Matrix { data: x, offset: a.offset, row: a.row, column: a.column };
        let b = Matrix { data: y, offset: b.offset, row: b.row, column: b.column };
        if k == 1 && vector::outer((m, n), &a, &b, out) {
            return;
        }
        if vector::product((m, k, n), &a, &b, out) {
            return;
        }
        #[cfg(feature = "math")]
        if super::dense::product(m, k, n, &a, &b, out, stop) {
            return;
        }
    }
    let (mr, nr) = arch().dispatch(Shape::<T::Wide>(PhantomData));
    let cost = |m: usize, n: usize| m.next_multiple_of(mr) * n.next_multiple_of(nr);
    // If the output has few columns, most lanes of a vector would be empty. Compute the transpose, so that the rows
    // fill the lanes.
    if m > 1 && n < nr && cost(n, m) * 5 < cost(m, n) * 4 {
        return with_panel(&TURNED, m * n, |turned: &mut [T::Wide]| {
            gemm(n, k, m, b.transposed(), a.transposed(), turned, stop);
            let turned = &*turned;
            parallel::chunks(out, n, size_of_val(turned), |start, part| {
                for (i, row) in part.chunks_exact_mut(n).enumerate() {
                    for (j, o) in row.iter_mut().enumerate() {
                        *o = turned[j * m + start / n + i];
                    }
                }
            });
        });
    }
    product::<T>((m, k, n), &a, &b.transposed(), out, Out { row: n, column: 0 }, stop);
}

/// A part of one operand that a thread packs into a panel.
struct Packing<'a, W> {
    of_b: bool,
    part: Part,
    /// Number of lines of a strip.
    width: usize,
    to: &'a mut [W],
}

/// Computes the product of any two operands whose extents are not zero. The lines of `b` are its columns.
pub(crate) fn product<T: Operand>(
    extents: (usize, usize, usize),
    a: &impl Lines<T>,
    b: &impl Lines<T>,
    out: &mut [T::Wide],
    to: Out,
    stop: Option<&Stop>,
) {
    match split::depth(extents) {
        Some(depth) => split::product(extents, depth, out, to, stop, |part, start, sums| {
            let (a, b) = (Offset { lines: a, start }, Offset { lines: b, start });
            whole(part, &a, &b, sums, Out { row: part.2, column: 0 }, stop);
        }),
        None => whole(extents, a, b, out, to, stop),
    }
}

/// Computes a product without splitting the contracting dimension between cores.
fn whole<T: Operand>(
    (m, k, n): (usize, usize, usize),
    a: &impl Lines<T>,
    b: &impl Lines<T>,
    out: &mut [T::Wide],
    to: Out,
    stop: Option<&Stop>,
) {
    let blocking = Blocking::new((m, k, n), arch().dispatch(Shape::<T::Wide>(PhantomData)));
    let Blocking { rows, columns, deep, alone, .. } = blocking;
    let (size_a, size_b) = blocking.panel_sizes();
    with_panel(&PANEL_A, size_a, |panel_a: &mut [T::Wide]| {
        with_panel(&PANEL_B, size_b, |panel_b: &mut [T::Wide]| {
            for jc in (0..n).step_by(columns) {
                for kb in (0..k).step_by(deep) {
                    let kd = deep.min(k - kb);
                    let depth = Depth { start: kb, count: kd, panel: kd.div_ceil(kd.div_ceil(KC)) };
                    for ib in (0..m).step_by(rows) {
                        let (mc, nc) = (rows.min(m - ib), columns.min(n - jc));
                        let mut packings = Vec::new();
                        if ib == 0 && alone != Alone::B {
                            packings.extend(blocking.packings(true, (jc, nc), &depth, panel_b));
                        }
                        if alone != Alone::A {
                            packings.extend(blocking.packings(false, (ib, mc), &depth, panel_a));
                        }
                        parallel::each_until(stop, packings, blocking.spread, |p| match p.of_b {
                            true => b.pack(p.part, p.width, p.to),
                            false => a.pack(p.part, p.width, p.to),
                        });
                        let panels = blocking.panels(panel_a, panel_b, (mc, nc), &depth);
                        let tasks = blocking.tasks((ib, mc), (jc, nc), out, to);
                        parallel::each_until(stop, tasks, blocking.spread, |task| panels.run(task, a, b));
                    }
                }
            }
        });
    });
}

/// The operand whose lines are each read by only one task. The task packs these lines itself, so that they are in the
/// caches of its core. Each part of the product then contains all lines of this operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alone {
    A,
    B,
    Neither,
}

/// Division of a product into parts that are packed together, and of each part into tasks.
struct Blocking {
    /// Numbers of rows and columns of a register block.
    shape: (usize, usize),
    /// Number of rows of a part. A part also has `columns` columns and a depth of `deep`.
    rows: usize,
    columns: usize,
    deep: usize,
    /// Number of tasks of a part along the rows. `across` is the number along the columns.
    down: usize,
    across: usize,
    alone: Alone,
    /// The work to pass to [`parallel::each_until`]. It is `usize::MAX` if the product uses several threads, and 0
    /// otherwise. `pieces` is the number of pieces into which a panel is divided for packing.
    spread: usize,
    pieces: usize,
}

/// A range of the contracting dimension, and the depth of its panels.
struct Depth {
    start: usize,
    count: usize,
    panel: usize,
}

impl Blocking {
    fn new((m, k, n): (usize, usize, usize), shape: (usize, usize)) -> Self {
        let threads = parallel::threads(work(m, k, n));
        let (spread, pieces) = if threads > 1 { (usize::MAX, threads * 2) } else { (0, 1) };
        let deep = DEEP.min(k);
        let (rows, columns) = (ROWS.min(PACKED / deep).min(m), COLUMNS.min(PACKED / deep).min(n));
        let (down, across) = blocks(rows, columns, shape, threads);
        let alone = match (down, across) {
            (_, 1) => Alone::A,
            (1, _) => Alone::B,
            _ => Alone::Neither,
        };
        let (rows, down) = if alone == Alone::A { (m, down * m.div_ceil(rows)) } else { (rows, down) };
        let (columns, across) = if alone == Alone::B { (n, across * n.div_ceil(columns)) } else { (columns, across) };
        Self { shape, rows, columns, deep, down, across, alone, spread, pieces }
    }

    /// Returns the number of packed elements of each operand.
    fn panel_sizes(&self) -> (usize, usize) {
        let (mr, nr) = self.shape;
        let size_a = if self.alone == Alone::A { 0 } else { self.rows.next_multiple_of(mr) * self.deep };
        let size_b = if self.alone == Alone::B { 0 } else { self.columns.next_multiple_of(nr) * self.deep };
        (size_a, size_b)
    }

    /// Divides `count` lines of an operand, starting at line `first`, into panels, and each panel into pieces that
    /// threads can pack independently. `of_b` selects the second operand. `to` is the memory for the packed lines.
    fn packings<'a, W>(
        &self,
        of_b: bool,
        (first, count): (usize, usize),
        depth: &Depth,
        mut to: &'a mut [W],
    ) -> Vec<Packing<'a, W>> {
        let width = if of_b { self.shape.1 } else { self.shape.0 };
        let piece = count.div_ceil(width).div_ceil(self.pieces) * width;
        let mut packings = Vec::new();
        for at in (0..depth.count).step_by(depth.panel) {
            let kc = depth.panel.min(depth.count - at);
            for line in (0..count).step_by(piece) {
                let lines = piece.min(count - line);
                let (head, tail) = std::mem::take(&mut to).split_at_mut(lines.next_multiple_of(width) * kc);
                to = tail;
                let part = Part { lines: (first + line, lines), depth: (depth.start + at, kc) };
                packings.push(Packing { of_b, part, width, to: head });
            }
        }
        packings
    }

    /// Returns the packed panels of `mc` rows and `nc` columns.
    fn panels<'a, W>(&self, a: &'a [W], b: &'a [W], (mc, nc): (usize, usize), depth: &Depth) -> Panels<'a, W> {
        let (mr, nr) = self.shape;
        Panels {
            a: if self.alone == Alone::A { None } else { Some(a) },
            b: if self.alone == Alone::B { None } else { Some(b) },
            lines: (mc.next_multiple_of(mr), nc.next_multiple_of(nr)),
            depth: (depth.start, depth.count),
            kc: depth.panel,
            shape: self.shape,
        }
    }

    /// Divides `mc` rows from row `ib` on and `nc` columns from column `jc` on of the output into tasks.
    fn tasks<'a, W>(
        &self,
        (ib, mc): (usize, usize),
        (jc, nc): (usize, usize),
        out: &'a mut [W],
        to: Out,
    ) -> Vec<Task<'a, W>> {
        let (mr, nr) = self.shape;
        let (down, across) = (cuts(mc, mr, self.down), cuts(nc, nr, self.across));
        let mut tasks: Vec<Task<'a, W>> = Vec::new();
        for i in down.windows(2) {
            for j in across.windows(2) {
                let rows = Vec::with_capacity(i[1] - i[0]);
                tasks.push(Task { first: (ib, jc), at: (i[0], j[0]), columns: j[1] - j[0], rows });
            }
        }
        let mut lines = out[ib * to.row..].chunks_mut(to.row);
        for (i, tasks) in down.windows(2).zip(tasks.chunks_mut(across.len() - 1)) {
            for line in lines.by_ref().take(i[1] - i[0]) {
                let mut rest = &mut line[to.column + jc..];
                for task in &mut *tasks {
                    let (row, tail) = rest.split_at_mut(task.columns);
                    task.rows.push(row);
                    rest = tail;
                }
            }
        }
        tasks
    }
}

/// Packed operands, as panels of depth `kc` with all lines of a part. An operand is `None` if the tasks pack it.
struct Panels<'a, W> {
    a: Option<&'a [W]>,
    b: Option<&'a [W]>,
    /// Number of lines of each operand, rounded up to whole strips.
    lines: (usize, usize),
    /// First index and number of indices of the packed part of the contracting dimension.
    depth: (usize, usize),
    kc: usize,
    shape: (usize, usize),
}

/// A block of the output that one task computes.
struct Task<'a, W> {
    /// The output row and column of the panels' first lines.
    first: (usize, usize),
    /// Index of the task's first line in the panels of each operand.
    at: (usize, usize),
    columns: usize,
    rows: Vec<&'a mut [W]>,
}

impl<W: Wide> Panels<'_, W> {
    fn run<T: Operand<Wide = W>>(&self, mut task: Task<'_, W>, a: &impl Lines<T>, b: &impl Lines<T>) {
        let ((mr, nr), (from, kd)) = (self.shape, self.depth);
        let (rows, columns) = (task.rows.len(), task.columns);
        let (lines_a, lines_b) = (rows.next_multiple_of(mr), columns.next_multiple_of(nr));
        let own = |panel: Option<&[W]>, lines: usize| if panel.is_some() { 0 } else { lines * self.kc };
        let (own_a, own_b) = (own(self.a, lines_a), own(self.b, lines_b));
        // Compute the block in a separate buffer and copy it row by row. Without this buffer, each write of a register
        // block's short rows would wait for memory, because the output's rows are far apart.
        with_panel(&BLOCK, lines_a * lines_b + own_a + own_b, |corner: &mut [W]| {
            let (block, own) = corner.split_at_mut(lines_a * lines_b);
            let (own_a, own_b) = own.split_at_mut(own_a);
            for start in (0..kd).step_by(self.kc) {
                let count = self.kc.min(kd - start);
                let depth = (from + start, count);
                let a = match self.a {
                    Some(a) => &a[start * self.lines.0 + task.at.0 * count..][..lines_a * count],
                    None => {
                        let own = &mut own_a[..lines_a * count];
                        a.pack(Part { lines: (task.first.0 + task.at.0, rows), depth }, mr, own);
                        &*own
                    }
                };
                let b = match self.b {
                    Some(b) => &b[start * self.lines.1 + task.at.1 * count..][..lines_b * count],
                    None => {
                        let own = &mut own_b[..lines_b * count];
                        b.pack(Part { lines: (task.first.1 + task.at.1, columns), depth }, nr, own);
                        &*own
                    }
                };
                arch().dispatch(Block {
                    depth: count,
                    size: (rows, columns),
                    a,
                    b,
                    to: &mut *block,
                    first: start == 0,
                });
            }
            for (i, row) in task.rows.iter_mut().enumerate() {
                for (j, to) in row.chunks_mut(nr).enumerate() {
                    let block = &block[j * lines_a * nr + i * nr..][..to.len()];
                    if from == 0 {
                        to.copy_from_slice(block);
                    } else {
                        to.iter_mut().zip(block).for_each(|(t, &r)| *t += r);
                    }
                }
            }
        });
    }
}
