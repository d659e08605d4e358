//! `pjrt install`: installs a plugin from a Python package index, without Python.

use std::path::PathBuf;

use plugin_registry::discovery::MissingDependency;
use plugin_registry::install::{Event, InstallPlan, InstallRequest, Installed, Installer, Settings, known_plugins};
use serde_json::{Value, json};

use crate::Report;
use crate::full::progress::Progress;
use crate::table::Table;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  pjrt install xla-cpu                                      XLA's CPU plugin
  pjrt install cuda13 --dry-run                             what would be downloaded
  pjrt install libtpu==0.0.52 --to plugins                  a package and its version, into a folder
  pjrt install acme-pjrt --extra-index https://acme.example/simple

The variables PIP_INDEX_URL, UV_DEFAULT_INDEX, PIP_EXTRA_INDEX_URL and UV_INDEX name indexes, HTTPS_PROXY and NO_PROXY
the proxy, SSL_CERT_FILE certificates, and PJRT_REGISTRY_INSTALL_DIR the folder of plugins.")]
pub(crate) struct Args {
    /// A known plugin (see --known) or a package, optionally with versions, such as `libtpu==0.0.52`.
    #[arg(required_unless_present = "known")]
    name: Option<String>,
    /// Print the plugins that have a short name.
    #[arg(long, exclusive = true)]
    known: bool,
    /// Also install this package, which has libraries that the plugin needs.
    #[arg(long, value_name = "PACKAGE")]
    with: Vec<String>,
    /// Install only the plugin's own package, because the system has the libraries that it needs.
    #[arg(long, conflicts_with = "with")]
    no_libraries: bool,
    /// Install into this folder. For the registry to find the plugin, set PJRT_REGISTRY_INSTALL_DIR to the folder.
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Use this index instead of all others.
    #[arg(long, value_name = "URL")]
    index: Option<String>,
    /// Search this index before the others.
    #[arg(long, value_name = "URL")]
    extra_index: Vec<String>,
    /// Keep downloads in this folder.
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Delete the downloads at the end.
    #[arg(long)]
    no_cache: bool,
    /// Print what would be installed, and install nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Report, String> {
    let Some(name) = &args.name else { return Ok(Report::from(known())) };
    install(args, name).map_err(|error| error.to_string())
}

fn install(args: &Args, name: &str) -> Result<Report, plugin_registry::install::InstallError> {
    let mut request: InstallRequest = name.parse()?;
    if args.no_libraries {
        request = request.without_libraries();
    }
    for package in &args.with {
        request = request.with(package)?;
    }
    let mut settings = Settings::from_environment()?;
    if let Some(index) = &args.index {
        settings = settings.index(index)?;
    }
    for index in &args.extra_index {
        settings = settings.extra_index(index)?;
    }
    if let Some(folder) = &args.to {
        settings = settings.folder(folder);
    }
    if let Some(cache) = &args.cache {
        settings = settings.cache(cache);
    }
    let installer = Installer::new(settings);
    let line = Progress::one(format!("looking for {}", request.name()));
    let plan = installer.plan(&request, &mut |event| show(&line, event))?;
    drop(line);
    if args.dry_run {
        let text = if args.json { format!("{:#}\n", plan_as_json(&plan)) } else { plan_as_text(&plan) };
        return Ok(Report::from(text));
    }
    let line = Progress::bytes(plan.size().unwrap_or(0), "downloading");
    let result = installer.install(&plan, &mut |event| show(&line, event));
    drop(line);
    if args.no_cache {
        installer.discard_downloads(&plan);
    }
    let installed = result?;
    let text = if args.json {
        format!("{:#}\n", as_json(&installed, &plan))
    } else {
        as_text(&installed, &plan, args.to.is_some())
    };
    Ok(Report::from(text))
}

/// Shows a step of an installation.
pub(crate) fn show(line: &Progress, event: Event<'_>) {
    match event {
        Event::Lookup { package } => line.say(format!("looking for {package}")),
        Event::Waiting { lock } => {
            // The wait may be long, so report it also without a terminal.
            anstream::eprintln!("waiting for another installation, which has locked {}", lock.display());
        }
        Event::Download { file, done } => {
            line.advance(done);
            line.say(format!("downloading {file}"));
        }
        Event::Received(bytes) => line.advance(bytes),
        Event::Discarded(bytes) => line.go_back(bytes),
        Event::Unpack { file } => line.say(format!("unpacking {file}")),
        _ => {}
    }
}

fn known() -> String {
    let mut table = Table::new(["NAME", "PACKAGE", "INDEX", "ALSO NEEDS"]);
    for known in known_plugins() {
        let index = known.index.unwrap_or("default");
        let note = if known.note.is_empty() { "-" } else { known.note };
        table.row([known.name, known.package, index, note].map(str::to_owned));
    }
    table.text("")
}

/// Formats a number of bytes.
fn size(bytes: Option<u64>) -> String {
    match bytes {
        None => "?".to_owned(),
        Some(bytes) if bytes < 1_000_000 => format!("{} kB", bytes.div_ceil(1000)),
        Some(bytes) => format!("{} MB", bytes.div_ceil(1_000_000)),
    }
}

fn plan_as_text(plan: &InstallPlan) -> String {
    let mut table = Table::new(["PACKAGE", "VERSION", "SIZE", "FILE"]);
    for package in plan.packages() {
        table.row([package.name().to_owned(), package.version(), size(package.size()), package.file().to_owned()]);
    }
    let mut out = table.text("");
    line!(out, "\n{} files, {}; nothing was installed", plan.packages().len(), size(plan.size()));
    left_out(&mut out, plan);
    note(&mut out, plan);
    out
}

/// Lists the requirements that were left out, except those for Python code.
fn left_out(out: &mut String, plan: &InstallPlan) {
    for left in plan.left_out().iter().filter(|left| !left.is_python_code) {
        line!(out, "left out {} (required by {}): {}", left.requirement, left.by, left.why);
    }
}

fn note(out: &mut String, plan: &InstallPlan) {
    if let Some(known) = plan.request().known().filter(|known| !known.note.is_empty()) {
        line!(out, "{} also needs {}", known.name, known.note);
    }
}

fn as_text(installed: &Installed, plan: &InstallPlan, elsewhere: bool) -> String {
    let record = &installed.record;
    let mut out = String::new();
    let done = if installed.unchanged { "already installed" } else { "installed" };
    let others = match record.packages.len() {
        0 | 1 => String::new(),
        2 => ", with 1 other package".to_owned(),
        count => format!(", with {} other packages", count - 1),
    };
    line!(out, "{done} {}: {} {}{others}", record.name, record.package, record.version);
    line!(out, "library  {}", installed.library().display());
    if installed.missing.is_empty() {
        let folder = installed.folder.parent().unwrap_or(&installed.folder);
        let variable = match elsewhere {
            true => format!("PJRT_REGISTRY_INSTALL_DIR={} ", folder.display()),
            false => String::new(),
        };
        line!(out, "use      {variable}pjrt devices --plugin {}", record.name);
    } else {
        line!(out, "missing  {}; the plugin cannot be used until they are installed", names(&installed.missing));
    }
    left_out(&mut out, plan);
    note(&mut out, plan);
    out
}

fn names(missing: &[MissingDependency]) -> String {
    missing.iter().map(|dependency| dependency.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn plan_as_json(plan: &InstallPlan) -> Value {
    let packages = plan.packages().iter().map(|package| {
        json!({
            "name": package.name(),
            "version": package.version(),
            "file": package.file(),
            "size": package.size(),
            "url": package.url(),
            "sha256": package.sha256(),
        })
    });
    let left_out = plan.left_out().iter().map(|left| {
        json!({
            "requirement": left.requirement,
            "by": left.by,
            "why": left.why,
            "is_python_code": left.is_python_code,
        })
    });
    json!({
        "name": plan.request().name(),
        "packages": packages.collect::<Vec<_>>(),
        "left_out": left_out.collect::<Vec<_>>(),
        "also_needs": plan.request().known().map(|known| known.note).filter(|note| !note.is_empty()),
    })
}

fn as_json(installed: &Installed, plan: &InstallPlan) -> Value {
    let mut json = plan_as_json(plan);
    json["folder"] = json!(installed.folder.to_string_lossy());
    json["library"] = json!(installed.library().to_string_lossy());
    json["aliases"] = json!(installed.record.aliases);
    json["missing"] = installed.missing.iter().map(|dependency| json!(dependency.name)).collect();
    json["unchanged"] = json!(installed.unchanged);
    json
}
