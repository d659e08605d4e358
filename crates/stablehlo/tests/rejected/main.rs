//! Well-formed but invalid programs. `tests/messages.txt` lists the message about each of them; other tests match the op,
//! the function and the place.
//!
//! `UPDATE_EXPECT=1 cargo test -p stablehlo-rs --test rejected` updates the file.

mod ops;
mod rules;

use std::fmt::{Display, Write};

use expect_test::expect_file;

/// Programs, each with the message about it.
#[derive(Default)]
struct Messages(String);

impl Messages {
    fn section(&mut self, name: &str) {
        let gap = if self.0.is_empty() { "" } else { "\n" };
        writeln!(self.0, "{gap}# {name}").expect("a string accepts any text");
    }

    /// Adds an op or a program on one line, and the message about it.
    fn add(&mut self, program: impl Display, error: impl Display) {
        let program = program.to_string();
        let program: Vec<&str> = program.split_whitespace().collect();
        writeln!(self.0, "{}\n    {error}", program.join(" ")).expect("a string accepts any text");
    }
}

#[test]
fn snapshot() {
    let mut messages = Messages::default();
    ops::files(&mut messages);
    ops::shapes(&mut messages);
    ops::element_types(&mut messages);
    ops::ops_without_kind(&mut messages);
    ops::reductions(&mut messages);
    ops::dynamic_convolutions_and_gathers(&mut messages);
    ops::values(&mut messages);
    ops::calls(&mut messages);
    rules::quantized_types(&mut messages);
    rules::bounds_of_dynamic_extents(&mut messages);
    rules::constant_shapes(&mut messages);
    rules::custom_calls(&mut messages);
    rules::attributes(&mut messages);
    rules::channels_maps_and_slices(&mut messages);
    rules::scans_and_ragged_products(&mut messages);
    rules::asynchronous_ops(&mut messages);
    expect_file!["../messages.txt"].assert_eq(&messages.0);
}
