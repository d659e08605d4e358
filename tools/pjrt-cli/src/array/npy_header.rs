//! Parses the header of a `.npy` file: a magic string, a version, and a Python dictionary with three keys.
//!
//! NumPy writes the dictionary as a Python literal that contains only strings, a boolean and a tuple of integers. This
//! parser accepts only such literals, so it does not need to implement Python's grammar.

/// The first bytes of every `.npy` file.
const MAGIC: &[u8] = b"\x93NUMPY";
/// Maximum length of a header in bytes. NumPy rejects longer headers, too.
const MAX_HEADER: usize = 1 << 20;

/// The contents of a header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The element type in NumPy's notation, such as `<f4`.
    pub(super) descr: String,
    /// Whether the first dimension varies fastest (column-major order).
    pub(super) fortran_order: bool,
    pub(super) extents: Vec<u64>,
}

/// Splits a file into its header and its data.
pub(super) fn split(file: &[u8]) -> Result<(Header, &[u8]), String> {
    let not_npy = || "not a .npy file".to_owned();
    let cut = || "the header of the .npy file is cut off".to_owned();
    let rest = file.strip_prefix(MAGIC).ok_or_else(not_npy)?;
    let (version, rest) = rest.split_at_checked(2).ok_or_else(cut)?;
    let prefix = match version {
        [1, _] => 2,
        [2 | 3, _] => 4,
        [major, minor] => return Err(format!("version {major}.{minor} of the .npy format is not supported")),
        _ => return Err(cut()),
    };
    let (length, rest) = rest.split_at_checked(prefix).ok_or_else(cut)?;
    let length = length.iter().rev().fold(0usize, |length, byte| length << 8 | usize::from(*byte));
    if length > MAX_HEADER {
        return Err(format!("the header of the .npy file has {length} bytes; at most {MAX_HEADER} are read"));
    }
    let (text, data) = rest.split_at_checked(length).ok_or_else(cut)?;
    let text = str::from_utf8(text).map_err(|_| "the header of the .npy file is not text".to_owned())?;
    Ok((Reader { rest: text }.header()?, data))
}

/// A parser of the dictionary. `rest` is the text that is not parsed yet.
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn header(&mut self) -> Result<Header, String> {
        let (mut descr, mut fortran_order, mut extents) = (None, None, None);
        self.expect("{")?;
        while !self.take("}") {
            let key = self.string()?;
            self.expect(":")?;
            match key {
                "descr" if self.rest.trim_start().starts_with('[') => {
                    return Err("holds records, not an array of numbers".to_owned());
                }
                "descr" => descr = Some(self.string()?.to_owned()),
                "fortran_order" => fortran_order = Some(self.boolean()?),
                "shape" => extents = Some(self.tuple()?),
                other => return Err(format!("the header of the .npy file has an unknown key {other:?}")),
            }
            if !self.take(",") {
                self.expect("}")?;
                break;
            }
        }
        let missing = |key: &str| format!("the header of the .npy file lacks {key:?}");
        Ok(Header {
            descr: descr.ok_or_else(|| missing("descr"))?,
            fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
            extents: extents.ok_or_else(|| missing("shape"))?,
        })
    }

    /// Skips a token if it comes next. Returns whether the token was skipped.
    fn take(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.take(token) { Ok(()) } else { Err(self.unexpected(&format!("`{token}`"))) }
    }

    fn unexpected(&self, wanted: &str) -> String {
        let next: String = self.rest.chars().take(16).collect();
        format!("the header of the .npy file is damaged: {wanted} expected before {next:?}")
    }

    fn string(&mut self) -> Result<&'a str, String> {
        for quote in ["'", "\""] {
            if self.take(quote) {
                let (text, rest) = self.rest.split_once(quote).ok_or_else(|| self.unexpected("the end of a string"))?;
                self.rest = rest;
                return Ok(text);
            }
        }
        Err(self.unexpected("a string"))
    }

    fn boolean(&mut self) -> Result<bool, String> {
        match () {
            () if self.take("True") => Ok(true),
            () if self.take("False") => Ok(false),
            () => Err(self.unexpected("True or False")),
        }
    }

    fn tuple(&mut self) -> Result<Vec<u64>, String> {
        let mut extents = Vec::new();
        self.expect("(")?;
        while !self.take(")") {
            self.rest = self.rest.trim_start();
            let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
            let extent = self.rest[..end].parse().map_err(|_| self.unexpected("an extent"))?;
            self.rest = &self.rest[end..];
            // Python 2 wrote integers as `3L`.
            self.take("L");
            extents.push(extent);
            if !self.take(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(extents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(version: u8, header: &str) -> Vec<u8> {
        let length = u32::try_from(header.len()).unwrap().to_le_bytes();
        let length = if version == 1 { &length[..2] } else { &length[..] };
        [MAGIC, &[version, 0], length, header.as_bytes(), b"data"].concat()
    }

    #[test]
    fn headers_of_numpy() {
        for (header, extents) in [
            ("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }    \n", vec![2, 3]),
            ("{'descr': '<f4', 'fortran_order': True, 'shape': (), }", vec![]),
            ("{\"shape\":(7,),\"fortran_order\":True,\"descr\":\"<f4\"}", vec![7]),
            ("{'descr': '<f4', 'fortran_order': True, 'shape': (2L, 0L)}", vec![2, 0]),
        ] {
            for version in [1, 2, 3] {
                let file = file(version, header);
                let (header, data) = split(&file).unwrap();
                assert_eq!(header, Header { descr: "<f4".to_owned(), fortran_order: true, extents: extents.clone() });
                assert_eq!(data, b"data");
            }
        }
    }

    #[test]
    fn damaged_headers_get_a_reason() {
        let whole = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
        for (header, reason) in [
            ("", "`{` expected"),
            ("{", "a string expected"),
            ("{'descr': [('a', '<f4')], }", "records"),
            ("{'descr': '<f4', 'shape': (2,)}", "lacks \"fortran_order\""),
            ("{'descr': '<f4', 'fortran_order': no}", "True or False"),
            ("{'descr': '<f4', 'shape': (-1,)}", "an extent expected"),
            ("{'descr': '<f4', 'shape': (99999999999999999999,)}", "an extent expected"),
            ("{'color': 1}", "unknown key \"color\""),
            ("{'descr': '<f4", "the end of a string"),
        ] {
            let error = split(&file(1, header)).unwrap_err();
            assert!(error.contains(reason), "{header}: {error}");
        }
        for length in 0..10 + whole.len() {
            assert!(split(&file(1, whole)[..length]).is_err(), "{length}");
        }
        assert!(split(&file(9, whole)).unwrap_err().contains("version 9.0"));
        assert!(split(b"hello").unwrap_err().contains("not a .npy file"));
        assert!(split(b"\x93NUMPY\x02\x00\xff\xff\xff\xff").unwrap_err().contains("at most"));
    }
}
