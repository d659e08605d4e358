//! Converts dense matrices between row-major and column-major order.

/// Number of rows and columns of a tile of [`transpose`].
const TILE: usize = 16;

/// Stores the transpose of the row-major `rows x columns` matrix `from` in `to`, and applies `element` to each element.
pub(super) fn transpose<T: Copy>(from: &[T], rows: usize, columns: usize, to: &mut [T], element: impl Fn(T) -> T) {
    for top in (0..rows).step_by(TILE) {
        let bottom = (top + TILE).min(rows);
        for left in (0..columns).step_by(TILE) {
            for column in left..(left + TILE).min(columns) {
                let target = &mut to[column * rows + top..column * rows + bottom];
                for (row, x) in (top..bottom).zip(target) {
                    *x = element(from[row * columns + column]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::transpose;

    #[test]
    fn transposes_partial_tiles() {
        let (rows, columns) = (19, 37);
        let from: Vec<usize> = (0..rows * columns).collect();
        let mut to = vec![0; from.len()];
        transpose(&from, rows, columns, &mut to, |x| x + 1);
        for row in 0..rows {
            for column in 0..columns {
                assert_eq!(to[column * rows + row], row * columns + column + 1);
            }
        }
    }
}
