//! Generates `bindings.rs` and `slots.rs` of `pjrt-sys`, and `generated.rs` of `pjrt-layers`, from the PJRT headers.

mod bindings;
mod headers;
mod layers;
mod ledger;
mod slots;

use std::fs;
use std::path::Path;

pub(crate) use headers::headers;

use crate::package::Unavailable;
use crate::{Error, sh};

/// Writes the generated files. With `check`, compares them with the committed files instead. The check is skipped if
/// the registry does not provide the headers, because it deletes nightly builds. The committed files stay valid without
/// them.
pub(crate) fn run(check: bool) -> Result<(), Error> {
    let headers = match headers() {
        Err(error) if check && error.is::<Unavailable>() => {
            println!("SKIPPED codegen: the generated code was not compared with the PJRT headers: {error}");
            return Ok(());
        }
        headers => headers?,
    };
    let generated = bindings::generate(&headers)?;
    let changelog = fs::read_to_string(headers.join("CHANGELOG.md"))?;
    let slots = slots::generate(&generated, &changelog)?;
    let layers = layers::generate(&generated, &headers)?;
    let root = sh::root();
    let mut stale = Vec::new();
    let files = [
        ("crates/pjrt-sys/src/bindings.rs", &generated.text),
        ("crates/pjrt-sys/src/slots.rs", &slots),
        ("tools/pjrt-layers/src/generated.rs", &layers),
    ];
    for (name, text) in files {
        let path = root.join(name);
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
