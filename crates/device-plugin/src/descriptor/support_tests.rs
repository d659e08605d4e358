//! Tests that pass calls of `DevicePlugin::supports` through the C descriptor.

use super::c_descriptor;
use super::tests::read;
use crate::support::{OperationRule, Reason};
use crate::{Depth, DevicePlugin, Error, ErrorCode, Library, Manifest, NoBackend, Program, Support, SupportTable};

/// A plugin that overrides `supports`.
struct Answers;

impl DevicePlugin for Answers {
    const NAME: &'static str = "answers";
    type Backend = NoBackend;

    fn library() -> Library {
        // SAFETY: R1 (the library is trusted): it is this vendor's PJRT plugin.
        unsafe { Library::beside("libanswers.so") }
    }

    fn supports(program: &Program, depth: Depth) -> Option<Support> {
        assert_ne!(program.format(), "panic", "no such format");
        match depth {
            Depth::Names => None,
            Depth::Compile => Some(Support::Yes),
            _ => Some(Support::No(vec![Reason {
                operation: Some("x.y".to_owned()),
                ty: Some("tensor<f32>".to_owned()),
                location: Some("a:1".to_owned()),
                ..Reason::new(format!("{} bytes", program.code().len()))
            }])),
        }
    }

    fn manifest(mut manifest: Manifest) -> Manifest {
        let operations = [("stablehlo.add".to_owned(), OperationRule::default())].into();
        manifest.supported_programs = Some(SupportTable { complete: true, operations, ..SupportTable::default() });
        manifest
    }
}

#[test]
fn vendor_answer_takes_precedence_across_c() {
    let own = crate::descriptor::<Answers>().unwrap();
    let across = read(c_descriptor::<Answers>()).unwrap();
    for descriptor in [own, across] {
        let text = "func.func @main(%x: tensor<f32>) -> tensor<f32> {
          %0 = stablehlo.subtract %x, %x : tensor<f32>
          return %0 : tensor<f32> }";
        let sub = Program::mlir(text);
        assert_eq!(descriptor.supports(&sub, Depth::Compile).unwrap(), Support::Yes);
        let Support::No(reasons) = descriptor.supports(&sub, Depth::Types).unwrap() else { panic!() };
        assert_eq!(reasons[0].message, format!("{} bytes", sub.code().len()));
        assert_eq!((reasons[0].ty.as_deref(), reasons[0].location.as_deref()), (Some("tensor<f32>"), Some("a:1")));
        // If the plugin returns `None`, the table of the manifest applies.
        let Support::No(reasons) = descriptor.supports(&sub, Depth::Names).unwrap() else { panic!() };
        assert_eq!(reasons[0].operation.as_deref(), Some("stablehlo.subtract"));
        let panics = Program::new("panic", Vec::new());
        let error: Error = descriptor.supports(&panics, Depth::Types).unwrap_err();
        assert_eq!(error.code(), ErrorCode::INTERNAL);
        assert!(error.message().contains("no such format"), "{error}");
    }
}
