//! Tests well-formed but invalid programs. `tests/messages/programs.txt` lists the message for each program. The tests
//! also check the kind, the op, the function and the position of the errors.
//!
//! To update `programs.txt`, run `UPDATE_EXPECT=1 cargo test -p stablehlo-rs --test rejected`.

mod ops;
mod rules;

use std::borrow::Borrow;
use std::fmt::{Display, Write};

use expect_test::expect_file;

/// Programs, each with the kind of its error and the error message.
#[derive(Default)]
struct Messages(String);

impl Messages {
    fn section(&mut self, name: &str) {
        let gap = if self.0.is_empty() { "" } else { "\n" };
        writeln!(self.0, "{gap}# {name}").expect("a string accepts any text");
    }

    /// Adds an op or a program on one line, and its error.
    fn add(&mut self, program: impl Display, error: impl Borrow<stablehlo::Error>) {
        let (program, error) = (program.to_string(), error.borrow());
        let program: Vec<&str> = program.split_whitespace().collect();
        writeln!(self.0, "{}\n    {:?}: {error}", program.join(" "), error.kind()).expect("a string accepts any text");
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
    expect_file!["../messages/programs.txt"].assert_eq(&messages.0);
}
