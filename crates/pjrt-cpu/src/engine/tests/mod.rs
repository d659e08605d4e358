//! Tests of the engine through its public API.
