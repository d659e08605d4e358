//! Tests of the formats, which also run on other platforms.

mod common;
mod golden;
mod malformed;
mod printed;
