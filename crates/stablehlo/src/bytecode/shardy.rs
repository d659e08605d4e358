//! Shardy's attributes, as MLIR text. Devices that support shardings read them; others ignore them.

use super::cursor::Cursor;
use super::entries::Tables;
use crate::error::Result;
use crate::ir::Attribute;

impl Tables<'_> {
    pub(super) fn shardy_attribute(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Attribute> {
        let text = match cursor.varint()? {
            0 => {
                let axes = cursor.list(|cursor| Ok(format!("\"{}\"", self.child_text(cursor, depth)?)))?;
                format!("#sdy<manual_axes{{{}}}>", axes.join(", "))
            }
            1 => {
                let name = self.name(cursor)?;
                format!("\"{name}\"={}", cursor.svarint()?)
            }
            2 => {
                let axes = self.texts(cursor, depth)?;
                let devices = cursor.list(Cursor::svarint)?;
                let devices = if devices.is_empty() { String::new() } else { format!(", device_ids={devices:?}") };
                format!("#sdy.mesh<[{axes}]{devices}>")
            }
            3 => {
                let (pre, size) = (cursor.svarint()?, cursor.svarint()?);
                format!("({pre}){size}")
            }
            4 => {
                let name = self.name(cursor)?;
                let (index, present) = cursor.flagged()?;
                if present {
                    format!("\"{name}\":{}", self.other_at(cursor, index, depth)?)
                } else {
                    format!("\"{name}\"")
                }
            }
            5 => {
                let axes = self.texts(cursor, depth)?;
                let closed = cursor.byte()? != 0;
                let (priority, present) = cursor.flagged()?;
                let open = match (closed, axes.is_empty()) {
                    (true, _) => "",
                    (false, true) => "?",
                    (false, false) => ", ?",
                };
                let priority = if present { format!("p{priority}") } else { String::new() };
                format!("{{{axes}{open}}}{priority}")
            }
            code @ (6 | 15 | 17) => self.sharding(cursor, depth, code)?,
            7 | 16 => {
                let values = self.texts(cursor, depth)?.replace("#sdy.sharding<", "<");
                format!("#sdy.sharding_per_value<[{values}]>")
            }
            8 => cursor.list(|cursor| Ok(factor(cursor.svarint()?)))?.join(""),
            9 => format!("[{}]", self.texts(cursor, depth)?),
            10 => self.rule(cursor, depth)?,
            11 => format!("{{{}}}", self.texts(cursor, depth)?),
            12 => format!("[{}]", self.texts(cursor, depth)?),
            13 => {
                let axes = self.texts(cursor, depth)?;
                let (source, target) = (cursor.svarint()?, cursor.svarint()?);
                format!("{{{axes}}}: {source}->{target}")
            }
            14 => format!("[{}]", self.texts(cursor, depth)?),
            code => return Err(cursor.error(format!("unknown sdy attribute code {code}"))),
        };
        Ok(Attribute::Other(text))
    }

    fn sharding(&mut self, cursor: &mut Cursor<'_>, depth: usize, code: u64) -> Result<String> {
        let mesh = match self.child(cursor, depth)? {
            Attribute::Symbol(name) => format!("@{name}"),
            Attribute::Other(text) => text.replace("#sdy.mesh<", "mesh<"),
            _ => return Err(cursor.error("a sharding without a mesh")),
        };
        let dimensions = self.texts(cursor, depth)?;
        let mut text = format!("#sdy.sharding<{mesh}, [{dimensions}]");
        let replicated = self.texts(cursor, depth)?;
        if !replicated.is_empty() {
            text.push_str(&format!(", replicated={{{replicated}}}"));
        }
        if code >= 15 {
            let unreduced = self.texts(cursor, depth)?;
            if !unreduced.is_empty() {
                text.push_str(&format!(", unreduced={{{unreduced}}}"));
            }
        }
        if code == 17 {
            cursor.svarint()?;
        }
        text.push('>');
        Ok(text)
    }

    fn rule(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<String> {
        let sizes = cursor.list(Cursor::svarint)?;
        let operands = self.texts(cursor, depth)?;
        let results = self.texts(cursor, depth)?;
        let numbered = |cursor: &mut Cursor<'_>| cursor.list(|cursor| Ok(factor(cursor.svarint()?)));
        let mut tail = String::new();
        for name in ["reduction", "need_replication", "permutation", "blocked_propagation"] {
            let factors = numbered(cursor)?;
            if !factors.is_empty() {
                tail.push_str(&format!(" {name}={{{}}}", factors.join(", ")));
            }
        }
        if cursor.byte()? != 0 {
            tail.push_str(", custom");
        }
        let factors: Vec<String> = sizes
            .iter()
            .enumerate()
            .map(|(i, size)| format!("{}={size}", factor(i64::try_from(i).unwrap_or(i64::MAX))))
            .collect();
        Ok(format!("#sdy.op_sharding_rule<({operands})->({results}) {{{}}}{tail}>", factors.join(", ")))
    }

    /// Reads a string and returns a copy.
    fn name(&mut self, cursor: &mut Cursor<'_>) -> Result<String> {
        let name = self.container.text(cursor)?;
        self.charge(cursor.pos(), name.len())?;
        Ok(name)
    }

    /// A list of attributes, each as text.
    fn texts(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<String> {
        Ok(cursor.list(|cursor| self.child_other(cursor, depth))?.join(", "))
    }

    fn other_at(&mut self, cursor: &Cursor<'_>, index: u64, depth: usize) -> Result<String> {
        let index = usize::try_from(index).map_err(|_| cursor.error("attribute index out of range"))?;
        match self.child_at(cursor, index, depth)? {
            Attribute::Other(text) => Ok(text),
            _ => Err(cursor.error("an attribute of an unexpected kind")),
        }
    }
}

/// Name of a factor of a sharding rule: `i` to `z`, then `z_1` and so on.
fn factor(number: i64) -> String {
    match u8::try_from(number) {
        Ok(n) if n < 18 => char::from(b'i' + n).to_string(),
        _ => format!("z_{}", number.saturating_sub(17)),
    }
}
