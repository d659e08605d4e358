//! The answers of etcd's JSON gateway, and their parser. The parser keeps only the fields that the store uses, so that
//! an answer needs little more memory than its bytes, and it stops at the deadline.

use std::fmt;
use std::io::{self, BufReader, Read};
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use ureq::Body;

use super::deadline::Deadline;

/// The answer to a request for a key.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Range {
    pub(super) header: Header,
    pub(super) kvs: First<Pair>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Header {
    pub(super) revision: Option<String>,
}

/// A key and its value, in base64. The gateway omits an empty value.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Pair {
    pub(super) key: Option<String>,
    pub(super) value: Option<String>,
}

/// The answer to a request for a lease.
#[derive(Deserialize)]
pub(super) struct Grant {
    #[serde(rename = "ID")]
    pub(super) id: String,
}

/// The answer to a request for a token.
#[derive(Deserialize)]
pub(super) struct Authenticated {
    pub(super) token: String,
}

/// A message of a watch.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Watched {
    pub(super) error: Option<Status>,
    pub(super) result: Changes,
}

/// A gRPC error.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    pub(super) message: Option<String>,
    pub(super) grpc_code: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Changes {
    pub(super) events: First<Event>,
    pub(super) canceled: bool,
    pub(super) cancel_reason: Option<String>,
    pub(super) compact_revision: Option<IgnoredAny>,
}

/// A change of a key. The gateway omits the type of an event that sets a key.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Event {
    #[serde(rename = "type")]
    kind: Option<String>,
    pub(super) kv: Pair,
}

/// An element of a list of which the store uses only one element.
pub(super) trait Element {
    fn is_used(&self) -> bool;
}

impl Element for Pair {
    fn is_used(&self) -> bool {
        true
    }
}

impl Element for Event {
    fn is_used(&self) -> bool {
        self.kind.as_deref() != Some("DELETE")
    }
}

/// The first element of a list that the store uses.
pub(super) struct First<T>(pub(super) Option<T>);

impl<T> Default for First<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de> + Element> Deserialize<'de> for First<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct List<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de> + Element> Visitor<'de> for List<T> {
            type Value = First<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_unit<E>(self) -> Result<First<T>, E> {
                Ok(First(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<First<T>, A::Error> {
                let mut first = None;
                while first.is_none()
                    && let Some(element) = list.next_element::<T>()?
                {
                    first = element.is_used().then_some(element);
                }
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(First(first))
            }
        }
        from.deserialize_any(List(PhantomData))
    }
}

/// Reads until a deadline, which the timeout of a request does not enforce while the text is parsed.
struct Timed<R> {
    from: R,
    deadline: Deadline,
}

impl<R: Read> Read for Timed<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.deadline.is_over() {
            return Err(ureq::Error::Timeout(ureq::Timeout::Global).into_io());
        }
        self.from.read(to)
    }
}

impl<R: Read> Timed<R> {
    fn new(from: R, deadline: Deadline) -> BufReader<Self> {
        BufReader::new(Self { from, deadline })
    }
}

/// Returns a reader of an answer of at most `limit` bytes.
pub(super) fn reader(body: Body, limit: u64, deadline: Deadline) -> impl Read {
    Timed::new(body.into_with_config().limit(limit).reader(), deadline)
}

/// The reason why an answer cannot be used.
pub(super) enum Unusable {
    /// Reading it failed.
    Connection(ureq::Error),
    /// It is not what etcd answers.
    Unreadable,
}

impl From<serde_json::Error> for Unusable {
    fn from(error: serde_json::Error) -> Self {
        if error.is_io() { Self::Connection(io::Error::from(error).into()) } else { Self::Unreadable }
    }
}

/// Reads and parses an answer that is one JSON document of at most `limit` bytes.
pub(super) fn parse<T: DeserializeOwned>(body: Body, limit: u64, deadline: Deadline) -> Result<T, Unusable> {
    // Read all of it first, because a connection that breaks is not an error of the text.
    let text = body.into_with_config().limit(limit).read_to_vec().map_err(Unusable::Connection)?;
    Ok(serde_json::from_reader(Timed::new(&text[..], deadline))?)
}
