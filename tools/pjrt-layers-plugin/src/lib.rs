//! The layers of `pjrt-layers` as a shared library that a framework loads in place of a plugin.
#![allow(non_snake_case, reason = "the name of the entry point is part of the interface")]

pjrt_layers::export!();
