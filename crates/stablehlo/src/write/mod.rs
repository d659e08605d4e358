//! Writes programs as portable artifacts: MLIR bytecode with the VHLO dialect of a chosen version.
//!
//! [`encoder`] holds the file's tables, which [`types`] and [`attributes`] fill. [`ops`] chooses each op's version and
//! writes all its attributes. [`module`] writes functions, regions and values.

mod attributes;
mod bytes;
mod encoder;
mod fields;
mod foreign;
mod locations;
mod module;
mod ops;
mod texts;
mod types;
mod versions;

pub use module::write;
