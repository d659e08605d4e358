//! `cargo xtask coverage` writes `docs/coverage.md`, which lists the functions and fields of the C API that the
//! caller's side and the vendor's side use.
//!
//! The page is generated from the code. [`declarations`] lists the functions and fields of the generated bindings.
//! [`uses`] finds where the sources of a side use them. [`page`] compares the declarations and the uses with the table
//! in [`not_wanted`].

mod declarations;
mod not_wanted;
mod page;
mod uses;

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Error, sh};
use declarations::Declarations;
use not_wanted::NOT_WANTED;
use uses::Uses;

/// Path of the generated bindings.
const BINDINGS: &str = "crates/pjrt-sys/src/bindings.rs";
/// Folder with the sources of the caller's side.
const CALLER: &str = "crates/pjrt/src";
/// Folder with the sources of the vendor's side that implement the table.
const VENDOR: &str = "crates/device-plugin/src/abi";
/// Path of the generated page.
const PAGE: &str = "docs/coverage.md";

/// Writes the page. With `check`, compares it with the committed page instead. Returns an error if a function or field
/// has neither a use nor a reason, or if a row of [`not_wanted`] is wrong.
pub(crate) fn run(check: bool) -> Result<(), Error> {
    let root = sh::root();
    let declarations = Declarations::parse(&fs::read_to_string(root.join(BINDINGS))?)?;
    let caller = uses_in(&root.join(CALLER), &declarations)?;
    let vendor = uses_in(&root.join(VENDOR), &declarations)?;
    let page = page::write(&declarations, &caller, &vendor, NOT_WANTED);
    let path = root.join(PAGE);
    if !check {
        fs::write(&path, &page.text)?;
        println!("wrote {PAGE}: {}", page.summary);
    }
    let faults: Vec<String> = [page.missing, page.faults].concat();
    if !faults.is_empty() {
        return Err(format!(
            "{}\nuse these functions and fields, or list them with a reason in xtask/src/coverage/not_wanted.rs",
            faults.join("\n")
        )
        .into());
    }
    if check {
        compare(&fs::read_to_string(&path).unwrap_or_default(), &page.text)?;
        println!("{PAGE} is up to date: {}", page.summary);
    }
    Ok(())
}

/// Fails if the committed page differs from the generated one, and shows the first difference.
fn compare(committed: &str, written: &str) -> Result<(), Error> {
    if committed == written {
        return Ok(());
    }
    let line = committed.lines().zip(written.lines()).position(|(old, new)| old != new);
    let line = line.unwrap_or_else(|| committed.lines().count().min(written.lines().count()));
    Err(format!(
        "{PAGE} is stale from line {}:\n- {}\n+ {}\nrun `cargo xtask coverage` and commit the page",
        line + 1,
        committed.lines().nth(line).unwrap_or_default(),
        written.lines().nth(line).unwrap_or_default()
    )
    .into())
}

/// Returns the functions and fields that the Rust files of a folder use, except in tests.
fn uses_in(folder: &Path, declarations: &Declarations) -> Result<Uses, Error> {
    let mut uses = Uses::default();
    let mut files = Vec::new();
    rust_files(folder, &mut files)?;
    for file in files {
        let text = fs::read_to_string(&file)?;
        uses.add(&text, declarations).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(uses)
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    let mut entries = fs::read_dir(folder)?.map(|entry| entry.map(|e| e.path())).collect::<Result<Vec<_>, _>>()?;
    entries.sort();
    for path in entries {
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        if stem == "tests" || stem.ends_with("_tests") {
            continue;
        }
        if path.is_dir() {
            rust_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::declarations::Declarations;
    use super::not_wanted::NotWanted;
    use super::not_wanted::Side::{Both, Vendor};
    use super::uses::Uses;
    use super::{compare, page};

    const BINDINGS: &str = "
        pub struct PJRT_Buffer { _unused: [u8; 0] }
        pub struct PJRT_Extension_Base { pub struct_size: usize }
        pub struct PJRT_Options { pub struct_size: usize, pub limit: i64, pub names: *const c_char }
        pub struct PJRT_Copy_Args { pub struct_size: usize, pub buffer: *mut PJRT_Buffer,
            pub options: *mut PJRT_Options, pub done: Bool }
        pub type PJRT_Copy = Option<unsafe extern \"C\" fn(args: *mut PJRT_Copy_Args) -> *mut PJRT_Error>;
        pub struct PJRT_Drop_Args { pub struct_size: usize, pub buffer: *mut PJRT_Buffer }
        pub type PJRT_Drop = Option<unsafe extern \"C\" fn(args: *mut PJRT_Drop_Args)>;
        pub struct PJRT_Api { pub struct_size: usize, pub PJRT_Copy: PJRT_Copy, pub PJRT_Drop: PJRT_Drop }
        pub struct PJRT_Odd_Extension { pub base: PJRT_Extension_Base }
    ";

    const CALLER: &str = "
        /// Calls `PJRT_Drop`.
        fn copy(buffer: *mut PJRT_Buffer) -> bool {
            let mut options = PJRT_Options { limit: 3, ..PJRT_Options::new() };
            let mut args = PJRT_Copy_Args::new();
            (args.buffer, args.options) = (buffer, &raw mut options);
            unsafe { call::<slot::PJRT_Copy>(&mut args) };
            args.done.get()
        }
        fn drop(buffer: *mut PJRT_Buffer) {
            let mut args = PJRT_Drop_Args::new();
            args.buffer = buffer;
            unsafe { call::<slot::PJRT_Drop>(&mut args) };
        }
        #[cfg(test)]
        mod tests { fn names(options: &PJRT_Options) { options.names; } }
    ";

    const VENDOR: &str = "
        #[entry(hot)]
        unsafe fn PJRT_Copy<P: DevicePlugin>(args: &mut PJRT_Copy_Args, buffer: &Buffer) -> Result<()> {
            let options = unsafe { nested(args.options) };
            args.done = (options.limit == 3).into();
            Ok(())
        }
    ";

    fn uses(text: &str, declarations: &Declarations) -> Uses {
        let mut uses = Uses::default();
        uses.add(text, declarations).unwrap();
        uses
    }

    const WANTED: &[NotWanted] = &[
        NotWanted { side: Vendor, reason: "Nothing to drop.", items: &["PJRT_Drop"] },
        NotWanted { side: Both, reason: "Names are not used.", items: &["PJRT_Options::names"] },
    ];

    fn written(caller: &str, wanted: &[NotWanted]) -> page::Page {
        let declarations = Declarations::parse(BINDINGS).unwrap();
        page::write(&declarations, &uses(caller, &declarations), &uses(VENDOR, &declarations), wanted)
    }

    #[test]
    fn finds_fields() {
        let page = written(CALLER, WANTED);
        assert_eq!((page.missing, page.faults), (Vec::new(), Vec::new()));
        for row in [
            "| **`PJRT_Copy`** | calls | implements |",
            "| `buffer` | sets | reads |",
            "| `done` | reads | sets |",
            "| **`PJRT_Drop`** | calls | not wanted: R1 |",
            "| `limit` | sets | reads |",
            "| `names` | not wanted: R2 | not wanted: R2 |",
        ] {
            assert!(page.text.contains(row), "{row}\n{}", page.text);
        }
    }

    #[test]
    fn dropped_function_is_missing() {
        let committed = written(CALLER, WANTED).text;
        compare(&committed, &committed).unwrap();
        let less = CALLER.replace("call::<slot::PJRT_Drop>(&mut args)", "()").replace("PJRT_Drop_Args::new()", "0");
        let page = written(&less, WANTED);
        assert_eq!(page.missing, ["the caller's side does not call PJRT_Drop"]);
        assert!(page.text.contains("| **`PJRT_Drop`** | **missing** |"), "{}", page.text);
        let stale = compare(&committed, &page.text).unwrap_err().to_string();
        assert!(stale.contains("stale") && stale.contains("cargo xtask coverage"), "{stale}");
    }

    #[test]
    fn dropped_field_is_missing() {
        let page = written(&CALLER.replace("limit: 3,", ""), WANTED);
        assert_eq!(page.missing, ["the caller's side does not use PJRT_Options::limit"]);
    }

    #[test]
    fn unneeded_reason_is_fault() {
        let wanted = [
            NotWanted { side: Both, reason: "Nothing to drop.", items: &["PJRT_Drop", "PJRT_Gone"] },
            NotWanted { side: Both, reason: "Names are not used.", items: &["PJRT_Options::names"] },
        ];
        let page = written(CALLER, &wanted);
        assert_eq!(
            page.faults,
            [
                "not_wanted.rs lists PJRT_Drop, but the caller's side uses it",
                "not_wanted.rs lists PJRT_Gone, which the bindings do not declare",
            ]
        );
    }
}
