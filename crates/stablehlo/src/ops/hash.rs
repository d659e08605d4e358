//! Hashes the names of ops, for tables that are built at compile time.

/// Returns a hash of a name. Uses only the length and three characters, which is faster than all characters and
/// distinguishes most names.
pub(super) const fn hash(name: &[u8]) -> usize {
    let length = name.len();
    if length == 0 {
        return 0;
    }
    let [first, middle, last] = [name[0] as usize, name[length / 2] as usize, name[length - 1] as usize];
    length * 61 + first * 7 + middle * 31 + last * 3
}
