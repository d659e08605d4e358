//! The cases, one file for each area.

mod abi;
mod data;
mod events;

use crate::suite::Suite;

/// Declares the cases of all areas.
pub(crate) fn declare(suite: &mut Suite) {
    abi::declare(suite);
    data::declare(suite);
    events::declare(suite);
}
