//! Tests that several threads may use one object, with every safe function.
//!
//! A plugin that does not protect its objects may crash, so each real plugin runs in a child process.

mod cases;
mod overlaps;

use std::time::Duration;

use crate::real::{each_child, embedded};
use cases::CASES;
use pjrt::{Client, Function};

/// Environment variable that holds the number of seconds for which threads use each object. The default is short, so
/// that the tests stay short. A longer time finds rarer errors.
const SECONDS: &str = "PJRT_SHARED_OBJECTS_SECONDS";

fn time() -> Duration {
    let seconds = std::env::var(SECONDS).map_or(0.2, |text| text.parse().expect(SECONDS));
    Duration::from_secs_f64(seconds)
}

fn use_all(client: &Client) {
    for (object, case) in CASES {
        // The last of these lines names the object whose use ended the process.
        println!("{object}");
        case(client, time());
    }
}

/// `docs/threads.md` classifies every function of `PJRT_Api`, and those of every extension.
#[test]
fn every_function_has_a_rule() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/threads.md")).unwrap();
    let names: Vec<&str> = page.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let main = Function::ALL.iter().filter(|function| function.extension().is_none());
    let missing: Vec<_> = main.filter(|function| !names.contains(&&function.name()["PJRT_".len()..])).collect();
    assert!(missing.is_empty(), "docs/threads.md lacks {missing:?}");
    let extensions = Function::ALL.iter().filter_map(|function| function.extension());
    let missing: Vec<_> = extensions.filter(|extension| !names.contains(extension)).collect();
    assert!(missing.is_empty(), "docs/threads.md lacks {missing:?}");
}

#[test]
fn threads_share_objects_of_the_embedded_device() {
    use_all(&embedded());
}

#[test]
fn threads_share_objects_of_real_plugins() {
    each_child("shared_objects::threads_share_objects_of_real_plugins", use_all);
}
