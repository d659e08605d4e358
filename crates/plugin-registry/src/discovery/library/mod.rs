//! Reads the headers of shared libraries without loading them.
//!
//! Inspecting a library reads only the byte ranges that are needed. Even for a large ELF library, these are a few dozen
//! short ranges, so the inspection takes tens of microseconds.

mod elf;
mod facts;
mod inspect;
mod ld_cache;
mod limited;
mod macho;
mod pe;
mod reader;
mod search;

pub use facts::{DESCRIPTOR_SYMBOL, Exports, LibraryFacts, LibraryFormat};
pub use inspect::inspect;
pub(super) use search::LibrarySearch;
