//! Exports the layers of `pjrt-layers` as a library, for the tests of `pjrt with`. The library is the same as
//! `pjrt-layers-plugin`.
#![allow(non_snake_case, reason = "the name of the entry point is part of the interface")]

pjrt_layers::export!();
