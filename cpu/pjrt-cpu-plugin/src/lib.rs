//! The CPU device for frameworks that load plugins from shared libraries. Programs in Rust embed `pjrt-cpu` instead.
#![forbid(unsafe_code)]

device_plugin::export!(pjrt_cpu::Cpu);
