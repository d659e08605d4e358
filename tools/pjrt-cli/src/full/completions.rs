//! `pjrt completions` and `pjrt man`: shell completions and manual pages of the command.

use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::Shell;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  pjrt completions bash > ~/.local/share/bash-completion/completions/pjrt
  pjrt completions zsh > ~/.zfunc/_pjrt
  pjrt completions fish > ~/.config/fish/completions/pjrt.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> Result<String, String> {
    let mut out = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(args.shell, &mut command, name, &mut out);
    String::from_utf8(out).map_err(|error| error.to_string())
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  pjrt man -o ~/.local/share/man/man1
  pjrt man | man -l -")]
pub(crate) struct ManArgs {
    /// The folder to write pjrt.1 and a page for each subcommand to. Without it, pjrt.1 is printed.
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub(crate) fn man(args: &ManArgs, mut command: Command) -> Result<String, String> {
    command.build();
    let Some(folder) = &args.output else { return page(&command) };
    let fault = |error: std::io::Error| format!("--output {}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(fault)?;
    let mut out = String::new();
    write(folder, &command, &mut out)?;
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        let name = format!("{}-{}", command.get_name(), subcommand.get_name());
        write(folder, &subcommand.clone().name(name), &mut out)?;
    }
    Ok(out)
}

fn page(command: &Command) -> Result<String, String> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut text).map_err(|error| error.to_string())?;
    String::from_utf8(text).map_err(|error| error.to_string())
}

fn write(folder: &Path, command: &Command, out: &mut String) -> Result<(), String> {
    let path = folder.join(format!("{}.1", command.get_name()));
    std::fs::write(&path, page(command)?).map_err(|error| format!("{}: {error}", path.display()))?;
    line!(out, "wrote {}", path.display());
    Ok(())
}
