//! The layers of `pjrt-layers` as a library, for the tests of `pjrt with`. It has the content of `pjrt-layers-plugin`.
#![allow(non_snake_case, reason = "the name of the entry point is part of the interface")]

pjrt_layers::export!();
