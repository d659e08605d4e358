//! The first MPI message of a frame: a header of five words, and the bytes of a small message.

use process_transport::Stream;

/// Meaning of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Message,
    /// The sender cannot continue with the stream. The bytes are the reason, as text.
    Failure,
    /// The sender ends its transport on purpose.
    Goodbye,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) stream: Stream,
    pub(crate) tag: u64,
}

const WORDS: usize = 5;
/// Bytes of a header.
pub(crate) const HEADER: usize = WORDS * 8;

impl Header {
    pub(crate) fn encode(self, len: usize) -> [u8; HEADER] {
        let kind = match self.kind {
            Kind::Message => 0,
            Kind::Failure => 1,
            Kind::Goodbye => 2,
        };
        let words = [kind, self.stream.lane, self.stream.number, self.tag, len as u64];
        let mut bytes = [0; HEADER];
        for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_ne_bytes();
        }
        bytes
    }

    /// Returns the header and the number of bytes that follow it, or `None` if the header is damaged.
    pub(crate) fn decode(bytes: &[u8; HEADER]) -> Option<(Self, usize)> {
        let mut words = [0; WORDS];
        for (word, place) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*place);
        }
        let [kind, lane, number, tag, len] = words;
        let kind = match kind {
            0 => Kind::Message,
            1 => Kind::Failure,
            2 => Kind::Goodbye,
            _ => return None,
        };
        Some((Self { kind, stream: Stream { lane, number }, tag }, usize::try_from(len).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_rejects_unknown_kinds() {
        for kind in [Kind::Message, Kind::Failure, Kind::Goodbye] {
            let header = Header { kind, stream: Stream { lane: 1, number: 2 }, tag: u64::MAX };
            assert_eq!(Header::decode(&header.encode(7)), Some((header, 7)));
        }
        assert_eq!(Header::decode(&[9; HEADER]), None);
    }
}
