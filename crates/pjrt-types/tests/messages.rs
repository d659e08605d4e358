//! The messages of the crate's errors, recorded in `messages.txt`.
//!
//! `UPDATE_EXPECT=1 cargo test -p pjrt-types --test messages` updates the file.

use std::fmt::{Display, Write};

use expect_test::expect_file;
use pjrt_types::{CompileOptions, DeviceAssignment, ElementType, Layout};

/// Appends the description `input` of an invalid input, and the error message in `result`, to `messages`.
#[track_caller]
fn add<T, E: Display>(messages: &mut String, input: &str, result: Result<T, E>) {
    let Err(error) = result else { panic!("{input} is valid") };
    writeln!(messages, "{input}\n    {error}").expect("a string accepts any text");
}

#[test]
fn snapshot() {
    let mut messages = String::new();
    add(&mut messages, "the element type float32", "float32".parse::<ElementType>());
    add(&mut messages, "the layout {1,0", "{1,0".parse::<Layout>());
    // Field 1 is the number of replicas, field 2 is the number of partitions, and field 3 contains a list of devices
    // for each partition.
    for (input, bytes) in [
        ("a device assignment of an unfinished field", &[8][..]),
        ("a device assignment of no replicas", &[]),
        ("a device assignment of a negative number of replicas", &[8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
        ("a device assignment without lists of devices", &[8, 1, 16, 1]),
        ("a device assignment with an empty list of devices", &[8, 1, 16, 1, 26, 0]),
    ] {
        add(&mut messages, input, DeviceAssignment::decode(bytes));
    }
    add(&mut messages, "compile options of an unfinished field", CompileOptions::decode(&[8]));
    let negative = CompileOptions::default().with_num_replicas(-1);
    add(&mut messages, "compile options with -1 replicas", CompileOptions::decode(&negative.encode()));
    expect_file!["messages.txt"].assert_eq(&messages);
}
