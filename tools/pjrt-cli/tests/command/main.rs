//! Tests that run the command `pjrt`. They are one program, because linking each file takes seconds.

mod cli;
mod conform;
mod conform_foreign;
mod conform_transfers;
mod header;
mod hostile_names;
mod hostile_recordings;
mod install;
mod interrupt;
mod messages;
mod new;
mod package;
mod package_compat;
mod package_python;
mod package_variants;
mod plugins;
mod privileges;
mod recordings;
mod replay;
mod serve;
mod shell;
mod show;
mod supports;
mod wheel_support;
mod with;
