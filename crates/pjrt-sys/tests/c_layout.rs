//! Compares the layout of every struct with the layout that a C++ compiler computes from the headers.
//!
//! The headers are not part of the repository. `cargo xtask test --all` downloads the headers and sets `PJRT_HEADERS`
//! to their folder. Without this variable, the test prints that it is skipped.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use pjrt_sys::STRUCTS;

#[test]
fn layouts_equal_the_c_compilers() {
    let Some(headers) = env::var_os("PJRT_HEADERS") else {
        println!("SKIPPED layouts_equal_the_c_compilers: PJRT_HEADERS is not set; `cargo xtask test --all` sets it");
        return;
    };
    let headers = Path::new(&headers);
    let mut source = String::from("#include <cstddef>\n");
    writeln!(source, "#include \"pjrt_all.h\"").unwrap();
    let mut checks = 0;
    for info in STRUCTS {
        let name = info.name;
        let mut check = |what: String, value: usize| {
            writeln!(source, "static_assert({what} == {value}, \"{name}\");").unwrap();
            checks += 1;
        };
        check(format!("sizeof({name})"), info.size);
        check(format!("{name}_STRUCT_SIZE"), info.struct_size);
        for (field, offset) in info.fields {
            // Anonymous unions have no name in C. The offsets of the adjacent fields determine the layout of the union.
            if field.starts_with("__bindgen_anon") {
                continue;
            }
            // bindgen appends an underscore to Rust's keywords.
            let field = field.strip_suffix('_').unwrap_or(field);
            check(format!("offsetof({name}, {field})"), *offset);
        }
    }
    assert!(checks > 1000, "only {checks} checks");
    let folder = env::temp_dir().join(format!("pjrt-c-layout-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("layout.cc");
    fs::write(&file, source).unwrap();
    let compiler = env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let output = Command::new(&compiler)
        .args(["-std=c++17", "-fsyntax-only", "-Wno-invalid-offsetof", "-I"])
        .arg(headers)
        .arg(&file)
        .output()
        .unwrap_or_else(|error| panic!("cannot start {compiler}: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::remove_dir_all(&folder).unwrap();
    println!("{checks} sizes and offsets agree with {compiler}");
}
