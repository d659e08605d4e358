//! Changes recordings and runs their readers.
//!
//! Almost any changed byte makes a checksum wrong. The mutator therefore takes a recording apart, changes fields of its
//! messages, and joins the blocks with valid lengths, checksums and hashes.

use std::io::Cursor;

use pjrt_record::replay::{self, Options};
use pjrt_record::{Body, Content, Hash, RawBlock, Reader, Selection, Summary, join, line, split, trim};

/// Maximum size of the assembled data, in bytes.
const LIMIT: u64 = 1 << 22;
/// Code of the kind of a block with data.
const DATA: u8 = 2;
/// Number of bytes of a hash.
const HASH: usize = 32;
/// Maximum depth of nested messages that the mutator changes.
const DEPTH: usize = 6;
/// Numbers that readers may handle wrongly.
const NUMBERS: [u64; 14] =
    [0, 1, 2, 3, 4, 8, u32::MAX as u64, 1 << 31, 1 << 32, 1 << 40, 1 << 62, i64::MAX as u64, 1 << 63, u64::MAX];

/// Checks that any bytes result in blocks or an error, in a summary, and in a trimmed recording or an error. A trimmed
/// recording must be readable.
pub fn read(bytes: &[u8]) -> Result<(), String> {
    let Ok(mut reader) = Reader::new(Cursor::new(bytes)) else { return Ok(()) };
    let runs = Summary::of(&mut reader).map_err(|error| error.to_string())?.runs.len();
    reader.rewind();
    while let Ok(Some(block)) = reader.read() {
        drop(line(&block));
        if let Body::Data { hash, size } = &block.body {
            let content = Content { size: *size as u64, hashes: hash.as_bytes().to_vec() };
            drop(reader.content(&content, LIMIT));
        }
    }
    for number in [1, runs as u64] {
        let mut out = Vec::new();
        if trim(&mut reader, &Selection { program: None, number }, &mut out).is_ok() {
            let mut trimmed = Reader::new(Cursor::new(&out)).map_err(|error| format!("trimmed: {error}"))?;
            let summary = Summary::of(&mut trimmed).map_err(|error| format!("trimmed: {error}"))?;
            if let Some(damage) = summary.damage {
                return Err(format!("trimmed recording: {damage}"));
            }
        }
    }
    Ok(())
}

/// Replays a recording on the embedded device, which has little memory.
pub fn repeat(bytes: &[u8]) -> Result<(), String> {
    let Ok(mut reader) = Reader::new(Cursor::new(bytes)) else { return Ok(()) };
    let plugin = plugin_registry::open("cpu").map_err(|error| error.to_string())?;
    let mut make = |_: &[pjrt::NamedValue]| {
        let options = pjrt::ClientOptions::new().with("memory_limit", "16MiB").with("device_count", 2);
        plugin.client(&options).map_err(|error| error.to_string())
    };
    drop(replay::replay(&mut reader, &mut make, &Options::default().with_limit(Some(LIMIT))));
    Ok(())
}

/// Changes a recording of `size` bytes in `data`. Returns its new size. `change` changes any bytes, as libFuzzer does.
pub fn mutate(
    data: &mut [u8],
    size: usize,
    max_size: usize,
    seed: u32,
    change: impl Fn(&mut [u8], usize, usize) -> usize,
) -> usize {
    let mut random = Random(u64::from(seed) | 1 << 32);
    let mut blocks = split(&data[..size]);
    if blocks.is_empty() || random.below(64) == 0 {
        return change(data, size, max_size);
    }
    for _ in 0..=random.below(3) {
        change_blocks(&mut blocks, &mut random, &change);
    }
    let file = join(&blocks);
    if file.len() > max_size {
        return size;
    }
    data[..file.len()].copy_from_slice(&file);
    file.len()
}

fn change_blocks(blocks: &mut Vec<RawBlock>, random: &mut Random, change: &impl Fn(&mut [u8], usize, usize) -> usize) {
    if blocks.is_empty() {
        return;
    }
    let (at, other) = (random.below(blocks.len()), random.below(blocks.len()));
    match random.below(12) {
        0 => drop(blocks.remove(at)),
        1 => {
            let block = blocks[at].clone();
            blocks.insert(other, block);
        }
        2 => blocks.swap(at, other),
        3 => blocks[at].stamp.call = blocks[other].stamp.call,
        4 => blocks[at].kind = u8::try_from(random.below(9)).unwrap_or(0),
        5 if blocks[at].kind == DATA => change_data(blocks, at, change),
        6 => {
            let mut payload = blocks[at].payload.clone();
            let size = payload.len();
            payload.resize(size + 64, 0);
            let size = change(&mut payload, size, size + 64);
            payload.truncate(size);
            if blocks[at].kind != DATA {
                blocks[at].payload = payload;
            }
        }
        _ if blocks[at].kind != DATA => change_message(&mut blocks[at].payload, random),
        _ => {}
    }
}

/// Changes a piece of data without its size, and all references to the piece. Keeps programs, because a changed program
/// may run for any time.
fn change_data(blocks: &mut [RawBlock], at: usize, change: &impl Fn(&mut [u8], usize, usize) -> usize) {
    let Some((old, piece)) = blocks[at].payload.split_at_checked(HASH) else { return };
    if piece.is_empty() || piece.starts_with(b"module") {
        return;
    }
    let (old, mut piece) = (old.to_vec(), piece.to_vec());
    let size = piece.len();
    change(&mut piece, size, size);
    let new = Hash::of(&piece);
    for block in blocks.iter_mut() {
        for start in 0..block.payload.len().saturating_sub(HASH - 1) {
            if block.payload[start..start + HASH] == old[..] {
                block.payload[start..start + HASH].copy_from_slice(new.as_bytes());
            }
        }
    }
    blocks[at].payload.truncate(HASH);
    blocks[at].payload.extend(piece);
}

/// Changes a field of a message.
fn change_message(payload: &mut Vec<u8>, random: &mut Random) {
    let Some(mut fields) = Field::parse(payload, DEPTH) else { return };
    let count = Field::count(&fields);
    if count > 0 {
        let mut position = random.below(count);
        Field::change(&mut fields, &mut position, random);
        payload.clear();
        fields.iter().for_each(|field| field.write(payload));
    }
}

/// A field of an encoded message.
#[derive(Clone)]
struct Field {
    number: u64,
    value: Value,
}

#[derive(Clone)]
enum Value {
    Varint(u64),
    /// A number of 4 or 8 bytes.
    Fixed(Vec<u8>),
    Bytes(Vec<u8>),
    /// Bytes that are also a valid message.
    Message(Vec<Field>),
}

impl Field {
    fn parse(mut bytes: &[u8], depth: usize) -> Option<Vec<Self>> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes)?;
            let value = match key & 7 {
                0 => Value::Varint(varint(&mut bytes)?),
                1 => Value::Fixed(take(&mut bytes, 8)?),
                5 => Value::Fixed(take(&mut bytes, 4)?),
                2 => {
                    let size = usize::try_from(varint(&mut bytes)?).ok()?;
                    let bytes = take(&mut bytes, size)?;
                    let nested = if depth > 0 && !bytes.is_empty() { Self::parse(&bytes, depth - 1) } else { None };
                    nested.map_or(Value::Bytes(bytes), Value::Message)
                }
                _ => return None,
            };
            fields.push(Self { number: key >> 3, value });
        }
        Some(fields)
    }

    fn count(fields: &[Self]) -> usize {
        let nested = |field: &Self| if let Value::Message(fields) = &field.value { Self::count(fields) } else { 0 };
        fields.iter().map(|field| 1 + nested(field)).sum()
    }

    /// Changes the field at a position among all nested fields. Returns whether it found the position.
    fn change(fields: &mut Vec<Self>, position: &mut usize, random: &mut Random) -> bool {
        for at in 0..fields.len() {
            if *position == 0 {
                match random.below(8) {
                    0 => drop(fields.remove(at)),
                    1 => {
                        let copy = fields[at].clone();
                        let copies = 1 + random.below(4);
                        fields.splice(at..at, std::iter::repeat_n(copy, copies));
                    }
                    _ => fields[at].change_value(random),
                }
                return true;
            }
            *position -= 1;
            if let Value::Message(nested) = &mut fields[at].value
                && Self::change(nested, position, random)
            {
                return true;
            }
        }
        false
    }

    fn change_value(&mut self, random: &mut Random) {
        let number = if random.below(2) == 0 { NUMBERS[random.below(NUMBERS.len())] } else { random.below(24) as u64 };
        match &mut self.value {
            Value::Varint(value) => *value = number,
            Value::Fixed(bytes) => bytes.fill(u8::try_from(number & 0xff).unwrap_or(0)),
            Value::Bytes(bytes) => {
                let at = random.below(bytes.len() + 1);
                if random.below(2) == 0 {
                    bytes.insert(at, u8::try_from(number & 0xff).unwrap_or(0));
                } else {
                    bytes.truncate(at);
                }
            }
            // Lists of numbers are encoded as bytes that may also be a valid message.
            Value::Message(_) => {
                let mut bytes = Vec::new();
                for _ in 0..random.below(4) {
                    write_varint(NUMBERS[random.below(NUMBERS.len())], &mut bytes);
                }
                self.value = Value::Bytes(bytes);
            }
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let (wire, bytes) = match &self.value {
            Value::Varint(value) => {
                write_varint(self.number << 3, out);
                return write_varint(*value, out);
            }
            Value::Fixed(bytes) => {
                write_varint(self.number << 3 | if bytes.len() == 8 { 1 } else { 5 }, out);
                return out.extend(bytes);
            }
            Value::Bytes(bytes) => (2, bytes.clone()),
            Value::Message(fields) => {
                let mut bytes = Vec::new();
                fields.iter().for_each(|field| field.write(&mut bytes));
                (2, bytes)
            }
        };
        write_varint(self.number << 3 | wire, out);
        write_varint(bytes.len() as u64, out);
        out.extend(bytes);
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap_or(0) | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap_or(0));
}

fn take(bytes: &mut &[u8], size: usize) -> Option<Vec<u8>> {
    let (taken, rest) = bytes.split_at_checked(size)?;
    *bytes = rest;
    Some(taken.to_vec())
}

/// A generator of random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap_or(0) % bound.max(1)
    }
}
