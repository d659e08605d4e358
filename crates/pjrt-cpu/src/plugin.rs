//! The device as a PJRT plugin: a [`Backend`] over the [`engine`](crate::engine).

use std::sync::Arc;

use device_plugin::capabilities::{MemoryKinds, ProgramFormat, ProgramFormats, StablehloRange};
use device_plugin::{
    Backend, Capabilities, CompileOptions, Compiled, CreateOptions, DeviceInfo, DevicePlugin, ElementType, Error,
    Event, ExecutableInfo, HostArray, Launch, Manifest, MemoryInfo, OptionSchema, Placement, Program, Result, Shape,
    StablehloVersions, device_plugin,
};

use crate::engine::{self, CompileErrorKind, DType, Pool, RunError, Tensor, TensorType};

/// The plugin `pjrt_cpu`: one device that computes on this machine's cores.
pub struct Cpu;

/// StableHLO versions the reader knows; a framework serializes programs for the newest of them at most.
const STABLEHLO: StablehloVersions = StablehloVersions { current: [1, 17, 0], minimum: [0, 9, 0] };

/// The kind of its only memory.
const MEMORY: &str = "device";

#[device_plugin]
impl DevicePlugin for Cpu {
    const NAME: &'static str = "pjrt_cpu";
    const ALIASES: &'static [&'static str] = &["cpu"];
    type Backend = CpuBackend;

    fn capabilities() -> Capabilities {
        let builder = Capabilities::builder()
            .program_formats(ProgramFormats::preferring(ProgramFormat::Mlir))
            .donation(true)
            .persistent_cache(true)
            .memory_kinds(MemoryKinds::new([MEMORY]));
        // A range out of two constants; the tests see that it is one.
        match StablehloRange::try_from(STABLEHLO) {
            Ok(range) => builder.stablehlo(range).build(),
            Err(_) => builder.build(),
        }
    }

    fn options() -> OptionSchema {
        OptionSchema::only([])
    }

    fn manifest(mut manifest: Manifest) -> Manifest {
        manifest.display_name = "CPU".to_owned();
        manifest.version = env!("CARGO_PKG_VERSION").to_owned();
        manifest.description = "computes on this machine's cores".to_owned();
        // As JAX ranks its own: whatever else there is comes first.
        manifest.priority = 0;
        manifest
    }

    fn stablehlo_versions() -> Option<StablehloVersions> {
        Some(STABLEHLO)
    }
}

/// The device.
pub struct CpuBackend(());

impl Backend for CpuBackend {
    type Buffer = Tensor;
    type Executable = engine::Program;

    fn create(options: &CreateOptions) -> Result<Self> {
        options.expect_only(&[])?;
        Ok(Self(()))
    }

    fn platform_version(&self) -> String {
        format!("pjrt-cpu {}", env!("CARGO_PKG_VERSION"))
    }

    fn devices(&self) -> Vec<DeviceInfo> {
        vec![DeviceInfo::new(0, "cpu")]
    }

    fn memories(&self) -> Vec<MemoryInfo> {
        vec![MemoryInfo::new(MEMORY, 0, [0]).on_host()]
    }

    fn buffer_from_host(&self, host: HostArray<'_>, _: Placement) -> Result<Tensor> {
        let shape = host.shape();
        let dtype = dtype(shape.element_type)?;
        let extent = |d: &i64| usize::try_from(*d).map_err(|_| Error::invalid_argument(format!("{shape}: extent {d}")));
        let dims = shape.dimensions.iter().map(extent).collect::<Result<Vec<_>>>()?;
        Tensor::from_bytes(Pool::global(), dtype, &dims, host.bytes()).map_err(run_error)
    }

    fn read(&self, buffer: &Tensor, to: &mut [u8]) -> Result<()> {
        let bytes = buffer.bytes();
        if bytes.len() != to.len() {
            return Err(Error::internal(format!("a buffer of {} bytes read into {}", bytes.len(), to.len())));
        }
        to.copy_from_slice(bytes);
        Ok(())
    }

    fn host_bytes<'a>(&self, buffer: &'a Tensor) -> Option<&'a [u8]> {
        Some(buffer.bytes())
    }

    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Compiled<engine::Program>> {
        if program.format != "mlir" {
            return Err(Error::unimplemented(format!(
                "programs in format {:?}; this device reads StableHLO (format \"mlir\")",
                program.format
            )));
        }
        if options.num_replicas != 1 || options.num_partitions != 1 {
            return Err(Error::unimplemented(format!(
                "{} replicas of {} partitions; this device runs programs alone",
                options.num_replicas, options.num_partitions
            )));
        }
        let module =
            stablehlo::parse(program.code.clone()).map_err(|error| Error::invalid_argument(error.to_string()))?;
        let executable = engine::compile(&module).map_err(|error| match error.kind() {
            CompileErrorKind::Unsupported => Error::unimplemented(error.to_string()),
            CompileErrorKind::Invalid => Error::invalid_argument(error.to_string()),
        })?;
        let parameters = executable.parameters();
        let donated = parameters.iter().enumerate().filter(|(_, p)| p.donor || p.alias_output.is_some());
        let info = ExecutableInfo::new(
            executable.name(),
            parameters.iter().map(|p| shape(&p.ty)).collect::<Result<Vec<_>>>()?,
            executable.outputs().iter().map(shape).collect::<Result<Vec<_>>>()?,
        )
        .donating(donated.map(|(index, _)| index).collect::<Vec<_>>());
        Ok(Compiled { executable, info })
    }

    fn execute(&self, executable: &Arc<engine::Program>, launch: &mut Launch<'_, Self>) -> Result<Event> {
        let inputs = &mut launch.inputs;
        let input = |i| match inputs.take(i) {
            Some(donated) => donated,
            None => inputs[i].clone(),
        };
        let inputs = (0..executable.parameters().len()).map(input).collect();
        for output in executable.run(inputs).map_err(run_error)? {
            launch.outputs.push(output)?;
        }
        Ok(Event::ready())
    }
}

fn run_error(error: RunError) -> Error {
    match error {
        RunError::Input(message) => Error::invalid_argument(message),
        RunError::OutOfMemory(_) => Error::resource_exhausted(error.to_string()),
        _ => Error::internal(error.to_string()),
    }
}

fn shape(ty: &TensorType) -> Result<Shape> {
    let extent = |d: &usize| i64::try_from(*d).map_err(|_| Error::invalid_argument(format!("{ty} is too large")));
    let dimensions = ty.dims.iter().map(extent).collect::<Result<Vec<_>>>()?;
    Ok(Shape::new(element_type(ty.dtype)?, dimensions))
}

/// Both vocabularies, in pairs.
const TYPES: &[(DType, ElementType)] = &[
    (DType::Bool, ElementType::Pred),
    (DType::I2, ElementType::S2),
    (DType::I4, ElementType::S4),
    (DType::I8, ElementType::S8),
    (DType::I16, ElementType::S16),
    (DType::I32, ElementType::S32),
    (DType::I64, ElementType::S64),
    (DType::U2, ElementType::U2),
    (DType::U4, ElementType::U4),
    (DType::U8, ElementType::U8),
    (DType::U16, ElementType::U16),
    (DType::U32, ElementType::U32),
    (DType::U64, ElementType::U64),
    (DType::F4E2M1FN, ElementType::F4E2M1FN),
    (DType::F6E2M3FN, ElementType::F6E2M3FN),
    (DType::F6E3M2FN, ElementType::F6E3M2FN),
    (DType::F8E3M4, ElementType::F8E3M4),
    (DType::F8E4M3, ElementType::F8E4M3),
    (DType::F8E4M3FN, ElementType::F8E4M3FN),
    (DType::F8E4M3FNUZ, ElementType::F8E4M3FNUZ),
    (DType::F8E4M3B11FNUZ, ElementType::F8E4M3B11FNUZ),
    (DType::F8E5M2, ElementType::F8E5M2),
    (DType::F8E5M2FNUZ, ElementType::F8E5M2FNUZ),
    (DType::F8E8M0FNU, ElementType::F8E8M0FNU),
    (DType::Bf16, ElementType::Bf16),
    (DType::F16, ElementType::F16),
    (DType::F32, ElementType::F32),
    (DType::F64, ElementType::F64),
    (DType::C64, ElementType::C64),
    (DType::C128, ElementType::C128),
];

fn dtype(element_type: ElementType) -> Result<DType> {
    let pair = TYPES.iter().find(|(_, pjrt)| *pjrt == element_type);
    pair.map(|(dtype, _)| *dtype).ok_or_else(|| Error::unimplemented(format!("arrays of {element_type}")))
}

fn element_type(dtype: DType) -> Result<ElementType> {
    let pair = TYPES.iter().find(|(engine, _)| *engine == dtype);
    pair.map(|(_, pjrt)| *pjrt).ok_or_else(|| Error::unimplemented(format!("arrays of {}", dtype.name())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_plugin_says_is_valid_and_agrees_with_itself() {
        let capabilities = Cpu::capabilities();
        assert_eq!(capabilities.validate(), Ok(()));
        let range = capabilities.stablehlo.unwrap();
        let numbers = |version: [i64; 3]| version.map(|number| number.to_string()).join(".");
        assert_eq!(range.current.to_string(), numbers(STABLEHLO.current));
        assert_eq!(range.minimum.to_string(), numbers(STABLEHLO.minimum));
        assert_eq!(capabilities.memory_kinds.default_kind.as_deref(), Some(MEMORY));
        assert!(capabilities.program_formats.accepts(ProgramFormat::Mlir));
        assert!(!capabilities.program_formats.accepts(ProgramFormat::Hlo));
    }
}
