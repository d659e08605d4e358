//! Tests the tracing spans of compilations and runs.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use pjrt::{ClientOptions, CompileOptions, Program};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A subscriber that logs each span of `pjrt` with its fields.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Visit for Log {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0.lock().unwrap(), "{field}={value:?} ").unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target().starts_with("pjrt::")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        write!(self.0.lock().unwrap(), "| {} ", span.metadata().name()).unwrap();
        span.record(&mut self.clone());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn spans_name_the_program() {
    let client = plugin_registry::open("cpu").unwrap().client(&ClientOptions::new()).unwrap();
    let program = Program::mlir(
        "module @doubling {
           func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
             %y = stablehlo.add %x, %x : tensor<2xf32>
             return %y : tensor<2xf32>
           }
         }",
    );
    let x = client.buffer_from_host(&[1.0f32, 2.0], &[2]).unwrap();
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), || {
        let executable = client.compile(&program, &CompileOptions::default()).unwrap();
        executable.execute(&[&x]).unwrap();
    });
    let bytes = program.code().len();
    let expected = format!(
        "| compile format=\"mlir\" bytes={bytes} program=\"doubling\" | execute program=\"doubling\" devices=1 "
    );
    assert_eq!(*log.0.lock().unwrap(), expected);
}
