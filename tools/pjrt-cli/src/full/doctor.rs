//! `pjrt doctor`: checks plugins and reports faults.

use std::time::Duration;

use device_plugin::DevicePlugin;
use device_plugin::variants::Fit;
use plugin_registry::discovery::Refusal;
use plugin_registry::{HardwarePresence, Location, PluginEntry, PluginRegistry, Status};
use serde_json::{Value, json};

use crate::Report;
use crate::full::child::{plan, probe};
use crate::full::probe::Task;
use crate::full::progress::Progress;
use crate::full::time_limit::TimeLimit;
use crate::library;
use crate::list;
use crate::paint::{Meaning, paint};
use crate::table::Table;

#[derive(clap::Args)]
#[command(after_help = "The exit code is 1 if a plugin has a fault.

Examples:
  pjrt doctor
  pjrt doctor -p cuda --timeout 1m --json")]
pub(crate) struct Args {
    /// Check this plugin only, by name or by the path of its library. Its client is created even if its hardware was
    /// not found.
    #[arg(long, short, value_name = "NAME|PATH")]
    plugin: Option<String>,
    #[command(flatten)]
    limit: TimeLimit,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The verdict of a check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Ok,
    /// An observation that is not a fault.
    Note,
    Fault,
}

/// One line of the report.
struct Check {
    what: &'static str,
    verdict: Verdict,
    found: String,
}

/// A plugin and the lines of its report.
struct Examined {
    entry: PluginEntry,
    checks: Vec<Check>,
}

pub(crate) fn run(args: &Args) -> Result<Report, String> {
    let (entries, named) = match &args.plugin {
        Some(plugin) => (vec![library::find(plugin)?], true),
        None => {
            let (usable, refused) = list::ordered(PluginRegistry::global());
            (usable.into_iter().chain(refused).collect(), false)
        }
    };
    let progress = Progress::of(entries.len());
    let check = |entry: PluginEntry| {
        progress.step(format!("checking {}", list::shown(entry.name())));
        examine(entry, named, args.limit.timeout)
    };
    let plugins: Vec<Examined> = entries.into_iter().map(check).collect();
    drop(progress);
    let faulty = plugins.iter().filter(|plugin| plugin.fault().is_some()).count();
    let code = u8::from(faulty > 0);
    Ok(if args.json {
        Report::new(as_json(&plugins, faulty), code)
    } else {
        Report::painted(as_text(&plugins, faulty), code)
    })
}

fn examine(entry: PluginEntry, named: bool, timeout: Duration) -> Examined {
    let mut checks = Vec::new();
    let mut check = |what, verdict, found: String| checks.push(Check { what, verdict, found });
    let candidate = entry.candidate();
    check("found", Verdict::Ok, candidate.provenance.to_string());
    match &candidate.facts {
        Some(facts) => {
            let targets: Vec<String> = facts.targets.iter().map(ToString::to_string).collect();
            let megabytes = facts.size.div_ceil(1 << 20);
            let descriptor = if facts.exports.descriptor { ", DevicePlugin_GetDescriptor" } else { "" };
            let exports = if facts.exports.get_pjrt_api { "GetPjrtApi" } else { "no GetPjrtApi" };
            let found = format!("{}, {megabytes} MiB, exports {exports}{descriptor}", targets.join(", "));
            // If the library is for another system, a refusal below reports the fault, so this line is only a note.
            let foreign = candidate.refusals.iter().any(|refusal| matches!(refusal, Refusal::WrongTarget { .. }));
            check("library", if foreign { Verdict::Note } else { Verdict::Ok }, found);
        }
        None if matches!(candidate.location, Location::Linked(_)) => {
            check("library", Verdict::Ok, "linked into this program".to_owned())
        }
        None => {}
    }
    for offered in list::variants(&entry) {
        let verdict =
            if offered.chosen.is_some() && offered.variant.fit() == Fit::Fits { Verdict::Ok } else { Verdict::Note };
        check("variant", verdict, offered.text());
    }
    for refusal in &candidate.refusals {
        // It is not a fault if the user disabled a plugin.
        let wanted = matches!(refusal, Refusal::Disabled { .. });
        check(refusal.kind(), if wanted { Verdict::Note } else { Verdict::Fault }, refusal.to_string());
    }
    for note in &candidate.notes {
        check("note", Verdict::Note, note.clone());
    }
    if let Status::Disabled(why) = entry.status() {
        check("disabled", Verdict::Note, why);
    }
    if matches!(entry.status(), Status::Available | Status::Loaded(_)) {
        let hardware = entry.hardware();
        let absent = hardware.presence == HardwarePresence::Absent;
        check("hardware", if absent { Verdict::Note } else { Verdict::Ok }, hardware.to_string());
        if let Some(holder) = entry.registry().locks().holder(entry.name()) {
            check("lock", Verdict::Note, format!("held by {holder}"));
        }
        // Without a server, the plugin `remote` has no devices, as others without their hardware.
        let has_server = entry.name() != <pjrt_remote::Remote as DevicePlugin>::NAME
            || std::env::var_os(pjrt_remote::SERVER).is_some();
        if !has_server {
            let found = format!("no server given; set {} to the address that `pjrt serve` prints", pjrt_remote::SERVER);
            check("server", Verdict::Note, found);
        }
        let client = (named || !absent) && has_server;
        match plan(&entry) {
            Ok(plan) => {
                for (variable, value) in plan.for_child() {
                    let found =
                        format!("set {variable}={value}: it is missing from this shell (the checks below ran with it)");
                    check("variable", Verdict::Note, found);
                }
                let skipped = match has_server {
                    true => "skipped, because no hardware was found; use --plugin to try it",
                    false => "skipped, because there is no server",
                };
                try_out(&entry, client, skipped, timeout, &mut check);
            }
            Err(error) => check("set-up", Verdict::Fault, error),
        }
    }
    Examined { entry, checks }
}

/// Loads the plugin in another process. If `client` is `true`, also creates a client there, and otherwise reports
/// `skipped`. Passes the name, the verdict and the description of each step to `check`.
fn try_out(
    entry: &PluginEntry,
    client: bool,
    skipped: &str,
    timeout: Duration,
    check: &mut impl FnMut(&'static str, Verdict, String),
) {
    let task = if client { Task::Client } else { Task::Load };
    let probe = match probe(entry, &task, timeout) {
        Ok(probe) => probe,
        Err(error) => return check("probe", Verdict::Fault, error),
    };
    for (step, what) in [("load", "load"), ("client", "client"), ("close", "close"), ("shutdown", "shutdown")] {
        let Some(outcome) = probe.step(step) else {
            if probe.failed_step() == Some(step) {
                check(what, Verdict::Fault, probe.failure().unwrap_or_default());
                return;
            }
            continue;
        };
        if let Some(error) = outcome["error"].as_str() {
            // An error is not a fault of the plugin if another process uses the device.
            let verdict = if outcome["held"] == true { Verdict::Note } else { Verdict::Fault };
            return check(what, verdict, error.to_owned());
        }
        let ms = outcome["ms"].as_f64().unwrap_or(0.0);
        match step {
            "load" => {
                let missing = outcome["missing_functions"].as_array().map_or(0, Vec::len);
                let (version, functions) = (text(&outcome["api_version"]), &outcome["functions"]);
                let without = if missing == 0 { String::new() } else { format!(" ({missing} newer ones missing)") };
                check(what, Verdict::Ok, format!("API {version}, {functions} functions{without}, {ms:.0} ms"));
            }
            "client" => {
                let devices = outcome["devices"].as_array().map(Vec::as_slice).unwrap_or_default();
                let kinds = match devices {
                    [] => "no devices".to_owned(),
                    [one] => format!("1 device, {}", text(one)),
                    [first, ..] => format!("{} devices, the first {}", devices.len(), text(first)),
                };
                let platform = text(&outcome["platform_name"]);
                let verdict = if devices.is_empty() { Verdict::Note } else { Verdict::Ok };
                check(what, verdict, format!("platform {platform}, {kinds}, {ms:.0} ms"));
            }
            _ => {}
        }
    }
    if let Some(failure) = probe.failure() {
        let what = if probe.failed_step() == Some("exit") { "exit" } else { "start" };
        check(what, Verdict::Fault, failure);
    } else if !client {
        check("client", Verdict::Note, skipped.to_owned());
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

impl Examined {
    /// Returns the first fault.
    fn fault(&self) -> Option<&Check> {
        self.checks.iter().find(|check| check.verdict == Verdict::Fault)
    }

    fn title(&self) -> String {
        let library = self.entry.candidate().location.path();
        let title = match library {
            Some(path) => format!("{} {}", self.entry.name(), path.display()),
            None => self.entry.name().to_owned(),
        };
        list::shown(&title)
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ok => "ok",
        Verdict::Note => "note",
        Verdict::Fault => "FAULT",
    }
}

fn as_text(examined: &[Examined], faulty: usize) -> String {
    let mut out = String::new();
    for plugin in examined {
        line!(out, "{}", paint(Meaning::Heading, &plugin.title()));
        let mut table = Table::plain();
        for Check { what, verdict, found } in &plugin.checks {
            // Join the lines of a message, because each check is one line of the report.
            let found = found.split('\n').map(str::trim).collect::<Vec<_>>().join("; ");
            table.row([(*what).to_owned(), word(*verdict).to_owned(), found]);
        }
        let meaning = |column, cell: &str| match (column, cell) {
            (1, "ok") => Some(Meaning::Good),
            (1, "note") => Some(Meaning::Notable),
            (1, _) => Some(Meaning::Bad),
            _ => None,
        };
        line!(out, "{}", table.painted("  ", meaning));
    }
    let count = if examined.len() == 1 { "1 plugin".to_owned() } else { format!("{} plugins", examined.len()) };
    line!(out, "{count}, {} without fault, {faulty} with", examined.len() - faulty);
    for plugin in examined {
        if let Some(Check { what, .. }) = plugin.fault() {
            line!(out, "  {}: {what}", plugin.title());
        }
    }
    out
}

fn as_json(examined: &[Examined], faulty: usize) -> String {
    let plugins: Vec<Value> = examined
        .iter()
        .map(|examined| {
            let mut plugin = list::as_json(&examined.entry);
            let checks = examined.checks.iter().map(|Check { what, verdict, found }| {
                json!({ "check": what, "verdict": word(*verdict).to_lowercase(), "found": found })
            });
            plugin["checks"] = checks.collect();
            plugin["healthy"] = json!(examined.fault().is_none());
            plugin
        })
        .collect();
    format!("{:#}\n", json!({ "plugins": plugins, "faulty": faulty }))
}
