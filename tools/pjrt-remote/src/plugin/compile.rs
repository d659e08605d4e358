//! Compiles programs on the server.

use std::sync::Arc;

use bytes::Bytes;
use device_plugin::stablehlo::{self, VerifyLevel};
use device_plugin::{CompileOptions, Compiled, Error, ExecutableInfo, Program, Result, Shape};

use crate::plugin::connection::Connection;
use crate::plugin::objects::{Handle, RemoteExecutable};
use crate::plugin::tickets::Answered;
use crate::wire::convert;
use crate::wire::frame::{MAX_REQUEST, Payload};
use crate::wire::messages as wire;

/// Compiles a program, and waits for the result, because frameworks need the program's signature.
pub(crate) fn compile(
    connection: &Arc<Connection>,
    program: &Program,
    options: &CompileOptions,
) -> Result<Compiled<RemoteExecutable>> {
    let handle = Handle { id: connection.handles(1), connection: Arc::clone(connection) };
    let options = options.encode();
    if options.len() > MAX_REQUEST / 2 {
        return Err(Error::unimplemented(format!(
            "the compile options have {} bytes; this plugin sends at most {}",
            options.len(),
            MAX_REQUEST / 2
        )));
    }
    let request = |ticket| {
        wire::Compile {
            ticket,
            handle: handle.id,
            format: program.format().to_owned(),
            options,
            bytes: program.code().len() as u64,
        }
        .into()
    };
    match connection.call(request, program.code())? {
        Answered::Compiled(compiled, code) => {
            Ok(Compiled::new(RemoteExecutable { handle }, info(*compiled, code, program)?))
        }
        _ => Err(Error::internal("the server did not answer with a compiled program")),
    }
}

fn shapes(shapes: Vec<wire::Shape>) -> Result<Vec<Shape>> {
    shapes.into_iter().map(convert::shape).collect::<Result<_, _>>().map_err(Error::internal)
}

/// Returns the properties of a program: those that the served plugin reports, and the donated parameters and otherwise
/// missing shapes as the program declares them.
fn info(compiled: wire::Compiled, code: Payload, program: &Program) -> Result<ExecutableInfo> {
    // Other formats, and programs with ops that this crate does not know, are not read.
    let module = stablehlo::parse(program, VerifyLevel::STRUCTURE).ok();
    let declared = module.map(|module| stablehlo::signature(&module)).transpose();
    let declared = declared.map_err(|error| error.context("the plugin remote cannot forward the program"))?;
    let parameters = match (compiled.parameters, &declared) {
        (Some(parameters), _) => shapes(parameters.shapes)?,
        (None, Some(declared)) => declared.parameters.clone(),
        (None, None) => {
            return Err(Error::unimplemented(
                "the served plugin does not report the program's parameters, and the plugin remote cannot read the program",
            ));
        }
    };
    let mut info = ExecutableInfo::new(compiled.name, parameters, shapes(compiled.outputs)?);
    if let Some(declared) = declared {
        info.donated = declared.donated;
        info.donated.retain(|index| *index < info.parameters.len());
    }
    info.output_memory_kinds = compiled.output_memory_kinds;
    info.parameter_memory_kinds = compiled.parameter_memory_kinds;
    info.output_shardings = compiled.output_shardings.map(|list| list.shardings);
    info.parameter_shardings = compiled.parameter_shardings.map(|list| list.shardings);
    info.fingerprint = compiled.fingerprint;
    info.size_of_generated_code = compiled.size_of_generated_code;
    if !compiled.format.is_empty() {
        info.optimized_program = Some(Program::from_bytes(compiled.format, Bytes::from_owner(code)));
    }
    Ok(info)
}
