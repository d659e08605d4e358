//! Draws the pictures in the book: SVG files of a conformance report and of a recorded trace.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use crate::Error;

/// The outcomes of the suite, each with its color. They are in the order of the segments of a bar.
const OUTCOMES: [(&str, &str); 6] = [
    ("pass", "#3a9a54"),
    ("fail", "#c9343a"),
    ("crash", "#7d1d22"),
    ("timeout", "#d9822b"),
    ("unsupported", "#9aa5b1"),
    ("skipped", "#d5dae0"),
];
/// Colors of functions in a timeline.
const COLOURS: [&str; 8] = ["#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d", "#eeca3b"];
/// Width of the pictures, in SVG units.
const WIDTH: f64 = 900.0;
const ROW: f64 = 22.0;
/// The x coordinate at which bars begin, to the right of their labels.
const LEFT: f64 = 190.0;
/// Number of runs in a timeline.
const RUNS: usize = 16;

/// An SVG file, to which the methods add elements.
struct Picture(String);

impl Picture {
    fn text(&mut self, x: f64, y: f64, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        // Ignore the error, because writing to a string cannot fail.
        let _ = writeln!(self.0, r#"<text x="{x:.1}" y="{y:.1}">{text}</text>"#);
    }

    fn bar(&mut self, x: f64, y: f64, width: f64, colour: &str, title: &str) {
        let height = ROW - 6.0;
        let title = title.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(
            self.0,
            r#"<rect x="{x:.2}" y="{y:.1}" width="{width:.2}" height="{height}" fill="{colour}"><title>{title}</title></rect>"#
        );
    }

    /// Returns the text of the SVG file with this height.
    fn finish(self, height: f64) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" font-family=\"sans-serif\" \
             font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{}</svg>\n",
            self.0
        )
    }

    /// Adds a legend: a row of colored squares with their names.
    fn legend(&mut self, y: f64, entries: &[(&str, &str)]) {
        let mut x = 12.0;
        for (name, colour) in entries {
            self.bar(x, y - 12.0, 16.0, colour, name);
            self.text(x + 20.0, y, name);
            x += 34.0 + 6.6 * number(name.len());
        }
    }
}

/// Draws the outcomes of each area in a JSON report. The title names the plugin and the machine.
pub(crate) fn conformance(report: &Value) -> Result<String, Error> {
    let results = report["results"].as_array().ok_or("the report has no results")?;
    let mut areas: BTreeMap<&str, [usize; OUTCOMES.len()]> = BTreeMap::new();
    for result in results {
        let id = result["id"].as_str().unwrap_or_default();
        let outcome = result["outcome"].as_str().unwrap_or_default();
        let at = OUTCOMES.iter().position(|(name, _)| *name == outcome).ok_or_else(|| format!("{id}: {outcome}"))?;
        areas.entry(id.split('.').next().unwrap_or_default()).or_default()[at] += 1;
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut picture = Picture(String::new());
    let (plugin, machine) = (&report["plugin"], &report["machine"]);
    let title = format!(
        "{}, API {}, on {} {}: {} cases",
        text(&plugin["platform_version"]),
        text(&plugin["api_version"]),
        text(&machine["os"]),
        text(&machine["arch"]),
        results.len()
    );
    picture.text(12.0, 22.0, &title);
    let total = |at: usize| areas.values().map(|counts| counts[at]).sum::<usize>();
    let names: Vec<String> =
        OUTCOMES.iter().enumerate().map(|(at, (name, _))| format!("{name} {}", total(at))).collect();
    let entries: Vec<(&str, &str)> = names.iter().map(String::as_str).zip(OUTCOMES.map(|(_, colour)| colour)).collect();
    picture.legend(46.0, &entries);
    let largest = areas.values().map(|counts| counts.iter().sum::<usize>()).max().unwrap_or(1);
    let scale = (WIDTH - LEFT - 60.0) / number(largest);
    let mut y = 64.0;
    for (area, counts) in &areas {
        picture.text(12.0, y + 12.0, area);
        let mut x = LEFT;
        for ((name, colour), count) in OUTCOMES.iter().zip(counts).filter(|(_, count)| **count > 0) {
            let width = number(*count) * scale;
            picture.bar(x, y, width, colour, &format!("{area}: {count} {name}"));
            x += width;
        }
        picture.text(x + 6.0, y + 12.0, &counts.iter().sum::<usize>().to_string());
        y += ROW;
    }
    Ok(picture.finish(y + 8.0))
}

/// A function call in a trace.
struct Call<'a> {
    function: &'a str,
    thread: u64,
    start: u64,
    duration: u64,
}

/// Draws the calls on each thread during the [`RUNS`] executions in the middle of a trace. `lines` is the trace as JSON
/// lines.
pub(crate) fn timeline(lines: &str) -> Result<String, Error> {
    let values: Vec<Value> = lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let mut calls: Vec<Call<'_>> = values.iter().filter_map(call).collect();
    calls.sort_by_key(|call| call.start);
    let runs: Vec<&Call<'_>> = calls.iter().filter(|call| call.function == "PJRT_LoadedExecutable_Execute").collect();
    let middle = runs.iter().skip(runs.len().saturating_sub(RUNS) / 2).take(RUNS);
    let from = middle.clone().map(|run| run.start).min().ok_or("the trace has no runs")?;
    let to = middle.map(|run| run.start + run.duration).max().ok_or("the trace has no runs")?;
    // Also show the calls that directly follow the executions.
    let to = to + (to - from) / 10;
    calls.retain(|call| call.start + call.duration >= from && call.start < to);

    let mut times: BTreeMap<&str, u64> = BTreeMap::new();
    let mut threads: Vec<u64> = Vec::new();
    for call in &calls {
        *times.entry(call.function).or_default() += call.duration;
        if !threads.contains(&call.thread) {
            threads.push(call.thread);
        }
    }
    let mut functions: Vec<(&str, u64)> = times.into_iter().collect();
    functions.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    let colours: Vec<(&str, &str)> = functions.iter().map(|(name, _)| *name).zip(COLOURS).collect();
    let scale = (WIDTH - LEFT - 20.0) / nanoseconds(to - from);

    let mut picture = Picture(String::new());
    picture.text(
        12.0,
        22.0,
        &format!("{:.1} us of a program, one row for each thread", nanoseconds(to - from) / 1000.0),
    );
    for (row, entries) in colours.chunks(3).enumerate() {
        picture.legend(46.0 + ROW * number(row), entries);
    }
    let top = 46.0 + ROW * number(colours.len().div_ceil(3));
    for call in &calls {
        let row = threads.iter().position(|thread| *thread == call.thread).unwrap_or(0);
        let colour = colours.iter().find(|(name, _)| *name == call.function).map_or("#555555", |(_, colour)| colour);
        let begin = call.start.max(from);
        let end = (call.start + call.duration).min(to);
        let x = LEFT + nanoseconds(begin - from) * scale;
        let title = format!("{}: {:.1} us", call.function, nanoseconds(call.duration) / 1000.0);
        picture.bar(x, top + ROW * number(row), (nanoseconds(end - begin) * scale).max(0.5), colour, &title);
    }
    for (row, thread) in threads.iter().enumerate() {
        picture.text(12.0, top + ROW * number(row) + 12.0, &format!("thread {thread}"));
    }
    Ok(picture.finish(top + ROW * number(threads.len()) + 8.0))
}

fn call(value: &Value) -> Option<Call<'_>> {
    Some(Call {
        function: value["function"].as_str()?,
        thread: value["thread"].as_u64()?,
        start: value["start_ns"].as_u64()?,
        duration: value["duration_ns"].as_u64()?,
    })
}

/// Converts a count to `f64`.
#[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
fn number(count: usize) -> f64 {
    count as f64
}

/// Converts a time in nanoseconds to `f64`.
#[expect(clippy::cast_precision_loss, reason = "the times are far below 2^52 ns")]
fn nanoseconds(time: u64) -> f64 {
    time as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_has_a_bar_for_each_outcome() {
        let result = |id: &str, outcome: &str| serde_json::json!({ "id": id, "outcome": outcome });
        let results = [result("events.a", "pass"), result("events.b", "fail"), result("memory.a", "pass")];
        let svg = conformance(&serde_json::json!({ "results": results })).unwrap();
        assert!(svg.contains("events: 1 fail") && svg.contains("memory: 1 pass") && svg.contains(">pass 2<"), "{svg}");
        assert!(conformance(&serde_json::json!({ "results": [result("events.a", "?")] })).is_err());
    }

    #[test]
    fn timeline_has_the_runs_in_the_middle() {
        let line = |function: &str, thread: u64, start: u64| {
            serde_json::json!({ "function": function, "thread": thread, "start_ns": start, "duration_ns": 1000 })
                .to_string()
        };
        let mut lines: Vec<String> =
            (0..20).map(|at| line("PJRT_LoadedExecutable_Execute", at % 2, 10_000 * at)).collect();
        lines.push(line("PJRT_Event_Await", 7, 100_500));
        let svg = timeline(&lines.join("\n")).unwrap();
        assert_eq!(svg.matches("PJRT_LoadedExecutable_Execute: 1.0 us").count(), RUNS + 1);
        assert!(svg.contains("thread 7"), "{svg}");
        assert!(timeline(&line("PJRT_Event_Await", 0, 0)).is_err());
    }
}
