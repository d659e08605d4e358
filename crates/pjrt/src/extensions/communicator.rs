//! Communicators, through which a device takes part in collective operations.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

use bytemuck::AnyBitPattern;
use pjrt_sys::extension_slot as function;
use pjrt_sys::*;
use pjrt_types::Element;

use super::collective_functions::{CollectivesInner, rank_id};
use crate::element;
use crate::error::Error;
use crate::table::handle::{Destroy, Handle, Owned};
use crate::table::query::serialized;
use crate::table::read;
use crate::upload::loan::Loan;

/// The reduction by which a collective operation combines the elements of several devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "PJRT_Collectives_ReductionKind")]
#[non_exhaustive]
pub enum CollectiveReduction {
    /// The sum.
    Sum,
    /// The product.
    Product,
    /// The smallest element.
    Min,
    /// The largest element.
    Max,
}

impl CollectiveReduction {
    fn raw(self) -> PJRT_Collectives_ReductionKind {
        match self {
            Self::Sum => PJRT_Collectives_ReductionKind::PJRT_COLLECTIVES_REDUCTION_SUM,
            Self::Product => PJRT_Collectives_ReductionKind::PJRT_COLLECTIVES_REDUCTION_PRODUCT,
            Self::Min => PJRT_Collectives_ReductionKind::PJRT_COLLECTIVES_REDUCTION_MIN,
            Self::Max => PJRT_Collectives_ReductionKind::PJRT_COLLECTIVES_REDUCTION_MAX,
        }
    }
}

/// The program executions that a collective operation connects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "PJRT_Collectives_CollectiveOpKind")]
#[non_exhaustive]
pub enum CollectiveScope {
    /// Executions of several programs, or of partitions of one program. [`CollectiveRun::op_id`] is the channel id.
    CrossModule,
    /// Replicas of one program. [`CollectiveRun::op_id`] is the id of the program.
    #[default]
    CrossReplica,
}

/// Identifies the collective operation in which a call takes part. All devices must pass the same values, except for
/// `num_local_participants`.
#[derive(Clone, Copy, Debug)]
#[doc(alias = "PJRT_Collectives_CpuExecutor")]
pub struct CollectiveRun {
    /// Id of the program's execution.
    pub run_id: i64,
    /// Number of the communicator's devices that belong to this process.
    pub num_local_participants: i32,
    /// The program executions that take part.
    pub scope: CollectiveScope,
    /// Id of the operation within `scope`.
    pub op_id: i64,
    /// Maximum time to wait for the other devices.
    pub timeout: Duration,
}

impl CollectiveRun {
    /// Returns the struct of the C API for this operation. The struct points to `device_ids`.
    fn raw(&self, device_ids: &mut [i64]) -> PJRT_Collectives_CpuExecutor {
        type Kind = PJRT_Collectives_CollectiveOpKind;
        PJRT_Collectives_CpuExecutor {
            run_id: self.run_id,
            global_device_ids: device_ids.as_mut_ptr(),
            num_global_device_ids: device_ids.len(),
            num_local_participants: self.num_local_participants,
            collective_op_kind: match self.scope {
                CollectiveScope::CrossModule => Kind::PJRT_COLLECTIVES_COLLECTIVE_OP_KIND_CROSS_MODULE,
                CollectiveScope::CrossReplica => Kind::PJRT_COLLECTIVES_COLLECTIVE_OP_KIND_CROSS_REPLICA,
            },
            op_id: self.op_id,
            timeout_in_ns: i64::try_from(self.timeout.as_nanos()).unwrap_or(i64::MAX),
        }
    }
}

// SAFETY: the body is one call of the object's destroy function.
unsafe impl Destroy<Arc<CollectivesInner>> for PJRT_Collectives_Communicator {
    unsafe fn destroy(owner: &Arc<CollectivesInner>, raw: *mut Self) -> Result<(), Error> {
        let mut args = PJRT_Collectives_Communicator_Destroy_Args::new();
        args.communicator = raw;
        // SAFETY: C2 (calls): the only input is a live object that is not used afterwards, by this function's contract.
        unsafe { owner.functions().call::<function::PJRT_Collectives_Communicator_Destroy>(&mut args) }
    }
}

/// The object through which one device takes part in collective operations.
/// [`Collectives::communicators`](super::Collectives::communicators) creates communicators.
///
/// A collective operation blocks until all devices take part, so each device needs its own thread.
#[derive(Debug)]
#[doc(alias = "PJRT_Collectives_Communicator")]
pub struct Communicator {
    raw: Owned<PJRT_Collectives_Communicator, Arc<CollectivesInner>>,
    /// The global ids of all devices, in the order of their ranks.
    device_ids: Vec<i64>,
}

/// Memory for a collective operation. The plugin reads `send` and writes to `receive`.
struct Memory<T> {
    send: Vec<T>,
    receive: Vec<T>,
}

/// The addresses of the vectors in a [`Memory`], and their sizes in bytes.
struct Addresses {
    send: *mut c_void,
    send_size: usize,
    receive: *mut c_void,
    receive_size: usize,
}

impl Communicator {
    pub(super) fn new(raw: Owned<PJRT_Collectives_Communicator, Arc<CollectivesInner>>, device_ids: Vec<i64>) -> Self {
        Self { raw, device_ids }
    }

    pub(crate) fn handle(&self) -> &Handle<PJRT_Collectives_Communicator, Arc<CollectivesInner>> {
        &self.raw
    }

    /// Returns the number of devices that the communicator connects.
    pub fn size(&self) -> usize {
        self.device_ids.len()
    }

    /// Returns a human-readable description. The plugin defines its format.
    #[doc(alias = "PJRT_Collectives_Communicator_ToString")]
    pub fn description(&self) -> Result<String, Error> {
        type Function = function::PJRT_Collectives_Communicator_ToString;
        let mut args = PJRT_Collectives_Communicator_ToString_Args::new();
        args.communicator = self.raw.as_ptr();
        // SAFETY: C2 (calls): the communicator is live.
        unsafe { self.raw.owner().functions().call::<Function>(&mut args) }?;
        let (holder, deleter) = (args.str_holder, args.str_holder_deleter);
        // SAFETY: the call succeeded and returned the bytes, their length, their owner and the owner's deleter.
        let text = unsafe { serialized(Function::NAME, args.str_, args.str_size, holder, deleter) }?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Reduces the elements of all devices, element by element, and returns the results on all devices. All devices
    /// must send the same number of elements.
    #[doc(alias = "PJRT_Collectives_Communicator_AllReduce")]
    pub fn all_reduce<T: Element + AnyBitPattern>(
        &mut self,
        send: Vec<T>,
        reduction: CollectiveReduction,
        run: &CollectiveRun,
    ) -> Result<Vec<T>, Error> {
        let count = send.len();
        self.run::<function::PJRT_Collectives_Communicator_AllReduce, T>(send, count, run, |at, executor| {
            let mut args = PJRT_Collectives_Communicator_AllReduce_Args::new();
            args.communicator = self.raw.as_ptr();
            (args.send_buffer_ptr, args.send_buffer_size) = (at.send, at.send_size);
            (args.recv_buffer_ptr, args.recv_buffer_size) = (at.receive, at.receive_size);
            (args.primitive_type, args.count) = (raw_type::<T>(), count);
            (args.reduction_kind, args.cpu_executor) = (reduction.raw(), executor);
            (args, |args| args.event)
        })
    }

    /// Reduces the elements of all devices, element by element, and splits the results into one equal part for each
    /// device. The parts are assigned to the devices in the order of the ranks. Returns the part of this device. All
    /// devices must send the same number of elements.
    ///
    /// # Errors
    ///
    /// Returns an error if the number of elements is not a multiple of the number of devices.
    #[doc(alias = "PJRT_Collectives_Communicator_ReduceScatter")]
    pub fn reduce_scatter<T: Element + AnyBitPattern>(
        &mut self,
        send: Vec<T>,
        reduction: CollectiveReduction,
        run: &CollectiveRun,
    ) -> Result<Vec<T>, Error> {
        let count = self.part(send.len())?;
        self.run::<function::PJRT_Collectives_Communicator_ReduceScatter, T>(send, count, run, |at, executor| {
            let mut args = PJRT_Collectives_Communicator_ReduceScatter_Args::new();
            args.communicator = self.raw.as_ptr();
            (args.send_buffer_ptr, args.send_buffer_size) = (at.send, at.send_size);
            (args.recv_buffer_ptr, args.recv_buffer_size) = (at.receive, at.receive_size);
            (args.primitive_type, args.count) = (raw_type::<T>(), count);
            (args.reduction_kind, args.cpu_executor) = (reduction.raw(), executor);
            (args, |args| args.event)
        })
    }

    /// Gathers the elements of all devices, in the order of the ranks. Every device receives all elements. All devices
    /// must send the same number of elements.
    ///
    /// # Errors
    ///
    /// Returns an error if the size of the received elements exceeds the address space.
    #[doc(alias = "PJRT_Collectives_Communicator_AllGather")]
    pub fn all_gather<T: Element + AnyBitPattern>(
        &mut self,
        send: Vec<T>,
        run: &CollectiveRun,
    ) -> Result<Vec<T>, Error> {
        let count = send.len();
        let all = size_of_val(send.as_slice()).checked_mul(self.size()).filter(|size| isize::try_from(*size).is_ok());
        if all.is_none() {
            return Err(Error::invalid(format!("{count} elements of each of {} devices are too many", self.size())));
        }
        let received = count * self.size();
        self.run::<function::PJRT_Collectives_Communicator_AllGather, T>(send, received, run, |at, executor| {
            let mut args = PJRT_Collectives_Communicator_AllGather_Args::new();
            args.communicator = self.raw.as_ptr();
            (args.send_buffer_ptr, args.send_buffer_size) = (at.send, at.send_size);
            (args.recv_buffer_ptr, args.recv_buffer_size) = (at.receive, at.receive_size);
            (args.primitive_type, args.count, args.cpu_executor) = (raw_type::<T>(), count, executor);
            (args, |args| args.event)
        })
    }

    /// Sends elements to the devices whose ranks are in `targets`, and returns the same number of elements from the
    /// device of rank `source`. If `source` is `None`, the returned elements are zero.
    ///
    /// # Errors
    ///
    /// Returns an error if a rank is not less than the number of devices.
    #[doc(alias = "PJRT_Collectives_Communicator_CollectivePermute")]
    pub fn collective_permute<T: Element + AnyBitPattern>(
        &mut self,
        send: Vec<T>,
        source: Option<usize>,
        targets: &[usize],
        run: &CollectiveRun,
    ) -> Result<Vec<T>, Error> {
        let count = send.len();
        let source_rank = source.map(|source| rank_id(source, self.size())).transpose()?;
        let ranks = targets.iter().map(|target| rank_id(*target, self.size()));
        let mut targets = ranks.collect::<Result<Vec<i64>, Error>>()?;
        self.run::<function::PJRT_Collectives_Communicator_CollectivePermute, T>(send, count, run, |at, executor| {
            let mut args = PJRT_Collectives_Communicator_CollectivePermute_Args::new();
            args.communicator = self.raw.as_ptr();
            (args.send_buffer_ptr, args.send_buffer_size) = (at.send, at.send_size);
            (args.recv_buffer_ptr, args.recv_buffer_size) = (at.receive, at.receive_size);
            (args.primitive_type, args.count, args.cpu_executor) = (raw_type::<T>(), count, executor);
            (args.has_source_rank, args.source_rank) = (source_rank.is_some().into(), source_rank.unwrap_or_default());
            (args.target_ranks, args.num_target_ranks) = (targets.as_mut_ptr(), targets.len());
            (args, |args| args.event)
        })
    }

    /// Splits the elements into one equal part for each device, and sends the parts to the devices in the order of the
    /// ranks. Returns the parts that the devices sent to this device, in the order of the ranks.
    ///
    /// # Errors
    ///
    /// Returns an error if the number of elements is not a multiple of the number of devices.
    #[doc(alias = "PJRT_Collectives_Communicator_AllToAll")]
    pub fn all_to_all<T: Element + AnyBitPattern>(
        &mut self,
        send: Vec<T>,
        run: &CollectiveRun,
    ) -> Result<Vec<T>, Error> {
        let (count, received) = (self.part(send.len())?, send.len());
        let sizes = vec![count * size_of::<T>(); self.size()];
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        self.run::<function::PJRT_Collectives_Communicator_AllToAll, T>(send, received, run, |at, executor| {
            let parts = |data: *mut c_void| -> Vec<*mut c_void> {
                // The addresses are within the memory that begins at `data`, so they do not wrap around.
                (0..sizes.len()).map(|part| data.wrapping_byte_add(part * count * size_of::<T>())).collect()
            };
            (sends, receives) = (parts(at.send), parts(at.receive));
            let mut args = PJRT_Collectives_Communicator_AllToAll_Args::new();
            args.communicator = self.raw.as_ptr();
            (args.send_buffers_ptrs, args.send_buffers_sizes) = (sends.as_mut_ptr(), sizes.as_ptr());
            (args.recv_buffers_ptrs, args.recv_buffers_sizes) = (receives.as_mut_ptr(), sizes.as_ptr());
            (args.num_send_buffers, args.num_recv_buffers) = (sends.len(), receives.len());
            (args.primitive_type, args.count, args.cpu_executor) = (raw_type::<T>(), count, executor);
            (args, |args| args.event)
        })
    }

    /// Returns the number of elements for each device if `len` elements are split among all devices. Returns an error
    /// if `len` is not a multiple of the number of devices.
    fn part(&self, len: usize) -> Result<usize, Error> {
        if len.is_multiple_of(self.size()) {
            return Ok(len / self.size());
        }
        Err(Error::invalid(format!("{len} elements cannot be divided among {} devices", self.size())))
    }

    /// Calls the function `S` with the elements of `send`, waits for the operation, and returns the elements that the
    /// plugin received. `received` is the number of these elements. `start` returns the arguments of `S`, and a
    /// function that reads the operation's event from them.
    fn run<S: Slot<Table = PJRT_Collectives_Extension, Return = *mut PJRT_Error>, T: Element + AnyBitPattern>(
        &self,
        send: Vec<T>,
        received: usize,
        run: &CollectiveRun,
        start: impl FnOnce(&Addresses, *mut PJRT_Collectives_CpuExecutor) -> (S::Args, fn(&S::Args) -> *mut PJRT_Event),
    ) -> Result<Vec<T>, Error> {
        let api = self.raw.api();
        element::check(T::TYPE, api.version())?;
        for (is_supported, name) in [
            (api.supports::<slot::PJRT_Event_Await>(), slot::PJRT_Event_Await::NAME),
            (api.supports::<slot::PJRT_Event_IsReady>(), slot::PJRT_Event_IsReady::NAME),
        ] {
            if !is_supported {
                // Without this function, the end of the operation would be unknown.
                return Err(Error::missing(name, 0, api.version()));
            }
        }
        let mut loan = Loan::new(Memory { send, receive: vec![T::zeroed(); received] });
        let memory = loan.data_mut();
        let addresses = Addresses {
            send: memory.send.as_mut_ptr().cast(),
            send_size: size_of_val(memory.send.as_slice()),
            receive: memory.receive.as_mut_ptr().cast(),
            receive_size: size_of_val(memory.receive.as_slice()),
        };
        let mut device_ids = self.device_ids.clone();
        let mut executor = run.raw(&mut device_ids);
        let (mut args, event) = start(&addresses, &raw mut executor);
        // SAFETY: C2 (calls): the communicator is live. The arrays and executor live through the call, and the memory
        // until the event is ready, or is leaked.
        if let Err(error) = unsafe { self.raw.owner().functions().call::<S>(&mut args) } {
            // By contract C5, the plugin does not use the memory after a failed call.
            loan.give_back();
            return Err(error);
        }
        let event = read::object(event(&args)).map_err(|broken| Error::malformed(S::NAME, broken))?;
        // SAFETY: C3 (objects): the plugin created the event for this caller.
        let event = unsafe { Owned::<PJRT_Event, _>::new(event, self.raw.owner().clone()) };
        let outcome = event.query::<slot::PJRT_Event_Await>();
        if outcome.is_err() && !matches!(event.query::<slot::PJRT_Event_IsReady>(), Ok(true)) {
            // The plugin may still use the memory. Dropping `loan` without a call of `take` leaks the memory.
            return outcome.map(|()| Vec::new());
        }
        let memory = loan.take();
        outcome.map(|()| memory.receive)
    }
}

fn raw_type<T: Element>() -> PJRT_Buffer_Type {
    PJRT_Buffer_Type(T::TYPE.as_raw())
}
