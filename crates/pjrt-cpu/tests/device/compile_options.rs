//! Compile options that are given by name.

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
    let expected = "No such compile option: 'xla_embed_ir_in_exectable'; did you mean 'xla_embed_ir_in_executable'?";
    assert!(error.message().contains(expected), "{error}");
}

#[test]
fn value_of_another_type_is_refused() {
    let error = compile("xla_embed_ir_in_executable", OptionOverride::Int64(3)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::INVALID_ARGUMENT);
    assert!(error.message().contains("'3' is not a valid bool value"), "{error}");
}
