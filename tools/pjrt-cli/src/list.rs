//! `pjrt list`: lists the plugins found on this machine.

use std::path::Path;

use device_plugin::variants::{ChoiceReason, Fit, Variant};
use plugin_registry::{HardwarePresence, Location, PluginEntry, PluginRegistry, Policy, Status};
use serde_json::{Value, json};

use crate::Report;
use crate::escape::one_line;
use crate::paint::Meaning;
use crate::table::{Table, cut};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  pjrt list
  pjrt list --all        also what cannot be used, and where the search looked")]
pub(crate) struct Args {
    /// Also list the plugins that cannot be used, with the reasons, and the places that were searched.
    #[arg(long)]
    all: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Report, String> {
    let registry = PluginRegistry::global();
    let (usable, refused) = ordered(registry);
    if args.json {
        let plugins: Vec<Value> = usable.iter().chain(refused.iter().filter(|_| args.all)).map(as_json).collect();
        let hints = registry.hints().into_iter().map(|hint| json!({ "variable": hint.variable, "names": hint.names }));
        let mut out = json!({ "plugins": plugins, "refused": refused.len(), "hints": hints.collect::<Vec<_>>() });
        if args.all {
            let notes: Vec<String> =
                registry.notes().iter().map(|note| format!("{}: {}", note.about, note.message)).collect();
            out["notes"] = json!(notes);
            let searched = registry.searched().into_iter().map(|place| {
                json!({ "source": place.source.to_string(), "path": place.path.to_string_lossy(), "exists": place.exists })
            });
            out["searched"] = searched.collect();
        }
        return Ok(Report::new(format!("{out:#}\n"), 0));
    }
    Ok(Report::painted(as_text(registry, &usable, &refused, args.all), 0))
}

/// Returns the usable plugins by rank, and the plugins that cannot be used.
pub(crate) fn ordered(registry: &PluginRegistry) -> (Vec<PluginEntry>, Vec<PluginEntry>) {
    let mut usable = registry.ranked(&Policy::any()).unwrap_or_default();
    let mut refused = Vec::new();
    for entry in registry.entries() {
        if usable.iter().any(|known| known.id() == entry.id()) {
            continue;
        }
        match entry.status() {
            // `ranked` omits usable plugins whose hardware is absent. A framework uses such a plugin only if the user
            // names it, so list it last.
            Status::Available | Status::Loaded(_) => usable.push(entry),
            _ => refused.push(entry),
        }
    }
    (usable, refused)
}

/// Index of the status column in the table.
const STATUS: usize = 4;

fn as_text(registry: &PluginRegistry, usable: &[PluginEntry], refused: &[PluginEntry], all: bool) -> String {
    let mut table = Table::new(["NAME", "ALSO", "PRIORITY", "HARDWARE", "STATUS", "SOURCE", "LIBRARY"]);
    for entry in usable.iter().chain(refused.iter().filter(|_| all)) {
        let priority = entry.manifest().priority;
        table.row([
            entry.name().to_owned(),
            others(entry).join(","),
            if entry.manifest().experimental { format!("{priority} experimental") } else { priority.to_string() },
            entry.hardware().presence.to_string(),
            status(entry),
            source(entry),
            library(entry),
        ]);
    }
    let mut out = table.painted("", |column, cell| match (column, cell) {
        (STATUS, "ok") => Some(Meaning::Good),
        (STATUS, cell) if cell.starts_with("refused") => Some(Meaning::Bad),
        (STATUS, _) => Some(Meaning::Notable),
        _ => None,
    });
    if all {
        for entry in usable {
            let variants = variants(entry);
            if !variants.is_empty() {
                line!(out, "\n{}: libraries of the manifest", shown(entry.name()));
            }
            for variant in variants {
                line!(out, "  {}", shown(&variant.text()));
            }
        }
        for entry in refused {
            line!(out, "\n{}: {}", shown(entry.name()), shown(&entry.candidate().provenance.to_string()));
            for refusal in &entry.candidate().refusals {
                line!(out, "  {}", shown(&refusal.to_string()));
            }
        }
        let notes = registry.notes();
        if !notes.is_empty() {
            line!(out, "\nnotes");
        }
        for note in notes {
            line!(out, "  {}: {}", shown(&note.about), shown(&note.message));
        }
        line!(out, "\nsearched");
        for place in registry.searched() {
            let missing = if place.exists { "" } else { " (does not exist)" };
            line!(out, "  {}: {}{missing}", shown(&place.source.to_string()), shown(&place.path.to_string_lossy()));
        }
    } else if !refused.is_empty() {
        let more = if refused.len() == 1 { "1 more was".to_owned() } else { format!("{} more were", refused.len()) };
        line!(out, "\n{more} found and cannot be used; `pjrt list --all` shows the reasons");
    }
    for hint in registry.hints() {
        line!(out, "\n{} asks for {}", shown(&hint.variable.to_string()), shown(&hint.names.join(",")));
    }
    out
}

/// One of several libraries that a plugin's manifest lists.
pub(crate) struct Offered<'a> {
    pub(crate) variant: &'a Variant,
    /// The reason why the loader chooses this library, or `None` if it chooses another one or none.
    pub(crate) chosen: Option<ChoiceReason>,
}

impl Offered<'_> {
    /// Describes the library, with the reason why it is used or not used.
    pub(crate) fn text(&self) -> String {
        let (path, requires) = (self.variant.path.display(), &self.variant.requires);
        let unmet: Vec<String> = self.variant.unmet.iter().map(ToString::to_string).collect();
        let why = match (self.chosen, self.variant.fit()) {
            (Some(reason), Fit::Fits) => format!("chosen as {reason}; it needs {requires}"),
            (Some(reason), _) => format!("chosen as {reason}; it {}", unmet.join(", and ")),
            (None, Fit::Fits) => format!("fits, but is not preferred; it needs {requires}"),
            (None, _) => format!("not used: it {}", unmet.join(", and ")),
        };
        format!("{path} {why}")
    }
}

/// Returns the libraries that a plugin's manifest lists for this host, or an empty list if none of them has
/// requirements on the machine.
pub(crate) fn variants(entry: &PluginEntry) -> Vec<Offered<'_>> {
    let Some(choice) = &entry.candidate().choice else { return Vec::new() };
    let offered =
        |(index, variant)| Offered { variant, chosen: (choice.chosen == Some(index)).then_some(choice.reason) };
    choice.variants.iter().enumerate().map(offered).collect()
}

fn variants_as_json(entry: &PluginEntry) -> Value {
    let one = |Offered { variant, chosen }: Offered<'_>| {
        let unmet =
            variant.unmet.iter().map(|need| json!({ "needs": need.needs, "has": need.has, "remedy": need.remedy }));
        json!({
            "path": variant.path.to_string_lossy(),
            "requires": variant.requires,
            "fit": variant.fit().name(),
            "unmet": unmet.collect::<Vec<_>>(),
            "chosen": chosen.map(ChoiceReason::name),
        })
    };
    variants(entry).into_iter().map(one).collect()
}

/// Escapes the control characters of untrusted text and truncates it, so that it can be shown within a line.
pub(crate) fn shown(text: &str) -> String {
    const LONGEST: usize = 4096;
    cut(&one_line(text), LONGEST)
}

fn others(entry: &PluginEntry) -> Vec<String> {
    let mut others = entry.manifest().aliases.clone();
    let names = entry.candidate().names.iter().map(|name| name.name.clone());
    for name in names.chain(entry.manifest().platform_names.iter().map(|name| name.to_lowercase())) {
        if name != entry.name() && !others.contains(&name) {
            others.push(name);
        }
    }
    others
}

fn source(entry: &PluginEntry) -> String {
    match entry.candidate().location {
        Location::Linked(_) => "linked in".to_owned(),
        _ => entry.candidate().provenance.source.to_string(),
    }
}

fn library(entry: &PluginEntry) -> String {
    entry.candidate().location.path().map_or_else(|| "-".to_owned(), |path| path.display().to_string())
}

/// Returns a short description of a plugin's status.
pub(crate) fn status(entry: &PluginEntry) -> String {
    match entry.status() {
        Status::Refused => {
            let refusal = entry.candidate().refusals.first();
            format!("refused: {}", refusal.map_or("no reason", |refusal| refusal.kind()))
        }
        Status::Disabled(why) => format!("disabled: {why}"),
        _ if entry.hardware().presence == HardwarePresence::Absent => "no hardware".to_owned(),
        _ => match entry.registry().locks().holder(entry.name()).and_then(|holder| holder.process) {
            Some(process) => format!("held by process {process}"),
            None => "ok".to_owned(),
        },
    }
}

pub(crate) fn as_json(entry: &PluginEntry) -> Value {
    let candidate = entry.candidate();
    let manifest = entry.manifest();
    let hardware = entry.hardware();
    let provenances: Vec<String> = candidate.provenances().map(ToString::to_string).collect();
    let refusals: Vec<Value> = candidate
        .refusals
        .iter()
        .map(|refusal| json!({ "kind": refusal.kind(), "message": refusal.to_string() }))
        .collect();
    json!({
        "name": entry.name(),
        "aliases": others(entry),
        "library": candidate.location.path().map(Path::to_string_lossy),
        "source": source(entry),
        "provenance": provenances,
        "display_name": manifest.display_name,
        "vendor": manifest.vendor,
        "version": manifest.version,
        "priority": manifest.priority,
        "experimental": manifest.experimental,
        "ownership": manifest.ownership.name(),
        "hardware": { "presence": hardware.presence.to_string(), "evidence": hardware.evidence },
        "status": status(entry),
        "usable": matches!(entry.status(), Status::Available | Status::Loaded(_)),
        "refusals": refusals,
        "notes": candidate.notes,
        "variants": variants_as_json(entry),
    })
}
