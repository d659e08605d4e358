//! Passes on small programs, before and after, and their values on the CPU device.

mod batch_norm;
mod chlo;
mod complex;
mod composites;
mod gathers;
mod layouts;
mod loops;
mod mutated;
mod narrow;
mod op_table;
mod oracle;
mod patterns;
mod shapes;
mod simplification;
mod threefry;
mod values;
mod windows;
