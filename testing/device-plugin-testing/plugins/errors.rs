//! A library with a layer that prints the errors of a plugin. The book's chapter on layers shows this code.
#![allow(non_snake_case, reason = "the name of the entry point is part of the interface")]

use pjrt_layers::{Call, Function, Layer, Outcome};

/// Prints the errors that the framework receives.
#[derive(Debug)]
struct Errors;

impl Layer for Errors {
    fn name(&self) -> &'static str {
        "errors"
    }

    fn wants(&self, function: &Function) -> bool {
        function.fallible
    }

    fn after(&self, call: &mut Call, _token: u64, outcome: Outcome) {
        if let Some(error) = outcome.error() {
            eprintln!("{} failed: {}", call.function().name, error.message);
        }
    }
}

pjrt_layers::export!(vec![Box::new(Errors)]);
