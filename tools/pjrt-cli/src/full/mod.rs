//! The commands that need the feature `full`.

mod bench;
mod child;
mod command;
mod completions;
mod conform;
mod doctor;
mod env;
mod guarded;
mod header;
mod inspect;
mod install;
#[cfg(unix)]
mod isolated;
mod package;
mod private_folder;
mod probe;
mod progress;
mod record;
mod replay;
mod sdk_library;
mod serve;
mod supports;
mod time_limit;
mod trace;
mod uninstall;
mod with;

pub(crate) use command::Command;
