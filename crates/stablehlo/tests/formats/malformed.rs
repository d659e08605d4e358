//! Tests that broken programs cause errors, without panics, hangs, stack overflows or excessive memory use.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::path::Path;

use crate::common::{XorShift, mutate};
use stablehlo::ir::Version;
use stablehlo::{ErrorKind, PrintOptions, VerifyLevel, parse, verify, write};

fn data(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)).unwrap()
}

/// Runs `f` on a thread with a small stack, because a framework may call the reader from such a thread.
fn on_small_stack(f: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(512 * 1024).spawn(f).unwrap().join().unwrap();
}

#[test]
fn truncated_artifacts_are_errors() {
    for name in ["while_loop.1.17.0.bc", "while_loop.0.9.0.bc", "manual.1.17.0.bc"] {
        let whole = data(name);
        assert!(parse(whole.clone(), VerifyLevel::FULL).is_ok());
        for length in 0..whole.len() {
            let e = parse(whole[..length].to_vec(), VerifyLevel::FULL).expect_err("a truncated program was accepted");
            assert!(!e.to_string().is_empty());
        }
    }
}

#[test]
fn truncated_texts_are_errors() {
    for name in ["while_loop.mlir", "manual.mlir", "convolution.mlir"] {
        let whole = data(name);
        let end = whole.trim_ascii_end().len();
        for length in 0..end {
            let e = parse(whole[..length].to_vec(), VerifyLevel::FULL).expect_err("a truncated program was accepted");
            assert!(length == 0 || e.line_column().is_some() || e.kind() == ErrorKind::Structure, "{e}");
        }
    }
}

#[test]
fn mutated_artifacts_never_panic() {
    on_small_stack(|| {
        let words: &[&[u8]] = &[&[0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F], &[0x01], &[0xFE, 0xFF], &[0xCB]];
        let mut rng = XorShift(0x9E37_79B9_7F4A_7C15);
        let mut accepted = 0;
        for name in
            ["while_loop.1.17.0.bc", "sorting.1.0.0.bc", "scan.0.9.0.bc", "manual.1.17.0.bc", "constants.0.14.0.bc"]
        {
            let program = data(name);
            for _ in 0..4_000 {
                accepted += usize::from(parse(mutate(&mut rng, &program, words), VerifyLevel::FULL).is_ok());
            }
        }
        // Changes of names and constants leave a program valid. The reader must detect most other changes.
        assert!(accepted < 8_000, "{accepted} of 20000 mutated programs were accepted");
    });
}

#[test]
fn mutated_texts_never_panic() {
    on_small_stack(|| {
        let words: &[&[u8]] = &[
            b"<",
            b">",
            b"(",
            b"{",
            b"[",
            b"\"",
            b"%0",
            b"#0",
            b":",
            b"->",
            b"dense<",
            b"tensor<",
            b"99999999999999999999",
            b"loc(",
            b"\\",
            b"\xC3\xA9",
            b"-1",
            b"{-#",
        ];
        let mut rng = XorShift(0x2545_F491_4F6C_DD1D);
        let mut accepted = 0;
        for name in ["while_loop.mlir", "sorting.mlir", "convolution.mlir", "manual.mlir", "constants.mlir"] {
            let program = data(name);
            for _ in 0..2_000 {
                accepted += usize::from(parse(mutate(&mut rng, &program, words), VerifyLevel::FULL).is_ok());
            }
        }
        assert!(accepted < 4_000, "{accepted} of 10000 mutated programs were accepted");
    });
}

/// If a mutated program is still valid, checks that it can be printed, and that every artifact written from it is
/// valid. Returns whether the program is valid.
fn survives(program: &[u8]) -> bool {
    let Ok(module) = parse(program.to_vec(), VerifyLevel::FULL) else { return false };
    let text = module.to_string();
    let mut options = PrintOptions::default();
    (options.generic, options.locations) = (true, true);
    assert!(!module.print(&options).is_empty());
    for version in [Version::NEWEST, Version::OLDEST] {
        if let Ok(bytes) = write(&module, version) {
            let again = parse(bytes, VerifyLevel::FULL).unwrap_or_else(|e| panic!("{e}\n{text}"));
            verify(&again, VerifyLevel::FULL).unwrap();
        }
    }
    true
}

#[test]
fn mutated_programs_can_be_written() {
    on_small_stack(|| {
        let words: &[&[u8]] = &[b"1", b"-", b"0x7F", b"i32", b"f64", b"ui8", b"@", b"\\22", b"x", &[3], &[0xFF, 1]];
        let mut rng = XorShift(0xA076_1D64_78BD_642F);
        let mut accepted = 0;
        for name in ["constants.mlir", "manual.mlir", "dtypes.1.17.0.bc", "composites.1.17.0.bc", "scan.0.9.0.bc"] {
            let program = data(name);
            for _ in 0..400 {
                accepted += usize::from(survives(&mutate(&mut rng, &program, words)));
            }
        }
        assert!(accepted > 50, "only {accepted} of 2000 mutated programs were still programs");
    });
}

#[test]
fn lengths_beyond_file() {
    // Replace each byte, which may be a length or a count, with a very large number in several encodings.
    for name in ["while_loop.1.17.0.bc", "scan.0.9.0.bc"] {
        let whole = data(name);
        for at in 4..whole.len() {
            for large in [&[0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF][..], &[0xFC, 0xFF, 0xFF], &[0x80; 8]] {
                let mut program = whole.clone();
                program.splice(at..=at, large.iter().copied());
                let _ = parse(program, VerifyLevel::FULL);
            }
        }
    }
}

fn nested_ifs(depth: usize) -> String {
    let mut text = String::from("func.func @main(%p: tensor<i1>, %x: tensor<f32>) -> tensor<f32> {\n");
    for i in 0..depth {
        text.push_str(&format!("%r{i} = \"stablehlo.if\"(%p) ({{\n"));
    }
    text.push_str("stablehlo.return %x : tensor<f32>\n");
    for i in (0..depth).rev() {
        text.push_str("}, { stablehlo.return %x : tensor<f32> }) : (tensor<i1>) -> tensor<f32>\n");
        let ret = if i == 0 { "return" } else { "stablehlo.return" };
        text.push_str(&format!("{ret} %r{i} : tensor<f32>\n"));
    }
    text + "}\n"
}

#[test]
fn bounded_nesting() {
    on_small_stack(|| {
        parse(nested_ifs(60), VerifyLevel::FULL).unwrap();
        parse(data("nested.1.17.0.bc"), VerifyLevel::FULL).unwrap();
        let e = parse(nested_ifs(100_000), VerifyLevel::FULL).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Limit, "{e}");
        let wrap =
            |attribute: String| format!("module attributes {{a = {attribute}}} {{ func.func @main() {{ return }} }}");
        parse(wrap(format!("{}{}", "[".repeat(60), "]".repeat(60))), VerifyLevel::FULL).unwrap();
        for (open, close) in [("[", "]"), ("{a = ", "}"), ("tuple<", ">"), ("(", ")")] {
            let e = parse(wrap(open.repeat(100_000) + &close.repeat(100_000)), VerifyLevel::FULL).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Limit, "{open}: {e}");
        }
        let locations =
            format!("func.func @main() {{ return loc({}unknown{}) }}", "fused[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(parse(locations, VerifyLevel::FULL).unwrap_err().kind(), ErrorKind::Limit);
    });
}

#[test]
fn aliases_cannot_grow_exponentially() {
    let mut text = String::from("#a0 = [1, 2, 3, 4]\n");
    for i in 1..40 {
        text.push_str(&format!("#a{i} = [#a{0}, #a{0}, #a{0}, #a{0}]\n", i - 1));
    }
    text.push_str("func.func @main() { return }\n");
    let e = parse(text, VerifyLevel::FULL).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Limit, "{e}");
}

#[test]
fn huge_announced_sizes() {
    for text in [
        "func.func @main() -> tensor<9000000000000xf32> { %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<9000000000000xf32>\n return %0 : tensor<9000000000000xf32> }",
        "func.func @main() { %0:4000000000 = \"a.b\"() : () -> () return }",
        "func.func @main(%0: tensor<9223372036854775807x9223372036854775807xi8>) { return }",
        "func.func @main(%0: tensor<99999999999999999999xi8>) { return }",
    ] {
        assert!(parse(text, VerifyLevel::FULL).is_err(), "{text}");
    }
    // A splat stores one element, so the number of elements does not matter.
    let splat = "func.func @main() -> tensor<1000000000000xi8> { %0 = stablehlo.constant dense<1> : tensor<1000000000000xi8>\n return %0 : tensor<1000000000000xi8> }";
    parse(splat, VerifyLevel::FULL).unwrap();
}

#[test]
fn non_ascii_text() {
    for text in [
        "func.func @main() { sdy.manual_computation() in_shardings=\u{e9}",
        "func.func @main() { \u{e9}",
        "func.func @\u{e9}() { return }",
        "func.func @main() { %0 = stablehlo.constant dense<\u{e9}> : tensor<f32>",
        "module attributes {a = #x<\u{e9}",
        "module attributes {a = \"\\\u{e9}\"}",
        "{-# \u{e9}",
    ] {
        let e = parse(text, VerifyLevel::FULL).expect_err(text);
        assert!(e.line_column().is_some(), "{e}");
    }
}

#[test]
fn op_names() {
    // Each new name has the same length as the name that it replaces, so that the file's offsets stay valid.
    for name in [&b"whi\ne_v1"[..], b"whi\"e_v1", b"whi\\e_v1", b"wh\xC3\xA9e_v1", b"whi e_v1"] {
        let mut program = data("while_loop.1.17.0.bc");
        let at = program.windows(8).position(|window| window == b"while_v1").unwrap();
        program[at..at + 8].copy_from_slice(&name[..8]);
        let e = parse(program, VerifyLevel::FULL).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Encoding, "{e}");
    }
}

#[test]
fn unknown_format() {
    let e = parse(vec![0xFF, 0xFE, 0], VerifyLevel::FULL).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Syntax, "{e}");
    assert_eq!(e.offset(), Some(0));
    assert_eq!(parse("", VerifyLevel::FULL).unwrap_err().kind(), ErrorKind::Structure);
    assert!(parse(b"ML\xEFR".to_vec(), VerifyLevel::FULL).is_err());
    assert_eq!(
        parse(b"ML\xEFR\x0fStableHLO_v9.9.9\0".to_vec(), VerifyLevel::FULL).unwrap_err().kind(),
        ErrorKind::Version
    );
}
