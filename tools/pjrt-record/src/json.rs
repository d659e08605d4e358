//! Conversion of blocks to JSON.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::json;

use crate::reader::{Block, Body};

/// Converts a block to one line of JSON without a line feed. Data are represented by their size and hashes.
#[must_use]
pub fn line(block: &Block) -> String {
    // Serializing a message fails only if a key of a map is not a string, and no message has such a map.
    serde_json::to_string(&Line(block)).unwrap_or_default()
}

/// A block, which is serialized directly to text. A `serde_json::Value` would take many times the memory of the block.
struct Line<'a>(&'a Block);

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let block = self.0;
        let mut line = serializer.serialize_map(None)?;
        line.serialize_entry("offset", &block.offset)?;
        if block.stamp.call != 0 {
            line.serialize_entry("number", &block.stamp.call)?;
        }
        if block.stamp.thread != 0 {
            line.serialize_entry("thread", &block.stamp.thread)?;
            line.serialize_entry("nanos", &block.stamp.nanos)?;
        }
        match &block.body {
            Body::Process(message) => line.serialize_entry("process", message),
            Body::Data { hash, size } => {
                line.serialize_entry("data", &json!({ "hash": hash.to_hex(), "size": size, "stored": block.size }))
            }
            Body::Call(message) => line.serialize_entry("call", message),
            Body::Outcome(message) => line.serialize_entry("outcome", message),
            Body::Contents(message) => line.serialize_entry("contents", message),
            Body::Snapshot(message) => line.serialize_entry("snapshot", message),
            Body::End(message) => line.serialize_entry("end", message),
            Body::Unknown(kind) => line.serialize_entry("unknown", &json!({ "kind": kind })),
        }?;
        line.end()
    }
}
