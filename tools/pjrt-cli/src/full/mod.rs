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
mod layers_library;
mod package;
mod probe;
mod progress;
mod record;
mod replay;
mod serve;
mod supports;
mod time_limit;
mod trace;
mod uninstall;
mod with;

pub(crate) use command::Command;
