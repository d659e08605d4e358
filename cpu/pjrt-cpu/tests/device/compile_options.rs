//! Tests of compile options that are given by name.

use pjrt::{CompileOptions, ErrorCode, OptionOverride, Program};

use crate::{INCREMENT, client};

fn compile(name: &str, value: OptionOverride) -> Result<(), pjrt::Error> {
    let options = CompileOptions::default().with_option_override(name, value);
    client(1).compile(&Program::mlir(INCREMENT), &options).map(drop)
}

#[test]
fn options_of_xla_are_accepted() {
    compile("xla_embed_ir_in_executable", OptionOverride::Bool(true)).unwrap();
    compile("optimization_level", OptionOverride::Int64(19)).unwrap();
}

#[test]
fn unknown_option_is_refused() {
    let error = compile("xla_embed_ir_in_exectable", OptionOverride::Bool(true)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::INVALID_ARGUMENT);
}

#[test]
fn value_of_another_type_is_refused() {
    let error = compile("xla_embed_ir_in_executable", OptionOverride::Int64(3)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::INVALID_ARGUMENT);
}

/// Tests XLA's options that write compiled programs to files.
mod dump {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    /// Returns the path of a directory that does not exist yet.
    fn folder(test: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("pjrt-cpu-dump-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    /// Removes the directory and returns its files. The returned names begin after `module_` and the number, which
    /// differs between programs.
    fn take(folder: &Path) -> Vec<(String, Vec<u8>)> {
        let files = fs::read_dir(folder).unwrap().map(|file| {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(name.starts_with("module_"), "{name}");
            (name.split_once('.').unwrap().1.to_owned(), fs::read(&path).unwrap())
        });
        let mut files: Vec<_> = files.collect();
        fs::remove_dir_all(folder).unwrap();
        files.sort();
        files
    }

    fn options(folder: &Path, more: &[&str]) -> CompileOptions {
        let options = CompileOptions::default().with_option_override("xla_dump_to", folder.to_str().unwrap());
        more.iter().fold(options, |options, name| options.with_option_override(*name, true))
    }

    #[test]
    fn text() {
        let folder = folder("text").join("created");
        let program = format!("module @\"a name/with.more\" {{{INCREMENT}}}");
        client(1).compile(&Program::mlir(program), &options(&folder, &[])).unwrap();
        let files = take(&folder);
        let names: Vec<&str> = files.iter().map(|(name, _)| &**name).collect();
        let stem = "a_name_with_more";
        assert_eq!(names, [format!("{stem}.before_optimizations.txt"), format!("{stem}.cpu_after_optimizations.txt")]);
        for (name, text) in &files {
            assert!(String::from_utf8_lossy(text).contains("stablehlo.add"), "{name}");
        }
    }

    #[test]
    fn proto() {
        let both = ["xla_dump_hlo_as_proto", "xla_dump_hlo_as_text"];
        for (more, count) in [(&both[..1], 1), (&both[..], 3)] {
            let folder = folder(&format!("proto-{count}"));
            client(1).compile(&Program::mlir(INCREMENT), &options(&folder, more)).unwrap();
            let files = take(&folder);
            assert_eq!(files.len(), count);
            let (_, proto) = files.iter().find(|(name, _)| name.ends_with(".cpu_after_optimizations.hlo.pb")).unwrap();
            // The first field of the message extends to its end. The length of the field is encoded in two bytes.
            assert_eq!(usize::from(proto[1] & 0x7f) + (usize::from(proto[2]) << 7), proto.len() - 3);
            let program = Program::hlo(&proto[3..]);
            let program = client(1).compile(&program, &CompileOptions::default()).unwrap();
            assert_eq!(program.num_outputs(), 1);
        }
    }

    #[test]
    fn loaded_programs() {
        let folder = folder("loaded");
        let client = client(1);
        let program = client.compile(&Program::mlir(INCREMENT), &options(&folder, &[])).unwrap();
        let first = take(&folder);
        client.deserialize_and_load(&program.executable().serialize().unwrap()).unwrap();
        assert_eq!(take(&folder), first);
    }

    #[test]
    fn unwritable_folder_is_named() {
        let folder = folder("file");
        fs::write(&folder, "not a folder").unwrap();
        let error = client(1).compile(&Program::mlir(INCREMENT), &options(&folder, &[])).unwrap_err();
        fs::remove_file(&folder).unwrap();
        assert_eq!(error.code(), ErrorCode::INVALID_ARGUMENT);
        let expected = format!("xla_dump_to: cannot write {}", folder.display());
        assert!(error.message().contains(&expected), "{error}");
        let error = client(1).compile(&Program::mlir(INCREMENT), &options(Path::new("-"), &[])).unwrap_err();
        expect_test::expect!["xla_dump_to: a library does not print; name a folder instead of -"]
            .assert_eq(error.message());
    }
}
