//! `pjrt uninstall`: removes a plugin that `pjrt install` installed.

use std::path::PathBuf;

use plugin_registry::install::{InstallError, Installer, Settings};

use crate::full::install::show;
use crate::full::progress::Progress;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  pjrt uninstall xla-cpu")]
pub(crate) struct Args {
    /// Name of the plugin or of its package.
    name: String,
    /// The folder into which the plugin was installed.
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<String, String> {
    uninstall(args).map_err(|error| error.to_string())
}

fn uninstall(args: &Args) -> Result<String, InstallError> {
    let mut settings = Settings::from_environment()?;
    if let Some(folder) = &args.from {
        settings = settings.folder(folder);
    }
    let installer = Installer::new(settings);
    let line = Progress::one(format!("removing {}", args.name));
    let record = installer.uninstall(&args.name, &mut |event| show(&line, event))?;
    drop(line);
    Ok(format!("removed {}: {} {}\n", record.name, record.package, record.version))
}
