use super::blocking::{MC, NT, blocks, cuts};
use super::*;

/// Returns irregular small integers. They are so small that all sums of products in these tests are exact.
fn values(count: usize, seed: usize) -> Vec<f64> {
    let value = |i: usize| ((i + seed).wrapping_mul(2654435761) >> 7) % 17;
    (0..count).map(|i| f64::from(u8::try_from(value(i)).unwrap()) - 8.0).collect()
}

/// Converts one of [`values`] to `f32`, which represents it exactly.
fn narrow(x: f64) -> f32 {
    half::bf16::from_f64(x).to_f32()
}

/// Computes the product by its definition.
fn defined(m: usize, k: usize, n: usize, a: Matrix<'_, f64>, b: Matrix<'_, f64>) -> Vec<f64> {
    let mut out = vec![0.0; m * n];
    for i in 0..m {
        for p in 0..k {
            let x = a.data[a.offset + i * a.row + p * a.column];
            for j in 0..n {
                out[i * n + j] += x * b.data[b.offset + p * b.row + j * b.column];
            }
        }
    }
    out
}

/// Returns the data as a row-major matrix, as a column-major matrix and as a matrix with gaps.
fn layouts<T>(data: &[T], rows: usize, columns: usize) -> [Matrix<'_, T>; 3] {
    [
        Matrix { data, offset: 1, row: columns, column: 1 },
        Matrix { data, offset: 3, row: 1, column: rows },
        Matrix { data, offset: 0, row: 2 * columns, column: 2 },
    ]
}

fn narrowed<'a, T>(m: Matrix<'_, f64>, data: &'a [T]) -> Matrix<'a, T> {
    Matrix { data, offset: m.offset, row: m.row, column: m.column }
}

#[test]
fn exact_for_all_layouts_sizes_and_types() {
    let sizes: &[(usize, usize, usize)] = &[
        (1, 1, 1),
        (1, 7, 5),
        (128, 8, 1),
        (1, 128, 8),
        (37, 19, 1),
        (1, 33, 21),
        (2, 1, 1),
        (5, 1, 9),
        (16, 1, 16),
        (100, 1, 41),
        (1, 300, 700),
        (700, 300, 1),
        (3, 70, 530),
        (6, 3, 16),
        (8, 100, 40),
        (7, 257, 33),
        (33, 65, 7),
        (125, 20, 17),
        (300, 40, 10),
        (30, 300, 1100),
        (500, 90, 600),
        (13, 4200, 3),
        (19, 5003, 9),
        (100, 20, 1200),
        (3, 0, 2),
        (0, 3, 2),
        (2, 3, 0),
    ];
    for &(m, k, n) in sizes {
        let (a, b) = (values(2 * m * k + 4, 1), values(2 * k * n + 4, 77));
        let single = |data: &[f64]| data.iter().map(|&x| half::bf16::from_f64(x)).collect::<Vec<_>>();
        let (a16, b16) = (single(&a), single(&b));
        let single = |data: &[half::bf16]| data.iter().map(|x| x.to_f32()).collect::<Vec<_>>();
        let (a32, b32) = (single(&a16), single(&b16));
        for (at, x) in layouts(&a, m, k).into_iter().enumerate() {
            for (bt, y) in layouts(&b, k, n).into_iter().enumerate() {
                let want = defined(m, k, n, x, y);
                let mut out = vec![f64::NAN; m * n];
                gemm(m, k, n, x, y, &mut out, None);
                assert!(out == want, "f64 {m} {k} {n} layouts {at} {bt}");
                let mut out = vec![f32::NAN; m * n];
                gemm(m, k, n, narrowed(x, &a32), narrowed(y, &b32), &mut out, None);
                assert!(out.iter().zip(&want).all(|(&o, &w)| f64::from(o) == w), "f32 {m} {k} {n} layouts {at} {bt}");
                let mut out = vec![f32::NAN; m * n];
                gemm(m, k, n, narrowed(x, &a16), narrowed(y, &b16), &mut out, None);
                assert!(out.iter().zip(&want).all(|(&o, &w)| f64::from(o) == w), "bf16 {m} {k} {n} layouts {at} {bt}");
            }
        }
    }
}

/// Returns the bits of a result that is computed with a given number of threads.
fn bits(len: usize, threads: usize, product: impl Fn(&mut [f32]) + Sync) -> Vec<u32> {
    let mut out = vec![f32::NAN; len];
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| product(&mut out));
    out.into_iter().map(f32::to_bits).collect()
}

#[test]
fn same_bits_on_any_thread_count() {
    // The sums of these products are rounded. The products include single rows, single columns, and shallow and deep
    // products.
    let sizes = [(257, 200, 131), (1, 1500, 3001), (3001, 1500, 1), (2100, 1, 2100), (9, 4000, 129), (131, 2000, 17)];
    for (m, k, n) in sizes {
        let single = |data: Vec<f64>| data.iter().map(|&x| narrow(x) / 7.0).collect::<Vec<f32>>();
        let (a, b) = (single(values(2 * m * k + 4, 1)), single(values(2 * k * n + 4, 77)));
        for (a_layout, b_layout) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let results = [1, 2, 3, 16].map(|threads| {
                let (a, b) = (layouts(&a, m, k)[a_layout], layouts(&b, k, n)[b_layout]);
                bits(m * n, threads, |out| gemm(m, k, n, a, b, out, None))
            });
            assert!(results.iter().all(|r| *r == results[0]), "{m} {k} {n} layouts {a_layout} {b_layout}");
        }
    }
}

#[test]
fn same_bits_of_packed_products_on_any_thread_count() {
    // The contracting dimension is split in some of these products and not in others. The operands are packed before
    // the tasks or by the tasks.
    for (m, k, n) in [(9, 5000, 17), (144, 6300, 40), (64, 700, 1500), (1500, 700, 33), (300, 9000, 260)] {
        let single = |data: Vec<f64>| data.iter().map(|&x| narrow(x) / 7.0).collect::<Vec<f32>>();
        let (a, b) = (single(values(m * k + 4, 1)), single(values(k * n + 4, 77)));
        let (a, b) = (layouts(&a, m, k)[1], layouts(&b, k, n)[0].transposed());
        let results = [1, 2, 3, 16].map(|threads| {
            bits(m * n, threads, |out| product((m, k, n), &a, &b, out, Out { row: n, column: 0 }, None))
        });
        assert!(results.iter().all(|r| *r == results[0]), "{m} {k} {n}");
    }
}

#[cfg(feature = "math")]
#[test]
fn pieces_occupy_every_thread() {
    for threads in [1, 2, 3, 16, 64] {
        for (m, k, n) in [(1, 4000, 4000), (128, 784, 512), (1024, 1024, 1024), (33, 5000, 90), (5000, 700, 1)] {
            let (down, across) = dense::pieces((m, k, n), threads);
            assert!(down * across <= 4 * threads, "{m} {k} {n} {threads}: {down} {across}");
            assert!(down == 1 || m / down >= 32, "{m} {down}");
            assert!(across == 1 || n / across >= 128, "{n} {across}");
            let most = (m / 32).max(1) * (n / 128).max(1);
            assert!(down * across >= threads.min(most) / 2, "{m} {k} {n} {threads}: {down} {across}");
        }
    }
}

#[test]
fn blocks_cover_output() {
    for shape @ (mr, nr) in [(6, 16), (12, 32), (12, 16)] {
        for (m, n) in [(1, 1), (5, 3000), (128, 512), (1024, 1024), (2048, 65), (77, 31)] {
            for threads in [1, 2, 16] {
                let (down, across) = blocks(m, n, shape, threads);
                for (lines, width, count) in [(m, mr, down), (n, nr, across)] {
                    let cuts = cuts(lines, width, count);
                    assert_eq!((cuts[0], cuts[cuts.len() - 1]), (0, lines));
                    assert!(cuts.windows(2).all(|c| c[0] < c[1] && c[0].is_multiple_of(width)), "{cuts:?}");
                }
                let small = m <= 4 * mr * down && n <= 2 * nr * across;
                assert!(threads == 1 || small || down * across >= threads * 4, "{m} {n} {threads}: {down} {across}");
                assert!(m <= MC * down && n <= NT * across);
            }
        }
    }
}

#[test]
fn interleaved_lines() {
    for width in [4usize, 6, 12, 16, 32] {
        for count in 1..=width {
            for depth in [0usize, 1, 7, 8, 9, 31] {
                let data: Vec<f32> = values(count * (depth + 1), 3).iter().map(|&x| narrow(x)).collect();
                let lines: Vec<&[f32]> = data.chunks_exact(depth + 1).map(|line| &line[1..]).collect();
                let mut out = vec![-99.0; width * depth];
                interleaved::<f32>(&lines, &mut out, width);
                for p in 0..depth {
                    for i in 0..width {
                        let want = lines.get(i).map_or(-99.0, |line| line[p]);
                        assert_eq!(out[p * width + i], want, "{width} {count} {depth} at {p},{i}");
                    }
                }
            }
        }
    }
}
