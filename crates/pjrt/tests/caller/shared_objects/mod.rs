//! Tests that several threads may use one object, with every safe function.
//!
//! A plugin that does not protect its objects may crash, so each real plugin runs in a child process.

mod cases;
mod overlaps;

use std::process::Command;
use std::time::Duration;

use crate::real::{each_plugin, embedded};
use cases::CASES;
use pjrt::{Client, ClientOptions, Function, Plugin};

/// Environment variable that holds the path of the plugin for a child process.
const CHILD: &str = "PJRT_SHARED_OBJECTS_CHILD";
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
    println!("all objects were used");
}

/// `docs/threads.md` classifies every function of `PJRT_Api`.
#[test]
fn every_function_has_a_rule() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/threads.md")).unwrap();
    let names: Vec<&str> = page.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let main = Function::ALL.iter().filter(|function| function.extension().is_none());
    let missing: Vec<_> = main.filter(|function| !names.contains(&&function.name()["PJRT_".len()..])).collect();
    assert!(missing.is_empty(), "docs/threads.md lacks {missing:?}");
}

#[test]
fn threads_share_objects_of_the_embedded_device() {
    use_all(&embedded());
}

#[test]
fn threads_share_objects_of_real_plugins() {
    if let Ok(path) = std::env::var(CHILD) {
        // SAFETY: whoever runs the tests vouches for the plugins in `PJRT_TEST_PLUGINS`.
        let plugin = unsafe { Plugin::load(path) }.unwrap();
        return use_all(&plugin.client(&ClientOptions::new().with("cpu_device_count", 2)).unwrap());
    }
    each_plugin("threads_share_objects_of_real_plugins", |plugin| {
        let path = plugin.path().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "shared_objects::threads_share_objects_of_real_plugins", "--nocapture"]);
        let output = child.env(CHILD, path).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && text.contains("all objects were used"),
            "{}, {}: {text}{errors}",
            path.display(),
            output.status
        );
    });
}
