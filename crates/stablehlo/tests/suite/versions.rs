//! Tests programs of StableHLO 1.23 and later, and artifacts of versions that this crate does not know.
//!
//! No published package writes artifacts of these versions. The artifacts in this file are therefore written by this
//! crate, and some tests change names and versions in their bytes. The tests check that the reader and the writer
//! agree. `crates/pjrt/tests/no_hardware` checks that libtpu reads such artifacts.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use stablehlo::ir::*;
use stablehlo::{ErrorKind, PrintOptions, VerifyLevel, parse, write};

fn read(program: impl Into<bytes::Bytes>) -> Module {
    parse(program, VerifyLevel::FULL).unwrap()
}

/// Returns a program with this op of `%x`, `%y` and `%z` in its second function.
fn program(op: &str, ty: &str) -> String {
    format!(
        "func.func private @first(%x: {ty}) -> {ty} {{
           return %x : {ty}
         }}
         func.func @main(%x: {ty}, %y: {ty}, %z: {ty}) -> {ty} {{
           %0 = stablehlo.add %x, %y : {ty}
           %1 = stablehlo.{op} : {ty} loc(\"model.py\":7:3)
           return %1 : {ty}
         }}"
    )
}

const OPS: [(&str, Version); 3] =
    [("exp2 %x", Version(1, 23, 0)), ("log2 %x", Version(1, 23, 0)), ("fma %x, %y, %z", Version(1, 24, 0))];

/// Replaces every occurrence of `from` with `to`, which has the same length, so that offsets stay valid.
fn replaced(artifact: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = artifact.to_vec();
    let mut count = 0;
    while let Some(at) = bytes.windows(from.len()).position(|window| window == from.as_bytes()) {
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        count += 1;
    }
    assert!(count > 0, "no {from}");
    bytes
}

/// Returns an artifact of `program` whose producer is a later version than this crate knows.
fn newer(program: &str) -> Vec<u8> {
    let artifact = write(&read(program.to_owned()), Version::NEWEST).unwrap();
    replaced(&artifact, &format!("StableHLO_v{}", Version::NEWEST), "StableHLO_v1.30.0")
}

#[test]
fn ops_round_trip_from_their_first_version() {
    for (op, first) in OPS {
        for ty in ["tensor<4xf32>", "tensor<2x?xbf16>", "tensor<f8E4M3FN>", "tensor<0xf64>", "tensor<3xf4E2M1FN>"] {
            let module = read(program(op, ty));
            let text = module.to_string();
            for version in [first, Version::NEWEST] {
                let artifact = read(write(&module, version).unwrap());
                assert_eq!((artifact.version, artifact.to_string()), (Some(version), text.clone()), "{op}");
            }
            assert_eq!(read(text.clone()).to_string(), text);
            let mut options = PrintOptions::default();
            options.generic = true;
            assert_eq!(read(module.print(&options)).to_string(), text);
        }
    }
}

#[test]
fn result_accuracy_is_written() {
    let accuracy = "{result_accuracy = #stablehlo.result_accuracy<ulps = 10, mode = \
                    #stablehlo.result_accuracy_mode<TOLERANCE>>}";
    for op in ["exp2", "log2"] {
        let text = read(program(&format!("{op} %x {accuracy}"), "tensor<f32>")).to_string();
        assert!(text.contains("ulps = 10"), "{text}");
        assert_eq!(read(write(&read(text.clone()), Version::NEWEST).unwrap()).to_string(), text);
    }
}

#[test]
fn older_versions_are_refused() {
    for (op, first) in OPS {
        let module = read(program(op, "tensor<4xf32>"));
        let error = write(&module, Version(1, first.1 - 1, 0)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Version, "{op}");
        assert_eq!(error.op(), Some(&*format!("stablehlo.{}", op.split(' ').next().unwrap())));
        assert_eq!((error.func(), error.location()), (Some("main"), Some("model.py:7:3")));
    }
    expect_test::expect!["stablehlo.fma: the op needs StableHLO 1.24.0, newer than the 1.22.0 to be written; `multiply` and `add` are close, but round twice (in @main, model.py:7:3)"]
    .assert_eq(&write(&read(program(OPS[2].0, "tensor<4xf32>")), Version(1, 22, 0)).unwrap_err().to_string());
}

#[test]
fn newer_artifact_of_known_ops_is_read() {
    for (op, _) in OPS {
        let text = program(op, "tensor<4xf32>");
        let module = read(newer(&text));
        assert_eq!(module.version, Some(Version(1, 30, 0)));
        assert_eq!(module.to_string(), read(text).to_string());
    }
}

#[test]
fn unknown_op_is_named_with_its_place() {
    let artifact = replaced(&newer(&program("fma %x, %y, %z", "tensor<4xf32>")), "fma_v1", "fmb_v1");
    let error = parse(artifact.clone(), VerifyLevel::FULL).unwrap_err();
    assert_eq!((error.kind(), error.op(), error.func()), (ErrorKind::Version, Some("vhlo.fmb_v1"), Some("main")));
    assert_eq!(error.location(), Some("model.py:7:3"));
    assert!(error.offset().is_some_and(|offset| offset < artifact.len()));
    expect_test::expect!["vhlo.fmb_v1: unknown op in an artifact of StableHLO_v1.30.0; this reader knows StableHLO 1.24.0 (byte 162, in @main, model.py:7:3)"].assert_eq(&error.to_string());
    // A newer version of a known op has other attributes, so it is unknown, too.
    let artifact = replaced(&newer(&program("fma %x, %y, %z", "tensor<4xf32>")), "add_v1", "add_v9");
    let error = parse(artifact, VerifyLevel::FULL).unwrap_err();
    assert_eq!((error.kind(), error.op()), (ErrorKind::Version, Some("vhlo.add_v9")));
}

#[test]
fn unknown_op_of_known_version() {
    let artifact = write(&read(program("fma %x, %y, %z", "tensor<4xf32>")), Version::NEWEST).unwrap();
    let error = parse(replaced(&artifact, "fma_v1", "fmb_v1"), VerifyLevel::FULL).unwrap_err();
    assert_eq!((error.kind(), error.func()), (ErrorKind::UnknownOp, Some("main")));
}

#[test]
fn fma_needs_floats_of_one_type() {
    let main = |op: &str| {
        let arguments = "%x: tensor<4xf32>, %h: tensor<4xf16>, %y: tensor<3xf32>, %i: tensor<4xi32>, %c: \
                         tensor<4xcomplex<f32>>, %q: tensor<4x!quant.uniform<i8:f32, 0.5>>";
        parse(format!("func.func @main({arguments}) {{ {op}\n return }}"), VerifyLevel::FULL).map(|_| ())
    };
    main("%0 = stablehlo.fma %x, %x, %x : tensor<4xf32>").unwrap();
    for op in [
        "%0 = stablehlo.fma %i, %i, %i : tensor<4xi32>",
        "%0 = stablehlo.fma %c, %c, %c : tensor<4xcomplex<f32>>",
        "%0 = stablehlo.fma %q, %q, %q : tensor<4x!quant.uniform<i8:f32, 0.5>>",
        "%0 = stablehlo.fma %x, %h, %x : (tensor<4xf32>, tensor<4xf16>, tensor<4xf32>) -> tensor<4xf32>",
        "%0 = stablehlo.fma %x, %x, %h : (tensor<4xf32>, tensor<4xf32>, tensor<4xf16>) -> tensor<4xf32>",
        "%0 = stablehlo.fma %x, %x, %x : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf16>",
    ] {
        assert_eq!(main(op).unwrap_err().kind(), ErrorKind::Type, "{op}");
    }
    for op in [
        "%0 = stablehlo.fma %x, %y, %x : (tensor<4xf32>, tensor<3xf32>, tensor<4xf32>) -> tensor<4xf32>",
        "%0 = stablehlo.fma %x, %x, %x : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<3xf32>",
    ] {
        assert_eq!(main(op).unwrap_err().kind(), ErrorKind::Shape, "{op}");
    }
    let error = main("%0 = \"stablehlo.fma\"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Structure);
}

#[cfg(feature = "hlo")]
#[test]
fn hlo_round_trip() {
    for (op, _) in OPS {
        let module = read(program(op, "tensor<4xf32>"));
        let hlo = stablehlo::write_hlo(&module).unwrap();
        let name = format!("stablehlo.{op}");
        let again = stablehlo::parse_hlo(hlo, VerifyLevel::FULL).unwrap().to_string();
        assert!(again.contains(name.split(' ').next().unwrap()), "{again}");
    }
}
