//! The storage order of an array's dimensions.

/// The dimensions of an array in storage order, slowest varying first. `None` stands for row-major. Inputs and outputs
/// of a program list their extents in this order.
pub type Order = Option<Vec<usize>>;

/// The inverse permutation: the position of each entry.
pub fn inverse_permutation(permutation: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; permutation.len()];
    for (at, &dimension) in permutation.iter().enumerate() {
        if let Some(place) = inverse.get_mut(dimension) {
            *place = at;
        }
    }
    inverse
}
