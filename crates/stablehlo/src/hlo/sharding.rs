//! Converts the message `OpSharding` to the text of `mhlo.sharding`.

use std::fmt::Write;

use prost::Message;

/// Sharding of one value.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OpSharding {
    #[prost(int32, tag = "1")]
    kind: i32,
    #[prost(int64, repeated, tag = "3")]
    dimensions: Vec<i64>,
    #[prost(int64, repeated, tag = "4")]
    devices: Vec<i64>,
    #[prost(message, repeated, tag = "5")]
    tuple: Vec<OpSharding>,
    #[prost(bool, tag = "6")]
    replicate_on_last: bool,
    #[prost(int32, repeated, tag = "8")]
    last_tile_dims: Vec<i32>,
    #[prost(int64, repeated, tag = "9")]
    iota_reshape: Vec<i64>,
    #[prost(int32, repeated, tag = "10")]
    iota_transpose: Vec<i32>,
}

const REPLICATED: i32 = 0;
const MAXIMAL: i32 = 1;
const TUPLE: i32 = 2;
const OTHER: i32 = 3;

fn word(kind: i32) -> &'static str {
    match kind {
        REPLICATED => "replicated",
        MAXIMAL => "maximal",
        4 => "manual",
        6 => "unreduced",
        _ => "unknown",
    }
}

impl OpSharding {
    /// Returns the shardings of the elements of a tuple. Returns an array's sharding as a single element.
    pub(super) fn parts(&self) -> &[Self] {
        if self.kind == TUPLE { &self.tuple } else { std::slice::from_ref(self) }
    }

    /// Returns XLA's text form, such as `{devices=[2,1]<=[2]}`.
    pub(super) fn text(&self) -> String {
        let mut text = String::from("{");
        self.write(&mut text);
        text.push('}');
        text
    }

    fn write(&self, text: &mut String) {
        match self.kind {
            TUPLE => {
                for (i, part) in self.tuple.iter().enumerate() {
                    text.push_str(if i == 0 { "{" } else { ", {" });
                    part.write(text);
                    text.push('}');
                }
            }
            MAXIMAL => {
                let _ = write!(text, "maximal device={}", self.devices.first().copied().unwrap_or(0));
            }
            OTHER => {
                let _ = write!(text, "devices=[{}]", list(&self.dimensions));
                if self.iota_reshape.is_empty() {
                    text.push_str(&list(&self.devices));
                } else {
                    let _ = write!(text, "<=[{}]", list(&self.iota_reshape));
                    if !self.iota_transpose.is_sorted() {
                        let _ = write!(text, "T({})", list(&self.iota_transpose));
                    }
                }
                if self.replicate_on_last {
                    text.push_str(" last_tile_dim_replicate");
                } else if !self.last_tile_dims.is_empty() {
                    let words: Vec<_> = self.last_tile_dims.iter().map(|&kind| word(kind)).collect();
                    let _ = write!(text, " last_tile_dims={{{}}}", words.join(", "));
                }
            }
            kind => text.push_str(word(kind)),
        }
    }
}

fn list<T: ToString>(values: &[T]) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}
