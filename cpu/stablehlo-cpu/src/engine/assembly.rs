//! Values whose elements come from several places: the results of `concatenate` and `pad`. Tile programs read them
//! piece by piece, so that shifted copies of an array are not stored.

use bytemuck::Pod;

use super::view::View;

/// Maximum length of a row, in elements, for which one piece is copied to several rows at a time.
const NARROW: usize = 8;
/// Number of elements that are copied to the stack at once.
const ROOM: usize = 256;

/// Where the elements of a value come from. The inputs are those of the node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Assembly {
    Joined(Joined),
    Padded(Padded),
}

/// Rows that consist of one chunk of each piece.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Joined {
    pieces: Vec<Piece>,
    row: usize,
}

/// A part of each row: the next `chunk` elements of a view of an input.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Piece {
    pub(crate) view: View,
    pub(crate) chunk: usize,
}

/// The elements of `from`, a view of the first input, at the positions of the view `to`. All other elements are the
/// second input's element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Padded {
    from: View,
    to: View,
}

impl Assembly {
    /// Joins the pieces. Piece `i` reads input `i`. The rows must not be empty.
    pub(crate) fn joined(pieces: Vec<Piece>) -> Self {
        let row = pieces.iter().map(|piece| piece.chunk).sum();
        Self::Joined(Joined { pieces, row })
    }

    /// Puts the elements of `from`, which must not be empty, at the positions `to`, which must ascend, and padding at
    /// all other positions.
    pub(crate) fn padded(from: View, to: View) -> Self {
        Self::Padded(Padded { from, to })
    }

    /// Copies the elements from element `start` on to `out`, until `out` is full. `inputs` returns the elements of an
    /// input.
    pub(crate) fn read<'a, T: Pod>(&self, inputs: impl Fn(usize) -> &'a [T], start: usize, out: &mut [T]) {
        match self {
            Self::Joined(joined) if joined.row <= NARROW => joined.read_narrow(inputs, start, out),
            Self::Joined(joined) => joined.read(inputs, start, out),
            Self::Padded(padded) => padded.read(inputs(0), inputs(1)[0], start, out),
        }
    }
}

impl Joined {
    /// Reads narrow rows. Copies all chunks of one piece before those of the next.
    fn read_narrow<'a, T: Pod>(&self, inputs: impl Fn(usize) -> &'a [T], start: usize, out: &mut [T]) {
        let begins_row = start.next_multiple_of(self.row).min(start + out.len());
        let (head, rest) = out.split_at_mut(begins_row - start);
        let whole = rest.len() / self.row * self.row;
        let (rows, tail) = rest.split_at_mut(whole);
        self.read(&inputs, start, head);
        self.read(&inputs, begins_row + whole, tail);
        let mut before = 0;
        for (input, &Piece { ref view, chunk }) in self.pieces.iter().enumerate().filter(|(_, piece)| piece.chunk > 0) {
            let mut room = [T::zeroed(); ROOM];
            let at_once = ROOM / chunk;
            for (part, rows) in rows.chunks_mut(at_once * self.row).enumerate() {
                let chunks = &mut room[..rows.len() / self.row * chunk];
                view.read(inputs(input), (begins_row / self.row + part * at_once) * chunk, chunks);
                if chunk == 1 {
                    rows.chunks_exact_mut(self.row).zip(chunks).for_each(|(row, element)| row[before] = *element);
                    continue;
                }
                for (row, chunk) in rows.chunks_exact_mut(self.row).zip(chunks.chunks_exact(chunk)) {
                    row[before..before + chunk.len()].copy_from_slice(chunk);
                }
            }
            before += chunk;
        }
    }

    fn read<'a, T: Pod>(&self, inputs: impl Fn(usize) -> &'a [T], start: usize, out: &mut [T]) {
        let (mut row, mut within) = (start / self.row, start % self.row);
        let mut rest = out;
        while !rest.is_empty() {
            for (input, piece) in self.pieces.iter().enumerate() {
                if within >= piece.chunk {
                    within -= piece.chunk;
                    continue;
                }
                let (part, later) = rest.split_at_mut(rest.len().min(piece.chunk - within));
                piece.view.read(inputs(input), row * piece.chunk + within, part);
                (rest, within) = (later, 0);
                if rest.is_empty() {
                    return;
                }
            }
            row += 1;
        }
    }
}

impl Padded {
    fn read<T: Copy>(&self, elements: &[T], padding: T, start: usize, out: &mut [T]) {
        let mut at = start;
        let mut rest = out;
        while !rest.is_empty() {
            let (element, run) = self.run(at);
            let (part, later) = rest.split_at_mut(rest.len().min(run));
            match element {
                Some(index) => self.from.read(elements, index, part),
                None => part.fill(padding),
            }
            at += part.len();
            rest = later;
        }
    }

    /// Returns the index in `from` of the element at a position, and the number of elements that follow without a gap.
    /// Returns `None` for padding, and the distance to the next element.
    fn run(&self, at: usize) -> (Option<usize>, usize) {
        let Some(mut within) = at.checked_sub(self.to.offset()) else {
            return (None, self.to.offset() - at);
        };
        // The number of positions up to the next index of a dimension outside.
        let mut left = usize::MAX;
        let mut element = 0;
        for (&extent, &step) in self.to.dims().iter().zip(self.to.strides()) {
            let step = step.unsigned_abs();
            let index = within / step;
            if index >= extent {
                return (None, left);
            }
            element = element * extent + index;
            if step == 1 {
                return (Some(element), extent - index);
            }
            within -= index * step;
            left = left.min(step - within);
        }
        if within == 0 { (Some(element), 1) } else { (None, left) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares all ranges of an assembly with the expected elements.
    fn check(assembly: &Assembly, inputs: &[&[u32]], expected: &[u32]) {
        for start in 0..expected.len() {
            for end in start..=expected.len() {
                let mut out = vec![0; end - start];
                assembly.read(|input| inputs[input], start, &mut out);
                assert_eq!(out, expected[start..end], "{assembly:?} {start}");
            }
        }
    }

    #[test]
    fn rows_are_joined() {
        let (a, b): (Vec<u32>, Vec<u32>) = ((0..12).collect(), (100..104).collect());
        let piece =
            |dims: &[usize], strides: &[isize], offset, chunk| Piece { view: View::new(dims, strides, offset), chunk };
        let all = |n: usize, chunk| piece(&[n], &[1], 0, chunk);
        // The columns 1 to 3 of an array of 3 x 4, and column 0: the array is rolled by one column.
        let rolled = [piece(&[3, 3], &[4, 1], 1, 3), piece(&[3, 1], &[4, 1], 0, 1)];
        let rolled = Assembly::joined(rolled.to_vec());
        check(&rolled, &[&a, &a], &[1, 2, 3, 0, 5, 6, 7, 4, 9, 10, 11, 8]);
        // A piece without elements, rows that are whole arrays, and a reversed piece.
        let pieces = vec![all(4, 4), all(0, 0), piece(&[4], &[-1], 3, 4)];
        check(&Assembly::joined(pieces), &[&b, &[], &b], &[100, 101, 102, 103, 103, 102, 101, 100]);
        // Rows of three and one elements, more than are copied at once.
        let (a, b): (Vec<u32>, Vec<u32>) = ((0..900).collect(), (1000..1300).collect());
        let expected: Vec<u32> = a.chunks(3).zip(&b).flat_map(|(row, b)| [row[0], row[1], row[2], *b]).collect();
        let joined = Assembly::joined(vec![all(900, 3), all(300, 1)]);
        for (start, end) in [(0, 1200), (3, 1190), (402, 405), (5, 5), (1, 3)] {
            let mut out = vec![0; end - start];
            joined.read(|input| if input == 0 { &a[..] } else { &b[..] }, start, &mut out);
            assert_eq!(out, expected[start..end]);
        }
    }

    #[test]
    fn padding_surrounds_elements() {
        let a: Vec<u32> = (1..7).collect();
        let from = View::new(&[2, 3], &[3, 1], 0);
        // Two columns before, one after, one row before and two after.
        let to = View::new(&[2, 3], &[6, 1], 8);
        let mut expected = vec![0; 30];
        expected[8..11].copy_from_slice(&[1, 2, 3]);
        expected[14..17].copy_from_slice(&[4, 5, 6]);
        check(&Assembly::padded(from.clone(), to), &[&a, &[0]], &expected);
        // Rows between the rows, and no columns beside them.
        let to = View::new(&[2, 3], &[6, 1], 3);
        let expected = [0, 0, 0, 1, 2, 3, 0, 0, 0, 4, 5, 6, 0, 0, 0];
        check(&Assembly::padded(from.clone(), to), &[&a, &[0]], &expected);
        // One range.
        let to = View::new(&[2, 3], &[3, 1], 2);
        check(&Assembly::padded(from.clone(), to), &[&a, &[9]], &[9, 9, 1, 2, 3, 4, 5, 6, 9]);
        // Padding between the elements of a row.
        let to = View::new(&[2, 3], &[8, 2], 1);
        let expected = [0, 1, 0, 2, 0, 3, 0, 0, 0, 4, 0, 5, 0, 6, 0];
        check(&Assembly::padded(from.clone(), to), &[&a, &[0]], &expected);
        // Padding between rows and elements, after which a plane ends early.
        let a: Vec<u32> = (1..25).collect();
        for (dims, strides, offset, len) in [
            ([2, 3, 4], [55, 22, 2], 12, 120),
            ([2, 3, 4], [54, 20, 3], 1, 110),
            ([4, 3, 2], [13, 5, 1], 3, 60),
            ([1, 4, 6], [90, 14, 2], 0, 53),
        ] {
            let (from, to) = (View::new(&[24], &[1], 0), View::new(&dims, &strides, offset));
            let mut expected = vec![0; len];
            to.positions().zip(&a).for_each(|(at, &element)| expected[at] = element);
            check(&Assembly::padded(from.clone(), to), &[&a, &[0]], &expected);
        }
        let a: Vec<u32> = (1..7).collect();
        // One element.
        let one = View::new(&[1, 1], &[3, 1], 4);
        check(&Assembly::padded(one, View::new(&[1, 1], &[9, 3], 2)), &[&a, &[0]], &[0, 0, 5, 0]);
    }
}
