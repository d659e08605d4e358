//! The storage order of an array's dimensions.

/// The dimensions of an array in storage order, slowest varying first. `None` stands for row-major. The type of a
/// program's input or output lists the extents in this order.
pub type Order = Option<Vec<usize>>;

/// Returns the inverse of `permutation`. Element `d` of the inverse is the position of `d` in `permutation`.
pub fn inverse_permutation(permutation: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; permutation.len()];
    for (at, &dimension) in permutation.iter().enumerate() {
        if let Some(place) = inverse.get_mut(dimension) {
            *place = at;
        }
    }
    inverse
}
