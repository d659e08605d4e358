//! The plugin `remote` for frameworks that load plugins from shared libraries. Programs in Rust link `pjrt-remote`
//! instead.
#![forbid(unsafe_code)]

device_plugin::export!(pjrt_remote::Remote);
