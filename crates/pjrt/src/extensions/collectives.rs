//! `PJRT_Collectives_Extension`: creates communicators for collective operations outside of compiled programs.

use std::ffi::c_char;
use std::ptr::null_mut;
use std::sync::Arc;

use pjrt_sys::extension_slot as function;
use pjrt_sys::*;

use super::collective_functions::{CollectiveFunctions, CollectivesInner, Context, missing, rank_id};
use super::communicator::Communicator;
use crate::error::Error;
use crate::table::handle::{Handle, Owned};
use crate::table::read;

/// Collective operations on host memory, outside of compiled programs.
/// [`MegascaleContext::collectives`](super::MegascaleContext::collectives) creates this object.
///
/// A framework needs `Collectives` only if it runs programs on CPUs of several processes and connects these processes
/// over Megascale. Programs for TPUs use StableHLO's collective operations.
#[derive(Clone, Debug)]
#[doc(alias = "PJRT_Collectives")]
pub struct Collectives(Arc<CollectivesInner>);

impl Collectives {
    /// Takes ownership of a collectives object. `context` owns the connection that the object uses.
    ///
    /// # Safety
    ///
    /// `raw` is null, or a live object that belongs to the plugin of `functions` and that the caller owns.
    pub(super) unsafe fn new(
        raw: *mut PJRT_Collectives,
        functions: CollectiveFunctions,
        context: Context,
        function: &'static str,
    ) -> Result<Self, Error> {
        let raw = read::object(raw).map_err(|broken| Error::malformed(function, broken))?;
        // SAFETY: this function's contract: the object is live, and the caller owned it.
        let raw = unsafe { Owned::new(raw, functions) };
        Ok(Self(Arc::new(CollectivesInner::new(raw, context))))
    }

    pub(crate) fn handle(&self) -> &Handle<PJRT_Collectives, CollectiveFunctions> {
        self.0.raw()
    }

    /// Connects devices, and returns a communicator for each of this process's ranks, in the order of `ranks`.
    ///
    /// `device_ids` are the global ids of all devices that take part. The rank of a device is the index of its id in
    /// `device_ids`. `clique_ids` are ids on which all processes have agreed, or `None` if the transport does not use
    /// such ids.
    ///
    /// # Errors
    ///
    /// Returns an error if a rank is not an index into `device_ids`, or if the plugin cannot destroy communicators.
    #[doc(alias = "PJRT_Collectives_CreateCommunicators")]
    pub fn communicators(
        &self,
        device_ids: &[i64],
        clique_ids: Option<&[&[u8]]>,
        ranks: &[usize],
    ) -> Result<Vec<Communicator>, Error> {
        type Function = function::PJRT_Collectives_CreateCommunicators;
        let functions = self.0.functions();
        if !functions.supports::<function::PJRT_Collectives_Communicator_Destroy>() {
            // Without this function, the communicators could not be destroyed.
            return Err(missing::<function::PJRT_Collectives_Communicator_Destroy>(&functions.plugin));
        }
        let mut rank_ids = ranks.iter().map(|rank| rank_id(*rank, device_ids.len())).collect::<Result<Vec<_>, _>>()?;
        let (mut ids, sizes): (Vec<*const c_char>, Vec<usize>) =
            clique_ids.unwrap_or_default().iter().map(|id| (id.as_ptr().cast::<c_char>(), id.len())).unzip();
        let mut args = PJRT_Collectives_CreateCommunicators_Args::new();
        args.collectives = self.0.raw().as_ptr();
        (args.device_ids, args.num_device_ids) = (device_ids.as_ptr(), device_ids.len());
        // A null pointer means that the transport does not use clique ids. The pointer of an empty `Vec` is not null.
        args.clique_ids = if clique_ids.is_some() { ids.as_mut_ptr() } else { null_mut() };
        (args.clique_id_sizes, args.num_clique_ids) = (sizes.as_ptr(), ids.len());
        (args.rank_ids, args.num_device_ranks) = (rank_ids.as_mut_ptr(), rank_ids.len());
        // SAFETY: C2 (calls): the collectives are live. The arrays have the given lengths and live through the call.
        unsafe { functions.call::<Function>(&mut args) }?;
        // SAFETY: C3 (objects): the array lives until the deleter runs. The communicators live longer.
        let communicators = unsafe { read::slice(args.communicators, args.num_communicators) };
        let communicators = communicators.map(<[*mut PJRT_Collectives_Communicator]>::to_vec);
        if let Some(deleter) = args.communicators_holder_deleter {
            // SAFETY: C3 (objects): the deleter runs once, with the object that came with it.
            unsafe { deleter(args.communicators_holder) };
        }
        let malformed = |broken| Error::malformed(Function::NAME, broken);
        // Take ownership of all communicators before returning an error, so that the error path destroys them.
        let taken: Vec<Result<Communicator, Error>> = communicators
            .map_err(malformed)?
            .into_iter()
            .map(|raw| {
                let raw = read::object(raw).map_err(malformed)?;
                // SAFETY: C3 (objects): the plugin created the communicator for this caller.
                let raw = unsafe { Owned::new(raw, self.0.clone()) };
                Ok(Communicator::new(raw, device_ids.to_vec()))
            })
            .collect();
        let communicators = taken.into_iter().collect::<Result<Vec<_>, _>>()?;
        if communicators.len() != ranks.len() {
            let message = format!("it returned {} of {} communicators", communicators.len(), ranks.len());
            return Err(Error::malformed_text(Function::NAME, message));
        }
        Ok(communicators)
    }
}
