//! Encodes a profile as an `XSpace` message, the format of XLA's profiler and its viewers.
//!
//! Field numbers are those of the profiler's `xplane.proto`. A space has planes (a device, or the threads of a
//! process), a plane has lines (a queue, or a thread), and a line has events. A plane stores the names of events and
//! stats once and refers to them by id. A line has a start time in nanoseconds since 1970. The times of its events are
//! in picoseconds after this start time.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use super::recorded_program::RecordedProgram;
use super::{Activity, Place, Recording};
use crate::hlo::message;
use crate::{NamedValue, Value};

mod field {
    pub(super) const SPACE_PLANES: u8 = 1;
    pub(super) const SPACE_WARNINGS: u8 = 3;
    pub(super) const PLANE_ID: u8 = 1;
    pub(super) const PLANE_NAME: u8 = 2;
    pub(super) const PLANE_LINES: u8 = 3;
    pub(super) const PLANE_EVENT_METADATA: u8 = 4;
    pub(super) const PLANE_STAT_METADATA: u8 = 5;
    pub(super) const LINE_ID: u8 = 1;
    pub(super) const LINE_NAME: u8 = 2;
    pub(super) const LINE_TIMESTAMP_NS: u8 = 3;
    pub(super) const LINE_EVENTS: u8 = 4;
    pub(super) const LINE_DURATION_PS: u8 = 9;
    pub(super) const EVENT_METADATA_ID: u8 = 1;
    pub(super) const EVENT_OFFSET_PS: u8 = 2;
    pub(super) const EVENT_DURATION_PS: u8 = 3;
    pub(super) const EVENT_STATS: u8 = 4;
    pub(super) const STAT_METADATA_ID: u8 = 1;
    pub(super) const STAT_DOUBLE: u8 = 2;
    pub(super) const STAT_INT64: u8 = 4;
    pub(super) const STAT_STR: u8 = 5;
    pub(super) const STAT_BYTES: u8 = 6;
    /// Fields of event metadata, of stat metadata and of map entries.
    pub(super) const METADATA_ID: u8 = 1;
    pub(super) const METADATA_NAME: u8 = 2;
    pub(super) const EVENT_METADATA_STATS: u8 = 5;
    pub(super) const KEY: u8 = 1;
    pub(super) const VALUE: u8 = 2;
}

/// Appends an integer field. A zero is omitted, because an absent field is zero.
fn number(out: &mut Vec<u8>, field: u8, value: u64) {
    if value == 0 {
        return;
    }
    out.push(field << 3);
    let mut left = value;
    while left >= 0x80 {
        let [low, ..] = left.to_le_bytes();
        out.push(low | 0x80);
        left >>= 7;
    }
    let [low, ..] = left.to_le_bytes();
    out.push(low);
}

/// Maps each name to its id. The ids are counted from 1.
#[derive(Default)]
struct Names(HashMap<String, u64>);

impl Names {
    fn id(&mut self, name: &str) -> u64 {
        if let Some(id) = self.0.get(name) {
            return *id;
        }
        let id = self.0.len() as u64 + 1;
        self.0.insert(name.to_owned(), id);
        id
    }

    /// Appends each id and its name as an entry of a map from ids to metadata. `map` is the field number of the map.
    fn write(&self, out: &mut Vec<u8>, map: u8) {
        let mut names: Vec<_> = self.0.iter().map(|(name, id)| (*id, name)).collect();
        names.sort_unstable();
        for (id, name) in names {
            write_metadata(out, map, id, name, &[]);
        }
    }
}

/// Appends one entry of a map from ids to metadata. `map` is the field number of the map. `stats` contains the encoded
/// stats of the metadata.
fn write_metadata(out: &mut Vec<u8>, map: u8, id: u64, name: &str, stats: &[u8]) {
    let (mut metadata, mut entry) = (Vec::new(), Vec::new());
    number(&mut metadata, field::METADATA_ID, id);
    message(&mut metadata, field::METADATA_NAME, name.as_bytes());
    metadata.extend_from_slice(stats);
    number(&mut entry, field::KEY, id);
    message(&mut entry, field::VALUE, &metadata);
    message(out, map, &entry);
}

/// A plane whose activities are being collected.
#[derive(Default)]
struct Plane<'a> {
    /// The key of a host thread begins with the thread id. The key of a device line begins with 0, so device lines are
    /// sorted by name.
    lines: BTreeMap<(u64, String), Vec<&'a Activity>>,
}

/// Returns the time between two instants in picoseconds, or zero if the second instant is earlier.
fn picoseconds(from: Instant, to: Instant) -> u64 {
    u64::try_from(to.saturating_duration_since(from).as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000)
}

impl Plane<'_> {
    fn write(mut self, id: u64, name: &str, recording: &Recording) -> Vec<u8> {
        let (mut plane, mut events, mut stats) = (Vec::new(), Names::default(), Names::default());
        number(&mut plane, field::PLANE_ID, id);
        message(&mut plane, field::PLANE_NAME, name.as_bytes());
        for (index, ((thread, name), activities)) in self.lines.iter_mut().enumerate() {
            // Viewers expect events in order, with enclosing events first.
            activities.sort_by(|a, b| a.start.cmp(&b.start).then(b.end.cmp(&a.end)));
            let mut line = Vec::new();
            number(&mut line, field::LINE_ID, if *thread == 0 { index as u64 + 1 } else { *thread });
            message(&mut line, field::LINE_NAME, name.as_bytes());
            number(&mut line, field::LINE_TIMESTAMP_NS, recording.start_ns);
            for activity in activities {
                message(&mut line, field::LINE_EVENTS, &event(activity, recording, &mut events, &mut stats));
            }
            number(&mut line, field::LINE_DURATION_PS, picoseconds(recording.start, recording.end));
            message(&mut plane, field::PLANE_LINES, &line);
        }
        events.write(&mut plane, field::PLANE_EVENT_METADATA);
        stats.write(&mut plane, field::PLANE_STAT_METADATA);
        plane
    }
}

fn event(activity: &Activity, recording: &Recording, events: &mut Names, stats: &mut Names) -> Vec<u8> {
    let start = activity.start.max(recording.start);
    let mut event = Vec::new();
    number(&mut event, field::EVENT_METADATA_ID, events.id(&activity.name));
    number(&mut event, field::EVENT_OFFSET_PS, picoseconds(recording.start, start));
    number(&mut event, field::EVENT_DURATION_PS, picoseconds(start, activity.end));
    for value in &activity.stats {
        message(&mut event, field::EVENT_STATS, &stat(value, stats));
    }
    event
}

fn stat(value: &NamedValue, names: &mut Names) -> Vec<u8> {
    let mut stat = Vec::new();
    number(&mut stat, field::STAT_METADATA_ID, names.id(&value.name));
    match &value.value {
        // A zero is written, too, because the field number determines the type of the stat.
        Value::Int64(0) => stat.extend([field::STAT_INT64 << 3, 0]),
        Value::Int64(value) => number(&mut stat, field::STAT_INT64, value.cast_unsigned()),
        Value::Bool(value) => stat.extend([field::STAT_INT64 << 3, u8::from(*value)]),
        Value::Float(value) => {
            stat.push(field::STAT_DOUBLE << 3 | 1);
            stat.extend(f64::from(*value).to_le_bytes());
        }
        Value::String(text) => message(&mut stat, field::STAT_STR, text.as_bytes()),
        other => message(&mut stat, field::STAT_STR, other.to_string().as_bytes()),
    }
    stat
}

/// Maximum total size of the programs in a profile, in bytes. Protobuf messages are limited to 2 GiB, and this limit
/// leaves room for the activities.
const PROGRAMS_LIMIT: usize = 1 << 29;

/// The plane of programs. As in XLA's profiler, it has one entry of event metadata for each program. The program is the
/// only stat of this entry.
struct Programs {
    plane: Vec<u8>,
    /// Number of programs in the plane.
    len: u64,
    /// Reasons why programs are missing.
    warnings: Vec<String>,
}

impl Programs {
    fn encode<'a>(id: u64, programs: impl Iterator<Item = &'a RecordedProgram>) -> Self {
        let (mut plane, mut stats) = (Vec::new(), Names::default());
        let (mut len, mut warnings) = (0, Vec::new());
        number(&mut plane, field::PLANE_ID, id);
        message(&mut plane, field::PLANE_NAME, b"/host:metadata");
        for program in programs {
            let left = PROGRAMS_LIMIT.saturating_sub(plane.len());
            match program.hlo_proto(left) {
                Ok(proto) => {
                    len += 1;
                    let (mut stat, mut field) = (Vec::new(), Vec::new());
                    number(&mut stat, field::STAT_METADATA_ID, stats.id("hlo_proto"));
                    message(&mut stat, field::STAT_BYTES, &proto);
                    message(&mut field, field::EVENT_METADATA_STATS, &stat);
                    let name = format!("{}({len})", program.name);
                    write_metadata(&mut plane, field::PLANE_EVENT_METADATA, len, &name, &field);
                }
                Err(error) => {
                    warnings.push(format!("the profile lacks the program {:?}: {}", program.name, error.message()));
                }
            }
        }
        stats.write(&mut plane, field::PLANE_STAT_METADATA);
        Self { plane, len, warnings }
    }
}

impl Recording {
    /// Returns the serialized `XSpace` of a plugin.
    pub(crate) fn encode(&self, plugin: &str) -> Vec<u8> {
        let mut host = Plane::default();
        let mut devices: BTreeMap<usize, Plane<'_>> = BTreeMap::new();
        for (thread, activities) in &self.threads {
            for activity in activities {
                if activity.plugin.is_some_and(|of| of != plugin) {
                    continue;
                }
                let (plane, line) = match &activity.place {
                    Place::Thread => (&mut host, (thread.id, thread.name.clone())),
                    Place::Device { device, line } => {
                        (devices.entry(*device).or_default(), (0, line.clone().into_owned()))
                    }
                };
                plane.lines.entry(line).or_default().push(activity);
            }
        }
        let mut space = Vec::new();
        let mut planes = 0;
        for (device, plane) in devices {
            planes += 1;
            let plane = plane.write(planes, &format!("/device:CUSTOM:{plugin}:{device}"), self);
            message(&mut space, field::SPACE_PLANES, &plane);
        }
        if !host.lines.is_empty() {
            planes += 1;
            let plane = host.write(planes, &format!("/device:CUSTOM:{plugin}:host"), self);
            message(&mut space, field::SPACE_PLANES, &plane);
        }
        let programs = Programs::encode(planes + 1, self.programs.iter().filter(|program| program.plugin == plugin));
        if programs.len > 0 {
            message(&mut space, field::SPACE_PLANES, &programs.plane);
        }
        for warning in programs.warnings {
            message(&mut space, field::SPACE_WARNINGS, format!("{plugin}: {warning}").as_bytes());
        }
        if self.dropped > 0 {
            let warning = format!("{plugin}: the profile was full; {} activities are missing", self.dropped);
            message(&mut space, field::SPACE_WARNINGS, warning.as_bytes());
        }
        space
    }
}
