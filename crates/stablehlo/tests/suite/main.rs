//! Tests of the readers, the writers and the verifier. They are one program, because linking each file takes seconds.

#[path = "../formats/common.rs"]
mod common;
mod hazards;
mod hlo;
mod infer;
mod inline;
mod levels;
mod lower;
mod newest;
mod round_trip;
mod same_program;
mod text_forms;
mod versions;
