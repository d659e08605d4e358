//! Naming a library that safe code will load is unsafe.

use device_plugin::Library;

fn main() {
    let _ = Library::beside("libexample.so");
    let _ = Library::path("/opt/libexample.so");
    let _ = Library::computed(|| Ok("libexample.so".into()));
}
