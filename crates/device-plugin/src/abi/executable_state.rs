//! What executables are: the backend's program, and everything frameworks ask about it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use pjrt_sys::{PJRT_Buffer_Type, PJRT_Device, PJRT_Executable, PJRT_LoadedExecutable, PJRT_LogicalDeviceIds};

use crate::abi::buffer_handle::Form;
use crate::abi::client_state::Client;
use crate::abi::counted::{Counted, Ref};
use crate::abi::layouts::LayoutList;
use crate::abi::lists::{NamedValues, Pointers, Texts};
use crate::abi::raw::handles;
use crate::hlo;
use crate::{Backend, CompileOptions, Compiled, DeviceAssignment, Error, ExecutableInfo, Placement, Program, Result};

/// What a `PJRT_Executable*` points to, counted.
pub(crate) struct Executable<B: Backend> {
    pub(crate) client: Ref<Client<B>>,
    pub(crate) compiled: Arc<B::Executable>,
    pub(crate) info: ExecutableInfo,
    pub(crate) program: Program,
    /// As received: the fields this SDK gives no meaning are kept for whoever asks.
    pub(crate) options: Vec<u8>,
    pub(crate) assignment: DeviceAssignment,
    /// Whether a launch may choose any device.
    pub(crate) portable: bool,
    /// Indices of the addressable devices of the assignment, in its order.
    pub(crate) devices: Vec<usize>,
    pub(crate) logical_ids: Vec<PJRT_LogicalDeviceIds>,
    pub(crate) parameter_forms: Vec<Form>,
    pub(crate) output_forms: Vec<Form>,
    /// For each parameter whether an execution uses it up.
    pub(crate) donated: Vec<bool>,
    /// Whether there is one that it does.
    pub(crate) donates: bool,
    /// For each of `devices` where the outputs go.
    pub(crate) placements: Vec<Vec<Placement>>,
    pub(crate) fingerprint: String,
    pub(crate) output_types: Vec<PJRT_Buffer_Type>,
    pub(crate) output_dims: Vec<i64>,
    pub(crate) output_ranks: Vec<usize>,
    pub(crate) output_kinds: Texts,
    pub(crate) parameter_kinds: Texts,
    pub(crate) output_shardings: Option<Texts>,
    pub(crate) parameter_shardings: Option<Texts>,
    pub(crate) output_layouts: LayoutList,
    pub(crate) parameter_layouts: LayoutList,
    pub(crate) cost: OnceLock<Result<NamedValues>>,
    /// The program with what frameworks want to read beside it; none where that is the program itself.
    readable: OnceLock<Option<Program>>,
}

/// What a `PJRT_LoadedExecutable*` points to.
pub(crate) struct LoadedExecutable<B: Backend> {
    pub(crate) executable: Arc<Executable<B>>,
    pub(crate) device_handles: Pointers<PJRT_Device>,
    deleted: AtomicBool,
}

handles! {
    PJRT_Executable => Executable<P::Backend>;
    PJRT_LoadedExecutable => LoadedExecutable<P::Backend>;
}

impl<B: Backend> Executable<B> {
    pub(crate) fn compile(client: &Counted<Client<B>>, program: Program, options: &[u8]) -> Result<Arc<Self>> {
        let parsed = parse_options(options)?;
        let assignment = assign(client, &parsed)?;
        let compiled = client.backend.compile(&program, &parsed)?;
        Self::new(client, compiled, program, options.to_vec(), &parsed, assignment)
    }

    pub(crate) fn new(
        client: &Counted<Client<B>>,
        compiled: Compiled<B::Executable>,
        program: Program,
        options: Vec<u8>,
        parsed: &CompileOptions,
        assignment: DeviceAssignment,
    ) -> Result<Arc<Self>> {
        let Compiled { executable, info } = compiled;
        let mut donated = vec![false; info.parameters.len()];
        for index in &info.donated {
            let slot = donated.get_mut(*index);
            *slot.ok_or_else(|| broken(format!("parameter {index} is donated, but does not exist")))? = true;
        }
        let (mut devices, mut logical_ids) = (Vec::new(), Vec::new());
        for replica in 0..assignment.num_replicas() {
            for partition in 0..assignment.num_partitions() {
                let id = assignment.device(replica, partition).unwrap_or(-1);
                let device = client.device_of_id(id)?;
                if client.devices[device].description().info.addressable {
                    devices.push(device);
                    let logical = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
                    logical_ids
                        .push(PJRT_LogicalDeviceIds { replica: logical(replica), partition: logical(partition) });
                }
            }
        }
        let device = *devices
            .first()
            .ok_or_else(|| Error::invalid_argument("no device of the assignment is addressable by this process"))?;
        let output_kinds = kinds(client, device, &info.output_memory_kinds, info.outputs.len(), "output")?;
        let parameter_kinds = kinds(client, device, &info.parameter_memory_kinds, info.parameters.len(), "parameter")?;
        let shardings = |given: &Option<Vec<Vec<u8>>>, expected: usize, what: &str| match given {
            Some(given) if given.len() != expected => {
                Err(broken(format!("{} shardings for {expected} {what}s", given.len())))
            }
            given => Ok(given.as_ref().map(|texts| Texts::new(texts.iter().cloned()))),
        };
        Ok(Arc::new(Self {
            placements: devices.iter().map(|device| place(client, *device, &output_kinds)).collect::<Result<_>>()?,
            fingerprint: info.fingerprint.clone().unwrap_or_else(|| fingerprint(client, &program, &options)),
            output_types: info.outputs.iter().map(|shape| PJRT_Buffer_Type(shape.element_type.as_raw())).collect(),
            output_dims: info.outputs.iter().flat_map(|shape| &shape.dimensions).copied().collect(),
            output_ranks: info.outputs.iter().map(|shape| shape.dimensions.len()).collect(),
            output_kinds: Texts::new(output_kinds),
            parameter_kinds: Texts::new(parameter_kinds),
            output_shardings: shardings(&info.output_shardings, info.outputs.len(), "output")?,
            parameter_shardings: shardings(&info.parameter_shardings, info.parameters.len(), "parameter")?,
            output_layouts: LayoutList::of_shapes(&info.outputs),
            parameter_layouts: LayoutList::of_shapes(&info.parameters),
            parameter_forms: info.parameters.iter().map(Form::new).collect(),
            output_forms: info.outputs.iter().map(Form::new).collect(),
            cost: OnceLock::new(),
            readable: OnceLock::new(),
            client: client.share(),
            compiled: Arc::new(executable),
            portable: parsed.compile_portable_executable,
            info,
            program,
            options,
            assignment,
            devices,
            logical_ids,
            donates: donated.contains(&true),
            donated,
        }))
    }

    /// Where the outputs of a launch on that device go.
    #[inline]
    pub(crate) fn placements_on(&self, device: usize) -> Result<std::borrow::Cow<'_, [Placement]>> {
        if let Some(at) = self.devices.iter().position(|assigned| *assigned == device) {
            return Ok(self.placements[at].as_slice().into());
        }
        let kinds = kinds(&self.client, device, &self.info.output_memory_kinds, self.info.outputs.len(), "output")?;
        place(&self.client, device, &kinds).map(Into::into)
    }

    /// The program as frameworks read it back: the backend's, or the one received.
    pub(crate) fn readable_program(&self) -> &Program {
        let program = self.info.optimized.as_ref().unwrap_or(&self.program);
        let counts = (self.assignment.num_replicas(), self.assignment.num_partitions());
        self.readable.get_or_init(|| hlo::with_config(program, counts.0, counts.1)).as_ref().unwrap_or(program)
    }

    /// Gives the executable to the framework, which destroys it.
    pub(crate) fn into_raw(self: Arc<Self>) -> *mut PJRT_Executable {
        Arc::into_raw(self).cast_mut().cast()
    }

    /// Gives the framework a loaded form, which it destroys.
    pub(crate) fn load(self: Arc<Self>) -> *mut PJRT_LoadedExecutable {
        let all = self.client.device_handles.as_slice();
        let device_handles = self.devices.iter().map(|device| all[*device]).collect();
        let loaded = LoadedExecutable { executable: self, device_handles, deleted: AtomicBool::new(false) };
        Box::into_raw(Box::new(loaded)).cast()
    }
}

impl<B: Backend> LoadedExecutable<B> {
    pub(crate) fn delete(&self) {
        self.deleted.store(true, Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Acquire)
    }
}

fn broken(what: String) -> Error {
    Error::internal(format!("the backend contradicts itself: {what}"))
}

/// The typed part of serialized compile options.
pub(crate) fn parse_options(options: &[u8]) -> Result<CompileOptions> {
    CompileOptions::decode(options).map_err(|error| Error::argument(error.to_string()))
}

/// The device assignment of a compilation: the framework's, or the first addressable devices.
pub(crate) fn assign<B: Backend>(client: &Client<B>, options: &CompileOptions) -> Result<DeviceAssignment> {
    let count = |n: i64, what: &str| {
        let count = usize::try_from(n).ok().filter(|n| *n <= client.devices.len());
        count.ok_or_else(|| {
            Error::invalid_argument(format!("{n} {what}, but there are {} devices", client.devices.len()))
        })
    };
    let replicas = count(options.num_replicas, "replicas")?;
    let partitions = count(options.num_partitions, "partitions")?;
    if let Some(assignment) = &options.device_assignment {
        if (assignment.num_replicas(), assignment.num_partitions()) != (replicas, partitions) {
            return Err(Error::invalid_argument(format!(
                "the device assignment is for {} replicas of {} partitions, the options for {replicas} of {partitions}",
                assignment.num_replicas(),
                assignment.num_partitions(),
            )));
        }
        return Ok(assignment.clone());
    }
    if options.device_ordinal >= 0 && replicas == 1 && partitions == 1 {
        client.device_of_id(options.device_ordinal)?;
        return Ok(one(options.device_ordinal));
    }
    default_assignment(client, replicas, partitions)
}

fn one(device: i64) -> DeviceAssignment {
    // One replica of one partition on one device is always consistent.
    DeviceAssignment::new(1, 1, vec![device]).unwrap_or_else(|| unreachable!("one device is one device"))
}

/// The first addressable devices, replica-major.
pub(crate) fn default_assignment<B: Backend>(
    client: &Client<B>,
    replicas: usize,
    partitions: usize,
) -> Result<DeviceAssignment> {
    let addressable = client.topology.descriptions.iter().filter(|device| device.info.addressable);
    let count = replicas.saturating_mul(partitions);
    let ids: Vec<i64> = addressable.map(|device| device.info.id.into()).take(count).collect();
    let found = ids.len();
    DeviceAssignment::new(replicas, partitions, ids).ok_or_else(|| {
        Error::invalid_argument(format!(
            "{replicas} replicas of {partitions} partitions need {count} devices, and {found} are addressable"
        ))
    })
}

/// The kind of memory of each output or parameter.
fn kinds<B: Backend>(
    client: &Client<B>,
    device: usize,
    given: &[String],
    expected: usize,
    what: &str,
) -> Result<Vec<String>> {
    if given.is_empty() {
        let memory = client.default_placement(device)?.memory;
        return Ok(vec![client.memories[memory].info.kind.clone(); expected]);
    }
    if given.len() != expected {
        return Err(broken(format!("{} memory kinds for {expected} {what}s", given.len())));
    }
    Ok(given.to_vec())
}

fn place<B: Backend>(client: &Client<B>, device: usize, kinds: &[String]) -> Result<Vec<Placement>> {
    kinds.iter().map(|kind| client.placement_of_kind(device, kind)).collect()
}

/// Hash of everything a compilation depends on.
fn fingerprint<B: Backend>(client: &Client<B>, program: &Program, options: &[u8]) -> String {
    let hash = |seed: u64| {
        let mut hasher = DefaultHasher::new();
        seed.hash(&mut hasher);
        (&client.topology.platform_name, &client.topology.platform_version).hash(&mut hasher);
        (&program.format, &program.code[..], options).hash(&mut hasher);
        hasher.finish()
    };
    format!("{:016x}{:016x}", hash(0), hash(1))
}
