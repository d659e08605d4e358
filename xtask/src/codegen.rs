//! Generates `crates/pjrt-sys/src/bindings.rs` and `slots.rs` from the PJRT headers.

mod bindings;
mod headers;
mod ledger;
mod slots;

use std::fs;
use std::path::Path;

pub(crate) use headers::headers;

use crate::{Error, sh};

/// Regenerates the files, or compares them with the committed ones.
pub(crate) fn run(check: bool) -> Result<(), Error> {
    let headers = headers()?;
    let generated = bindings::generate(&headers)?;
    let changelog = fs::read_to_string(headers.join("CHANGELOG.md"))?;
    let slots = slots::generate(&generated, &changelog)?;
    let src = sh::root().join("crates/pjrt-sys/src");
    let mut stale = Vec::new();
    for (name, text) in [("bindings.rs", &generated.text), ("slots.rs", &slots)] {
        let path = src.join(name);
        if check {
            if fs::read_to_string(&path).unwrap_or_default() != *text {
                stale.push(show(&path));
            }
        } else {
            fs::write(&path, text)?;
            println!("wrote {}", show(&path));
        }
    }
    match stale.as_slice() {
        [] if check => println!("generated files are up to date"),
        [] => {}
        _ => return Err(format!("{} differ from what `cargo xtask codegen` writes", stale.join(" and ")).into()),
    }
    Ok(())
}

fn show(path: &Path) -> String {
    path.strip_prefix(sh::root()).unwrap_or(path).display().to_string()
}
