//! Decodes profiles independently of the encoder under test.

use std::collections::HashMap;

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub struct Space {
    #[prost(message, repeated, tag = "1")]
    pub planes: Vec<Plane>,
    #[prost(string, repeated, tag = "3")]
    pub warnings: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Plane {
    #[prost(int64, tag = "1")]
    pub id: i64,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, repeated, tag = "3")]
    pub lines: Vec<Line>,
    #[prost(map = "int64, message", tag = "4")]
    pub events: HashMap<i64, Metadata>,
    #[prost(map = "int64, message", tag = "5")]
    pub stats: HashMap<i64, Metadata>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Metadata {
    #[prost(int64, tag = "1")]
    pub id: i64,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, repeated, tag = "5")]
    pub stats: Vec<Stat>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Line {
    #[prost(int64, tag = "1")]
    pub id: i64,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(int64, tag = "3")]
    pub timestamp_ns: i64,
    #[prost(message, repeated, tag = "4")]
    pub events: Vec<Event>,
    #[prost(int64, tag = "9")]
    pub duration_ps: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Event {
    #[prost(int64, tag = "1")]
    pub metadata_id: i64,
    #[prost(int64, tag = "2")]
    pub offset_ps: i64,
    #[prost(int64, tag = "3")]
    pub duration_ps: i64,
    #[prost(message, repeated, tag = "4")]
    pub stats: Vec<Stat>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Stat {
    #[prost(int64, tag = "1")]
    pub metadata_id: i64,
    #[prost(int64, optional, tag = "4")]
    pub int: Option<i64>,
    #[prost(string, optional, tag = "5")]
    pub text: Option<String>,
    #[prost(bytes, optional, tag = "6")]
    pub bytes: Option<Vec<u8>>,
}

impl Space {
    /// Returns the programs of the profile by name, each as a serialized `HloProto`.
    #[allow(dead_code, reason = "one of the test programs that share this file does not read programs")]
    pub fn programs(&self) -> HashMap<String, Vec<u8>> {
        let Some(plane) = self.plane("/host:metadata") else { return HashMap::new() };
        let program = |metadata: &Metadata| {
            let [stat] = &*metadata.stats else { panic!("{metadata:?}") };
            assert_eq!(plane.stats[&stat.metadata_id].name, "hlo_proto");
            (metadata.name.clone(), stat.bytes.clone().expect("bytes"))
        };
        plane.events.values().map(program).collect()
    }

    pub fn plane(&self, name: &str) -> Option<&Plane> {
        self.planes.iter().find(|plane| plane.name == name)
    }
}

impl Plane {
    /// Returns the stats of the first event with the name `event`, or `None` if no event has this name. Searches only
    /// lines with the name `line`, or all lines if `line` is `None`.
    pub fn stats(&self, line: Option<&str>, event: &str) -> Option<HashMap<String, String>> {
        let (_, found) = self.find(line, event)?;
        let stat = |stat: &Stat| {
            let value = stat.int.map(|int| int.to_string()).or(stat.text.clone()).unwrap_or_default();
            (self.stats[&stat.metadata_id].name.clone(), value)
        };
        Some(found.stats.iter().map(stat).collect())
    }

    pub fn find(&self, line: Option<&str>, event: &str) -> Option<(&Line, &Event)> {
        let lines = self.lines.iter().filter(|known| line.is_none_or(|line| known.name == line));
        lines.flat_map(|line| line.events.iter().map(move |event| (line, event))).find(|(_, found)| {
            let metadata = &self.events[&found.metadata_id];
            assert_eq!(metadata.id, found.metadata_id);
            metadata.name == event
        })
    }
}
