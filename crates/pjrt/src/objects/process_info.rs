//! `PJRT_Client_UpdateGlobalProcessInfo`: reports the states of the processes of a distributed program.

use std::ffi::{c_char, c_int};

use pjrt_sys::*;
use pjrt_types::ErrorCode;

use crate::error::Error;
use crate::objects::owners::Client;

/// The state of a process of a distributed program, for [`Client::update_global_process_info`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "PJRT_ProcessInfo")]
pub struct ProcessInfo {
    /// Index of the process in the distributed program.
    pub process_index: i32,
    /// Id of the process's incarnation. The id changes each time the process restarts.
    pub incarnation: u64,
    /// State of the process.
    pub state: ProcessState,
}

/// The state of a process of a distributed program. See [`ProcessInfo`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[doc(alias = "PJRT_ProcessState")]
pub enum ProcessState {
    /// The state is unknown.
    #[default]
    Unspecified,
    /// The process has not started.
    Uninitialized,
    /// The process has left the program.
    Disconnected,
    /// The process takes part in the program.
    Connected,
    /// The process has failed.
    Failed {
        /// Code of the error.
        code: ErrorCode,
        /// Message of the error.
        message: String,
    },
}

impl Client {
    /// Reports the states of the processes of a distributed program to the plugin, so that the plugin can end
    /// collective operations whose participants have failed. `processes` replaces the states of the previous call.
    ///
    /// # Errors
    ///
    /// Returns an error if the error code of a failed process is `OK`, or if a process is listed twice. Returns an
    /// error of kind [`Unsupported`](crate::ErrorKind::Unsupported) if the plugin is older than API 0.73.
    #[doc(alias = "PJRT_Client_UpdateGlobalProcessInfo")]
    pub fn update_global_process_info(&self, processes: &[ProcessInfo]) -> Result<(), Error> {
        let mut infos = processes.iter().map(raw).collect::<Result<Vec<_>, _>>()?;
        for (at, process) in processes.iter().enumerate() {
            let index = process.process_index;
            if processes[..at].iter().any(|other| other.process_index == index) {
                return Err(Error::invalid(format!("process {index} is listed twice")));
            }
        }
        let mut args = PJRT_Client_UpdateGlobalProcessInfo_Args::new();
        args.client = self.inner().raw().as_ptr();
        args.process_infos = infos.as_mut_ptr();
        args.num_process_infos = infos.len();
        // SAFETY: C2 (calls): the client is live, and the array and the messages live through the call.
        unsafe { self.api().call::<slot::PJRT_Client_UpdateGlobalProcessInfo>(&mut args) }
    }
}

fn raw(process: &ProcessInfo) -> Result<PJRT_ProcessInfo, Error> {
    let mut info = PJRT_ProcessInfo::new();
    info.task_id = process.process_index;
    info.incarnation_id = process.incarnation;
    info.state = match &process.state {
        ProcessState::Unspecified => PJRT_ProcessState::PJRT_ProcessState_kUnspecified,
        ProcessState::Uninitialized => PJRT_ProcessState::PJRT_ProcessState_kUninitialized,
        ProcessState::Disconnected => PJRT_ProcessState::PJRT_ProcessState_kDisconnected,
        ProcessState::Connected => PJRT_ProcessState::PJRT_ProcessState_kConnected,
        ProcessState::Failed { code, message } => {
            let index = process.process_index;
            let number = c_int::try_from(code.as_raw()).ok().filter(|number| *number != 0);
            info.error_code = number.ok_or_else(|| Error::invalid(format!("process {index} failed with {code}")))?;
            info.error_message = message.as_ptr().cast::<c_char>();
            info.error_message_size = message.len();
            PJRT_ProcessState::PJRT_ProcessState_kError
        }
    };
    Ok(info)
}
