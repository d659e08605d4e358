//! The timeline in Perfetto's format, which ui.perfetto.dev opens.
//!
//! The structs declare the messages and fields of Perfetto's `trace_packet.proto` that a timeline of slices and flows
//! needs.

use prost::Message;

use super::flows::Step;
use super::log::{Log, READY};
use super::recording::Recording;
use crate::core::Scale;
use crate::function::Kind;

/// `perfetto.protos.Trace`. The concatenation of encoded traces is a valid trace.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Timeline {
    #[prost(message, repeated, tag = "1")]
    pub(super) packets: Vec<Packet>,
}

/// `perfetto.protos.TracePacket`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Packet {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    trusted_packet_sequence_id: u32,
    #[prost(message, optional, tag = "11")]
    pub(super) event: Option<Event>,
    #[prost(message, optional, tag = "60")]
    pub(super) track: Option<Track>,
}

/// `perfetto.protos.TrackDescriptor`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Track {
    #[prost(uint64, tag = "1")]
    uuid: u64,
    #[prost(message, optional, tag = "3")]
    process: Option<Process>,
    #[prost(message, optional, tag = "4")]
    thread: Option<Thread>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
}

/// `perfetto.protos.ProcessDescriptor`.
#[derive(Clone, PartialEq, Message)]
struct Process {
    #[prost(int32, tag = "1")]
    pid: i32,
    #[prost(string, tag = "6")]
    process_name: String,
}

/// `perfetto.protos.ThreadDescriptor`.
#[derive(Clone, PartialEq, Message)]
struct Thread {
    #[prost(int32, tag = "1")]
    pid: i32,
    #[prost(int32, tag = "2")]
    tid: i32,
    #[prost(string, optional, tag = "5")]
    thread_name: Option<String>,
}

/// `perfetto.protos.TrackEvent`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Event {
    #[prost(message, repeated, tag = "4")]
    annotations: Vec<Annotation>,
    #[prost(int32, tag = "9")]
    pub(super) kind: i32,
    #[prost(uint64, tag = "11")]
    track_uuid: u64,
    #[prost(string, optional, tag = "23")]
    pub(super) name: Option<String>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub(super) flow_ids: Vec<u64>,
}

/// `perfetto.protos.DebugAnnotation`.
#[derive(Clone, PartialEq, Message)]
struct Annotation {
    #[prost(oneof = "AnnotationValue", tags = "2, 3, 4, 6, 7")]
    value: Option<AnnotationValue>,
    #[prost(string, tag = "10")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum AnnotationValue {
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(uint64, tag = "3")]
    Uint(u64),
    #[prost(int64, tag = "4")]
    Int(i64),
    #[prost(string, tag = "6")]
    Text(String),
    #[prost(uint64, tag = "7")]
    Pointer(u64),
}

/// Values of `TrackEvent.Type`: `BEGIN` and `END` of a slice, and `INSTANT` for an event without a duration.
const BEGIN: i32 = 1;
const END: i32 = 2;
const INSTANT: i32 = 3;

/// Encodes the timeline of this process.
pub(super) fn encode(trace: &Recording, scale: &Scale, logs: &[std::sync::Arc<Log>], steps: &[Step]) -> Vec<u8> {
    timeline(trace, scale, logs, steps).encode_to_vec()
}

fn timeline(trace: &Recording, scale: &Scale, logs: &[std::sync::Arc<Log>], steps: &[Step]) -> Timeline {
    let process = std::process::id();
    let pid = i32::try_from(process).unwrap_or(0);
    let writer = Writer { process };
    let process_name = std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default();
    let mut packets = vec![writer.track(Track {
        uuid: writer.uuid(0),
        process: Some(Process { pid, process_name }),
        thread: None,
        parent_uuid: None,
    })];
    for (at, log) in logs.iter().enumerate() {
        let tid = i32::try_from(log.thread).unwrap_or(0);
        let thread_name = (!log.name.is_empty()).then(|| log.name.clone());
        packets.push(writer.track(Track {
            uuid: writer.uuid(at + 1),
            process: None,
            thread: Some(Thread { pid, tid, thread_name }),
            parent_uuid: Some(writer.uuid(0)),
        }));
        // The calls of a thread are nested. Before a slice begins, end all open slices that do not contain it.
        let mut open: Vec<u64> = Vec::new();
        for step in steps.iter().filter(|step| step.log == at) {
            let start = step.record.start;
            while let Some(end) = open.pop_if(|end| *end <= start) {
                packets.push(writer.event(scale.unix_nanos(end), at + 1, END));
            }
            let is_ready = step.record.id == READY;
            let kind = if is_ready { INSTANT } else { BEGIN };
            let mut packet = writer.event(scale.unix_nanos(start), at + 1, kind);
            if let Some(event) = &mut packet.event {
                event.name = Some(step.function().map_or("event is ready", |function| function.name).to_owned());
                event.annotations = annotations(trace, log, step);
                event.flow_ids = (step.flow != 0).then(|| writer.uuid(0) ^ step.flow).into_iter().collect();
            }
            packets.push(packet);
            if !is_ready {
                open.push(start + step.record.duration);
            }
        }
        while let Some(end) = open.pop() {
            packets.push(writer.event(scale.unix_nanos(end), at + 1, END));
        }
    }
    Timeline { packets }
}

fn annotations(trace: &Recording, log: &Log, step: &Step) -> Vec<Annotation> {
    let record = &step.record;
    let mut all = Vec::new();
    if record.id == READY {
        all.push(Annotation { name: "event".into(), value: Some(AnnotationValue::Pointer(record.args[0])) });
    } else {
        for (field, word) in trace.fields[usize::from(record.id)].iter().zip(record.args) {
            let value = match field.kind {
                Kind::Handle(_) => AnnotationValue::Pointer(word),
                Kind::Bool => AnnotationValue::Bool(word != 0),
                Kind::Integer if field.size == 8 => AnnotationValue::Int(word.cast_signed()),
                _ => AnnotationValue::Uint(word),
            };
            all.push(Annotation { name: field.name.into(), value: Some(value) });
        }
    }
    if record.failed {
        let errors = trace.errors.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let text = errors.get(&(record.start, log.thread)).map_or("failed", |error| error.message.as_str()).to_owned();
        all.push(Annotation { name: "error".into(), value: Some(AnnotationValue::Text(text)) });
    }
    all
}

/// Creates packets for the tracks of this process. The track ids differ from those of other processes.
struct Writer {
    process: u32,
}

impl Writer {
    fn uuid(&self, track: usize) -> u64 {
        u64::from(self.process) << 32 | (track as u64) << 1 | 1
    }

    fn track(&self, track: Track) -> Packet {
        Packet { timestamp: None, trusted_packet_sequence_id: self.process, event: None, track: Some(track) }
    }

    fn event(&self, timestamp: u64, track: usize, kind: i32) -> Packet {
        let track_uuid = self.uuid(track);
        let event = Event { annotations: Vec::new(), kind, track_uuid, name: None, flow_ids: Vec::new() };
        Packet { timestamp: Some(timestamp), trusted_packet_sequence_id: self.process, event: Some(event), track: None }
    }
}
