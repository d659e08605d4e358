//! The layer `override`: saves and replaces programs, hides devices, changes the values that queries return, and makes
//! calls synchronous. See [`Override`].

mod devices;
mod layer;
mod programs;
mod queries;
mod synchronous;

pub use layer::Override;
pub use programs::Programs;
pub use queries::{Devices, InvalidOverride, Memory};
