//! Writes programs as portable artifacts: MLIR bytecode in a chosen version of the VHLO dialect.
//!
//! [`encoder`] stores the tables of the file as [`interner`]s, and [`types`] and [`attributes`] add to them. [`ops`]
//! selects the version of each op and writes all its attributes. [`module`] writes functions, regions and values.

mod attributes;
mod bytes;
mod encoder;
mod fields;
mod foreign;
mod interner;
mod locations;
mod module;
mod ops;
mod repeated;
mod texts;
mod types;
mod versions;

pub use module::write;
