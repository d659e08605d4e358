//! The timeline as lines of JSON, with one line for each call and each event that became ready.

use serde_json::{Map, Value, json};

use super::flows::Step;
use super::log::{Log, READY};
use super::recording::Recording;
use crate::core::Scale;
use crate::function::{Field, Kind};

/// Returns the JSON object for a call or for an event that became ready.
pub(super) fn line(trace: &Recording, scale: &Scale, log: &Log, step: &Step) -> Value {
    let record = &step.record;
    let mut line = Map::new();
    line.insert("process".into(), std::process::id().into());
    line.insert("thread".into(), log.thread.into());
    line.insert("start_ns".into(), scale.unix_nanos(record.start).into());
    if record.id == READY {
        line.insert("ready".into(), handle(record.args[0]));
    } else if let Some(function) = step.function() {
        line.insert("function".into(), function.name.into());
        line.insert("duration_ns".into(), scale.nanos(record.duration).into());
        let fields = &trace.fields[usize::from(record.id)];
        let args = fields.iter().zip(record.args).map(|(field, word)| (field.name.to_owned(), value(field, word)));
        line.insert("args".into(), Value::Object(args.collect()));
    }
    line.insert("failed".into(), record.failed.into());
    let errors = trace.errors.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(error) = errors.get(&(record.start, log.thread)) {
        let code = error.code.to_string();
        line.insert("error".into(), json!({ "code": code, "message": error.message }));
    }
    if step.flow != 0 {
        line.insert("run".into(), step.flow.into());
    }
    Value::Object(line)
}

fn handle(word: u64) -> Value {
    format!("{word:#x}").into()
}

fn value(field: &Field, word: u64) -> Value {
    match field.kind {
        Kind::Handle(_) => handle(word),
        Kind::Bool => (word != 0).into(),
        Kind::Integer if field.size == 8 => word.cast_signed().into(),
        // A 32-bit integer is in the lower half of the word.
        Kind::Integer => i32::from_ne_bytes(u32::try_from(word).unwrap_or(0).to_ne_bytes()).into(),
        _ => word.into(),
    }
}
