//! The functions and fields that a side deliberately does not use, with the reasons.

/// A side of the C API.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    Caller,
    Vendor,
    Both,
}

impl Side {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Caller => "caller's side",
            Self::Vendor => "vendor's side",
            Self::Both => "project",
        }
    }

    pub(super) fn heading(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Vendor => "vendor",
            Self::Both => "both",
        }
    }

    pub(super) fn verb(self) -> &'static str {
        if self == Self::Vendor { "implement" } else { "call" }
    }
}

/// Functions and fields that a side does not use, with the reason. An item is `PJRT_X_Extension` for all functions of a
/// table, `PJRT_X` for a function or all fields of a struct, or `PJRT_X_Args::field` for one field.
pub(super) struct NotWanted {
    pub(super) side: Side,
    /// The reason, as a sentence for the page.
    pub(super) reason: &'static str,
    pub(super) items: &'static [&'static str],
}

impl NotWanted {
    pub(super) fn covers(&self, side: Side) -> bool {
        self.side == Side::Both || self.side == side
    }
}

/// The rows of the last table on the page, in their order.
pub(super) const NOT_WANTED: &[NotWanted] = &[
    NotWanted {
        side: Side::Both,
        reason: "Deprecated upstream since API 0.115, which removed its header.",
        items: &["PJRT_Triton_Extension"],
    },
    NotWanted {
        side: Side::Both,
        reason: "XLA's C++ frameworks share asynchronous values with plugins of the same build through these tables. \
                 The functions of the main table and of the raw buffer extension do the same for all plugins.",
        items: &[
            "PJRT_DeviceEvent",
            "PJRT_DeviceEvent_FunctionTable",
            "PJRT_DeviceEventPromise",
            "PJRT_DeviceEventPromise_FunctionTable",
            "PJRT_DeviceEventVector",
            "PJRT_RawBuffer_FunctionTable",
        ],
    },
    NotWanted {
        side: Side::Caller,
        reason: "Older plugins have no table in the object. The functions of the main table and of the extension do the \
                 same for all plugins.",
        items: &[
            "PJRT_Error",
            "PJRT_Error_FunctionTable",
            "PJRT_Memory",
            "PJRT_Memory_FunctionTable",
            "PJRT_RawBuffer",
        ],
    },
    NotWanted {
        side: Side::Caller,
        reason: "`PLUGIN_Profiler_CollectData` returns the same profile, and every profiler has it.",
        items: &["PLUGIN_Profiler_Consume", "PLUGIN_Profiler_ConsumeResult_Destroy", "PLUGIN_Profiler_Serialize"],
    },
    NotWanted {
        side: Side::Vendor,
        reason: "The result of `PLUGIN_Profiler_Consume` suffices to serialize it.",
        items: &["PLUGIN_Profiler_Serialize_Args::profiler"],
    },
    NotWanted {
        side: Side::Vendor,
        reason: "A backend compiles a program in one call. Its phases are not visible to frameworks.",
        items: &["PJRT_PhaseCompile_Extension"],
    },
    NotWanted {
        side: Side::Vendor,
        reason: "User data belongs to the framework, which frees it. The plugin neither copies nor stores it.",
        items: &["PJRT_FFI_Type_Info", "PJRT_FFI_Type_Register_Args::type_info"],
    },
    NotWanted {
        side: Side::Vendor,
        reason: "Only libtpu and XLA's GPU plugins can offer these. Their functions name a platform's own hardware, \
                 compiler and network.",
        items: &[
            "PJRT_Gpu_Custom_Call",
            "PJRT_Megascale_Extension",
            "PJRT_MultiSlice_Extension",
            "PJRT_TpuExecutable_Extension",
            "PJRT_TpuTopology_Extension",
            "PJRT_TpuTopology_SliceConfig",
        ],
    },
    NotWanted {
        side: Side::Vendor,
        reason: "These change or replace steps of XLA's own compiler and partitioner, and exchange its internal messages.",
        items: &[
            "PJRT_Custom_Partitioner_Extension",
            "PJRT_Xla_Transform_Extension",
            "PJRT_XlaTransform_Args",
            "PJRT_XlaTransform_Callbacks",
            "PJRT_XlaTransform_string",
            "PJRT_XlaTransform_version_and_error",
            "PJRT_HloPassPipelineTrace",
            "JAX_CustomCallPartitioner_Callbacks",
            "JAX_CustomCallPartitioner_InferShardingFromOperands_Args",
            "JAX_CustomCallPartitioner_Partition_Args",
            "JAX_CustomCallPartitioner_PropagateUserSharding_Args",
            "JAX_CustomCallPartitioner_aval",
            "JAX_CustomCallPartitioner_string",
            "JAX_CustomCallPartitioner_version_and_error",
        ],
    },
    NotWanted {
        side: Side::Caller,
        reason: "The older of two interfaces for transfers between processes. `CrossHostSendBuffers` and \
                 `CrossHostReceiveBuffers` do the same without an exchange of descriptors.",
        items: &[
            "PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers",
            "PJRT_Buffer_CopyToRemoteDevice",
            "PJRT_Transfers_CrossHostRecvNotifierInfo",
            "PJRT_Transfers_CrossHostRemoteSendCallbackInfo",
        ],
    },
    NotWanted {
        side: Side::Vendor,
        reason: "The older of two interfaces for transfers between processes. Its functions report `UNIMPLEMENTED`, and \
                 frameworks then use the newer one.",
        items: &[
            "PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args::client",
            "PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args::num_shapes",
            "PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args::shape_num_dims",
            "PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args::num_dims",
            "PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args::element_types",
            "PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args::layouts",
            "PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args::device",
            "PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args::notifier",
            "PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args::buffers",
            "PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args::num_buffers",
            "PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args::allow_cancel_notifier",
            "PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice_Args::buffer",
            "PJRT_Transfers_CrossHostRecvNotifierInfo::user_arg",
            "PJRT_Transfers_CrossHostRecvNotifierInfo::notifier",
        ],
    },
    NotWanted {
        side: Side::Vendor,
        reason: "Collectives outside programs, between threads of the host. Only Megascale creates them.",
        items: &["PJRT_Collectives_Extension", "PJRT_Collectives_CpuExecutor", "PJRT_Megascale_ProcessesInfo"],
    },
    NotWanted {
        side: Side::Caller,
        reason: "A transformation is found by its name and stage.",
        items: &["PJRT_Clear_Xla_Transform_Args::callbacks"],
    },
    NotWanted {
        side: Side::Caller,
        reason: "Megascale's own error reports: messages that are not published, collected by its own tools.",
        items: &[
            "PJRT_Megascale_RegisterErrorHandler",
            "PJRT_Megascale_UnregisterErrorHandler",
            "PJRT_Megascale_ErrorAggregator_Create",
            "PJRT_Megascale_ErrorAggregator_Delete",
            "PJRT_Megascale_ErrorDigest_Delete",
            "PJRT_Megascale_ErrorAggregator_AddError",
            "PJRT_Megascale_ErrorAggregator_ProcessAndShutdown",
            "PJRT_Megascale_ErrorAggregator_LogErrorDigest",
            "PJRT_Megascale_ErrorAggregator_Size",
            "PJRT_Megascale_ErrorAggregator_Active",
            "PJRT_Megascale_GetOrCreateRuntimeError",
            "PJRT_Megascale_GetInterfaceAddressesHelper",
        ],
    },
    NotWanted {
        side: Side::Vendor,
        reason: "Executables of this SDK contain their options, and its own envelope checks them.",
        items: &["PJRT_Client_Load_Args::compile_options", "PJRT_Client_Load_Args::compile_options_size"],
    },
    NotWanted {
        side: Side::Caller,
        reason: "Deprecated upstream. `PJRT_Executable_Fingerprint` returns the same.",
        items: &["PJRT_LoadedExecutable_Fingerprint"],
    },
    NotWanted {
        side: Side::Caller,
        reason: "The memory, which is always given, determines the device.",
        items: &["PJRT_Client_CreateUninitializedBuffer_Args::device"],
    },
    NotWanted {
        side: Side::Vendor,
        reason: "Loading needs neither the origin of a program nor a configuration of several TPU slices.",
        items: &["PJRT_Executable_DeserializeAndLoad_Args::load_options", "PJRT_LoadOptions"],
    },
    NotWanted {
        side: Side::Caller,
        reason: "The configuration is set for each run, as an option of `PJRT_ExecuteOptions`.",
        items: &["PJRT_LoadOptions::multi_slice_config"],
    },
];
