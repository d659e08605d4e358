//! Converts Shardy's attributes to MLIR text. Devices that support shardings parse this text. Other devices ignore it.

use super::append::{append, append_other, factor};
use super::cursor::Cursor;
use super::entries::Tables;
use crate::error::Result;
use crate::ir::Attribute;

impl Tables<'_> {
    pub(super) fn shardy_attribute(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Attribute> {
        let mut text = String::new();
        let out = &mut text;
        let pattern = match cursor.varint()? {
            0 => "#sdy<manual_axes{%A}>",
            1 => "\"%n\"=%i",
            2 => return self.mesh(cursor, depth),
            3 => "(%i)%i",
            4 => {
                self.fill(out, "\"%n\"", cursor, depth)?;
                let (index, present) = cursor.flagged()?;
                if present {
                    out.push(':');
                    let index = usize::try_from(index).map_err(|_| cursor.error("attribute index out of range"))?;
                    let child = self.child_at(cursor, index, depth)?;
                    append_other(out, &child, cursor)?;
                }
                ""
            }
            5 => {
                self.fill(out, "{%O", cursor, depth)?;
                let closed = cursor.byte()? != 0;
                let (priority, present) = cursor.flagged()?;
                out.push_str(match (closed, out.len() == 1) {
                    (true, _) => "}",
                    (false, true) => "?}",
                    (false, false) => ", ?}",
                });
                if present {
                    append(out, format_args!("p{priority}"));
                }
                ""
            }
            code @ (6 | 15 | 17) => return self.sharding(cursor, depth, code),
            7 | 16 => {
                self.fill(out, "%O", cursor, depth)?;
                let values = out.replace("#sdy.sharding<", "<");
                out.clear();
                append(out, format_args!("#sdy.sharding_per_value<[{values}]>"));
                ""
            }
            8 => {
                for _ in 0..cursor.count()? {
                    factor(out, cursor.svarint()?);
                }
                ""
            }
            9 | 12 | 14 => "[%O]",
            10 => return self.rule(cursor, depth),
            11 => "{%O}",
            13 => "{%O}: %i->%i",
            code => return Err(cursor.error(format_args!("unknown sdy attribute code {code}"))),
        };
        self.fill(out, pattern, cursor, depth)?;
        Ok(Attribute::Other(text))
    }

    fn mesh(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Attribute> {
        let mut text = String::new();
        self.fill(&mut text, "#sdy.mesh<[%O]", cursor, depth)?;
        self.fill_unless_empty(&mut text, ", device_ids=[%I]", cursor, depth)?;
        text.push('>');
        Ok(Attribute::Other(text))
    }

    /// Fills a pattern that contains one list. Appends nothing if the list is empty.
    fn fill_unless_empty(
        &mut self,
        out: &mut String,
        pattern: &str,
        cursor: &mut Cursor<'_>,
        depth: usize,
    ) -> Result<()> {
        let (before, shortest) = (out.len(), pattern.len() - "%I".len());
        self.fill(out, pattern, cursor, depth)?;
        if out.len() == before + shortest {
            out.truncate(before);
        }
        Ok(())
    }

    fn sharding(&mut self, cursor: &mut Cursor<'_>, depth: usize, code: u64) -> Result<Attribute> {
        let mut text = String::from("#sdy.sharding<");
        match self.child(cursor, depth)? {
            Attribute::Symbol(name) => append(&mut text, format_args!("@{name}")),
            Attribute::Other(mesh) => text.push_str(&mesh.replace("#sdy.mesh<", "mesh<")),
            _ => return Err(cursor.error("a sharding without a mesh")),
        }
        self.fill(&mut text, ", [%O]", cursor, depth)?;
        self.fill_unless_empty(&mut text, ", replicated={%O}", cursor, depth)?;
        if code >= 15 {
            self.fill_unless_empty(&mut text, ", unreduced={%O}", cursor, depth)?;
        }
        if code == 17 {
            cursor.svarint()?;
        }
        text.push('>');
        Ok(Attribute::Other(text))
    }

    fn rule(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Attribute> {
        let mut text = String::from("#sdy.op_sharding_rule<(");
        let sizes = cursor.list(Cursor::svarint)?;
        self.fill(&mut text, "%O)->(%O) {", cursor, depth)?;
        for (number, size) in (0..).zip(sizes) {
            if number > 0 {
                text.push_str(", ");
            }
            factor(&mut text, number);
            append(&mut text, format_args!("={size}"));
        }
        text.push('}');
        for pattern in [" reduction={%F}", " need_replication={%F}", " permutation={%F}", " blocked_propagation={%F}"] {
            self.fill_unless_empty(&mut text, pattern, cursor, depth)?;
        }
        if cursor.byte()? != 0 {
            text.push_str(", custom");
        }
        text.push('>');
        Ok(Attribute::Other(text))
    }
}
