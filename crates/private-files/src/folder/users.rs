//! The users of a folder.

/// The users of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Users {
    /// This user alone.
    One,
    /// Every user who has access.
    Several,
}
