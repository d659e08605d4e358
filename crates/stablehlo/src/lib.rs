//! Reads StableHLO programs into a typed IR.
#![forbid(unsafe_code)]

pub mod ir;
