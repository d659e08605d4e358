//! Conversion of blocks to JSON.

use serde_json::{Map, Value, json};

use crate::reader::{Block, Body};

/// Converts a block to one JSON object. Data are represented by their size and hashes.
#[must_use]
pub fn line(block: &Block) -> Value {
    let mut line = Map::new();
    line.insert("offset".into(), block.offset.into());
    let (kind, value) = match &block.body {
        Body::Process(message) => ("process", serde_json::to_value(message)),
        Body::Data { hash, size } => ("data", Ok(json!({ "hash": hash.to_hex(), "size": size, "stored": block.size }))),
        Body::Call(message) => ("call", serde_json::to_value(message)),
        Body::Outcome(message) => ("outcome", serde_json::to_value(message)),
        Body::Contents(message) => ("contents", serde_json::to_value(message)),
        Body::Snapshot(message) => ("snapshot", serde_json::to_value(message)),
        Body::End(message) => ("end", serde_json::to_value(message)),
        Body::Unknown(kind) => ("unknown", Ok(json!({ "kind": kind }))),
    };
    if block.stamp.call != 0 {
        line.insert("number".into(), block.stamp.call.into());
    }
    if block.stamp.thread != 0 {
        line.insert("thread".into(), block.stamp.thread.into());
        line.insert("nanos".into(), block.stamp.nanos.into());
    }
    line.insert(kind.into(), value.unwrap_or(Value::Null));
    Value::Object(line)
}
