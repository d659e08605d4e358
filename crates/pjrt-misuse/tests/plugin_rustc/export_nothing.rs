//! `export!` without a plugin.

device_plugin::export!();

fn main() {}
