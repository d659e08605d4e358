//! The envelope of serialized executables and topologies: the identity of the plugin that wrote the contents, the
//! length of the contents, and a checksum.
//!
//! All integers are little-endian:
//!
//! | bytes | content |
//! |---|---|
//! | 8 | [`MAGIC`] |
//! | 4 | version of the envelope, [`VERSION`] |
//! | 4 | number of the [`Kind`] |
//! | 8 | length of the identity |
//! | 8 | length of the payload |
//! | … | identity: pairs of a name and a value. Each string follows its length, which takes 4 bytes |
//! | … | payload: the bytes that the plugin returned |
//! | 32 | SHA-256 of all preceding bytes |

use std::ops::Range;

use sha2::{Digest, Sha256};

use crate::error::Error;

/// The magic number of an envelope. Like that of PNG, it reveals a transfer that changed line endings or cleared the
/// highest bit of each byte.
const MAGIC: [u8; 8] = *b"\x89PJX\r\n\x1a\n";
const VERSION: u32 = 1;
const HEADER: usize = 32;
const CHECKSUM: usize = 32;

/// The type of object that an envelope contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Executable = 1,
    Topology = 2,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Executable => "serialized executable",
            Self::Topology => "serialized topology",
        }
    }

    /// Returns the remedy that an error message suggests if the bytes are unusable.
    fn remedy(self) -> &'static str {
        match self {
            Self::Executable => "compile the program again",
            Self::Topology => "serialize the topology again",
        }
    }
}

/// Names and values that identify a build of a plugin.
pub(crate) type Identity = Vec<(String, String)>;

/// The bytes of an envelope. Its format, lengths and checksum are valid.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Sealed {
    kind: Kind,
    bytes: Vec<u8>,
    identity: Identity,
    payload: Range<usize>,
}

impl Sealed {
    pub(crate) fn new(kind: Kind, identity: Identity, payload: &[u8]) -> Result<Self, Error> {
        let mut items = Vec::new();
        for text in identity.iter().flat_map(|(name, value)| [name, value]) {
            let too_long = |_| Error::invalid("an attribute of the plugin is longer than 4 GiB");
            items.extend(u32::try_from(text.len()).map_err(too_long)?.to_le_bytes());
            items.extend(text.as_bytes());
        }
        let mut bytes = Vec::with_capacity(HEADER + items.len() + payload.len() + CHECKSUM);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((kind as u32).to_le_bytes());
        bytes.extend((items.len() as u64).to_le_bytes());
        bytes.extend((payload.len() as u64).to_le_bytes());
        bytes.extend(&items);
        let start = bytes.len();
        bytes.extend(payload);
        let payload = start..bytes.len();
        let checksum = Sha256::digest(&bytes);
        bytes.extend(checksum);
        Ok(Self { kind, bytes, identity, payload })
    }

    pub(crate) fn open(kind: Kind, bytes: Vec<u8>) -> Result<Self, Error> {
        let fail = |what: String| {
            let (name, remedy) = (kind.name(), kind.remedy());
            Error::invalid(format!("{what}, so the bytes are not a usable {name}; {remedy}"))
        };
        let Some(header) = bytes.first_chunk::<HEADER>().filter(|header| header.starts_with(&MAGIC)) else {
            return Err(fail("the bytes do not begin with the magic number of this library's format".to_owned()));
        };
        let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        if word(8) != VERSION {
            return Err(fail(format!("the envelope has version {}, but this build reads version {VERSION}", word(8))));
        }
        if word(12) != kind as u32 {
            return Err(fail(format!("the envelope holds contents of kind {}, not {}", word(12), kind as u32)));
        }
        let (found, start, end) = (bytes.len(), long(16), long(24));
        let start = usize::try_from(start).ok().and_then(|identity| identity.checked_add(HEADER));
        let end = usize::try_from(end).ok().zip(start).and_then(|(payload, start)| payload.checked_add(start));
        let total = end.and_then(|end| end.checked_add(CHECKSUM));
        let (Some(start), Some(end), Some(total)) = (start, end, total) else {
            return Err(fail("the lengths in the header exceed the address space".to_owned()));
        };
        if found != total {
            return Err(fail(format!("the data has {found} bytes, but its header declares {total}")));
        }
        if *Sha256::digest(&bytes[..end]) != bytes[end..] {
            return Err(fail("the checksum does not match, so the contents were changed".to_owned()));
        }
        let identity = read_identity(&bytes[HEADER..start]);
        let identity = identity.ok_or_else(|| fail("the identity of the plugin cannot be read".to_owned()))?;
        Ok(Self { kind, bytes, identity, payload: start..end })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the SHA-256 of the envelope without this hash.
    pub(crate) fn checksum(&self) -> &[u8] {
        &self.bytes[self.payload.end..]
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn payload(&self) -> &[u8] {
        &self.bytes[self.payload.clone()]
    }

    pub(crate) fn identity(&self) -> &[(String, String)] {
        &self.identity
    }

    /// Returns an error if the envelope's identity differs from `reader`, the identity of the plugin that reads the
    /// contents.
    ///
    /// A name that occurs in only one identity is a difference, unless it is in `optional`. The writer does not always
    /// know the values of the optional names.
    pub(crate) fn check(&self, reader: &[(String, String)], optional: &[&str]) -> Result<(), Error> {
        let find = |items: &[(String, String)], name: &str| {
            items.iter().find(|(item, _)| item == name).map(|(_, value)| value.clone())
        };
        let names = self.identity.iter().chain(reader).map(|(name, _)| name);
        let mut differences: Vec<String> = Vec::new();
        for name in names {
            let (theirs, ours) = (find(&self.identity, name), find(reader, name));
            let unknown = optional.contains(&name.as_str()) && (theirs.is_none() || ours.is_none());
            if theirs == ours || unknown {
                continue;
            }
            let show = |value: Option<String>| value.map_or("absent".to_owned(), |value| format!("{value:?}"));
            let difference = format!("{name} was {}, but is {} in this plugin", show(theirs), show(ours));
            if !differences.contains(&difference) {
                differences.push(difference);
            }
        }
        if differences.is_empty() {
            return Ok(());
        }
        let (name, remedy) = (self.kind.name(), self.kind.remedy());
        Err(Error::invalid(format!(
            "a {name} can be loaded only by the plugin that made it: {}; {remedy} with this plugin",
            differences.join("; ")
        )))
    }
}

fn read_identity(mut bytes: &[u8]) -> Option<Identity> {
    let mut next = || {
        let (len, rest) = bytes.split_first_chunk::<4>()?;
        let (text, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)?;
        bytes = rest;
        String::from_utf8(text.to_vec()).ok().map(|text| (text, rest.is_empty()))
    };
    let mut identity = Vec::new();
    loop {
        let (name, _) = next()?;
        let (value, last) = next()?;
        identity.push((name, value));
        if last {
            return Some(identity);
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::ErrorKind;

    fn identity(version: &str) -> Identity {
        [("platform", "cpu"), ("version", version)].map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }

    fn sealed() -> Sealed {
        Sealed::new(Kind::Executable, identity("1"), b"payload").unwrap()
    }

    #[test]
    fn contents_come_back() {
        let bytes = sealed().into_bytes();
        let opened = Sealed::open(Kind::Executable, bytes.clone()).unwrap();
        assert_eq!((opened.payload(), opened.identity()), (&b"payload"[..], &identity("1")[..]));
        assert_eq!(opened.bytes(), bytes);
        assert!(opened.check(&identity("1"), &[]).is_ok());
    }

    #[test]
    fn rejects_altered_bits_and_lengths() {
        let bytes = sealed().into_bytes();
        for at in 0..bytes.len() * 8 {
            let mut altered = bytes.clone();
            altered[at / 8] ^= 1 << (at % 8);
            assert!(Sealed::open(Kind::Executable, altered).is_err(), "bit {at}");
        }
        for len in 0..bytes.len() {
            assert!(Sealed::open(Kind::Executable, bytes[..len].to_vec()).is_err(), "{len} bytes");
        }
        let longer = [&bytes[..], b"x"].concat();
        let error = Sealed::open(Kind::Executable, longer).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        expect!["the data has 107 bytes, but its header declares 106, so the bytes are not a usable serialized executable; compile the program again"]
            .assert_eq(&error.to_string());
    }

    #[test]
    fn another_kind_is_refused() {
        let error = Sealed::open(Kind::Topology, sealed().into_bytes()).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        expect!["the envelope holds contents of kind 1, not 2, so the bytes are not a usable serialized topology; serialize the topology again"]
            .assert_eq(&error.to_string());
    }

    #[test]
    fn differences_are_named() {
        let error = sealed().check(&identity("2"), &[]).unwrap_err();
        expect![[r#"a serialized executable can be loaded only by the plugin that made it: version was "1", but is "2" in this plugin; compile the program again with this plugin"#]]
            .assert_eq(&error.to_string());
        let error = sealed().check(&identity("1")[..1], &[]).unwrap_err();
        expect![[r#"a serialized executable can be loaded only by the plugin that made it: version was "1", but is absent in this plugin; compile the program again with this plugin"#]]
            .assert_eq(&error.to_string());
        assert!(sealed().check(&identity("1")[..1], &["version"]).is_ok());
        assert!(sealed().check(&identity("2"), &["version"]).is_err());
    }
}
