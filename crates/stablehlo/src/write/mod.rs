//! Programs as portable artifacts: MLIR bytecode that holds the VHLO dialect at a chosen version.
//!
//! [`encoder`] holds the file's tables, [`types`] and [`attributes`] fill them, [`ops`] chooses each op's version and
//! spells out its attributes, [`module`] writes functions, regions and values.

mod attributes;
mod bytes;
mod encoder;
mod fields;
mod locations;
mod module;
mod ops;
mod texts;
mod types;
mod untyped_ops;
mod versions;

pub use module::write;
