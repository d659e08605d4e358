//! `export!` without a plugin does not compile.

device_plugin::export!();

fn main() {}
