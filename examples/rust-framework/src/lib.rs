//! A small framework on PJRT. It has tensors whose operations run as soon as they are called ([`eager`]), and functions
//! that are compiled as a whole ([`traced`]). The book's chapter "A framework in Rust" explains it.

pub mod eager;
mod runtime;
pub mod traced;

pub use eager::Tensor;
pub use runtime::Runtime;
pub use traced::Function;

/// An error of the registry, the plugin or the builder.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
