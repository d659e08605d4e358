//! Tests of what the engine reads, supports and refuses.

mod hlo;
mod messages;
mod op_table;
