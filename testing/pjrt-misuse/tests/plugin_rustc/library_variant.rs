//! A library that is a path is created only by an unsafe constructor.

use device_plugin::Library;

fn main() {
    let _ = Library::Path { path: "/opt/libexample.so".into() };
}
