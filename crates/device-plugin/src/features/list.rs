//! The methods of [`Features`] that list a feature, and the check that a backend lists each feature that it implements.

use std::marker::PhantomData;

use crate::Backend;
use crate::backend::{Features, functions};
use crate::features::table::for_each_feature;
use crate::features::{
    AbiVersions, AheadOfTime, AsyncReads, AtExit, BufferAddresses, CostAnalysis, CrossHostTransfers, DeviceCopies,
    Distributed, DmaMappings, DynamicShapes, ExecutableMetadata, FailureReports, ForeignViews, HostMemoryAllocator,
    MemoryStatistics, MultiDevice, NamedOptions, PiecewiseUploads, Platform, Poisoning, Profiler, RawBuffers,
    Serialization, StorageLayouts, Streams, Tracking,
};

/// Defines the methods that list a feature. The method requires the feature's trait, so a backend can list only
/// features that it implements. `#[device_plugin]` rejects a backend that implements a trait without listing its
/// feature.
macro_rules! list {
    (
        ($d:tt)
        $($(#[$meta:meta])* $method:ident: $trait:ident { $($function:ident: $signature:ty,)+ })+
    ) => {
        impl<B: Backend> Features<B> {
            $(
                $(#[$meta])*
                #[must_use]
                pub const fn $method(self) -> Self
                where
                    B: $trait,
                {
                    let functions =
                        functions::$trait { $($function: <B as $trait>::$function,)+ backend: PhantomData };
                    Self { $method: Some(functions), ..self }
                }
            )+

            /// Returns the names of the listed features. The name of a feature is the name of the method that lists it.
            pub fn names(&self) -> Vec<&'static str> {
                let features = [
                    $((self.$method.is_some(), stringify!($method)),)+
                    (self.ffi, "ffi"),
                    (self.queued, "queued"),
                    (self.queued_transfers, "queued_transfers"),
                ];
                features.iter().filter(|(listed, _)| *listed).map(|(_, name)| *name).collect()
            }
        }

        /// For each feature, whether a type implements the feature's trait. [`check_features!`](crate::check_features)
        /// creates this value.
        #[doc(hidden)]
        #[derive(Debug)]
        pub struct Implemented {
            $(pub $method: bool,)+
        }

        /// A type with one constant for each feature. The constant is `true` if `B` implements the feature's trait. The
        /// inherent constant has the trait as a bound. If `B` does not implement the trait, the name refers to the
        /// constant of [`NotImplemented`] instead.
        #[doc(hidden)]
        #[derive(Debug)]
        pub struct Probe<B>(PhantomData<B>);

        #[doc(hidden)]
        #[allow(non_upper_case_globals, reason = "the names of the methods of `Features`")]
        pub trait NotImplemented {
            $(const $method: bool = false;)+
        }

        impl<B> NotImplemented for Probe<B> {}

        $(
            #[allow(non_upper_case_globals, reason = "the names of the methods of `Features`")]
            impl<B: $trait> Probe<B> {
                #[doc(hidden)]
                pub const $method: bool = true;
            }
        )+

        /// Fails to compile if the backend implements the trait of a feature that [`Backend::FEATURES`] does not list.
        #[doc(hidden)]
        pub const fn check<B: Backend>(implemented: &Implemented) {
            $(
                assert!(
                    !implemented.$method || B::FEATURES.$method.is_some(),
                    concat!(
                        "the backend implements `", stringify!($trait), "`, but `Backend::FEATURES` does not list it: \
                         add `.", stringify!($method), "()`"
                    )
                );
            )+
        }

        /// Fails to compile if the type implements the trait of a feature that it does not list. The type must not be
        /// generic.
        #[doc(hidden)]
        #[macro_export]
        macro_rules! check_features {
            ($d backend:ty) => {{
                #[allow(unused_imports, reason = "a backend may implement all traits")]
                use $crate::__private::NotImplemented as _;
                $crate::__private::check::<$d backend>(&$crate::__private::Implemented {
                    $($method: $crate::__private::Probe::<$d backend>::$method,)+
                })
            }};
        }
    };
}

for_each_feature!(list $);

impl<B: Backend> Features<B> {
    /// Returns the features of a plugin without a backend.
    pub(crate) const fn absent() -> Self {
        Self { present: false, ..Self::none() }
    }

    /// Declares that the backend runs custom calls, whose handlers and user data come from frameworks
    /// (`PJRT_FFI_Extension`). See [`ffi`](crate::ffi).
    #[must_use]
    pub const fn ffi(self) -> Self {
        Self { ffi: true, ..self }
    }

    /// Declares that the device runs its work in the order of submission, so that [`Backend::execute`] may receive
    /// buffers whose event is still pending.
    ///
    /// Without this feature, the SDK calls `execute` with ready buffers only. If a buffer is not ready when the
    /// framework launches the program, the framework's call still returns at once. The SDK creates the outputs, holds
    /// the arguments, and calls `execute` on one of its own threads when the last argument is ready. If an argument
    /// fails, the outputs fail with its error and `execute` is not called. Deferred launches begin in the order in
    /// which their arguments become ready. If programs of different launches wait for each other on the device, the
    /// backend must keep the order itself.
    ///
    /// With this feature, the SDK adds the events of the arguments to the event that `execute` returns. If an argument
    /// fails later, the outputs fail with its error. The device may therefore run with a failed input, and must
    /// tolerate any contents of this input. A launch is still deferred if the value of an argument does not exist yet.
    /// An example is a buffer whose data the framework has not sent.
    ///
    /// `read`, `copy`, `bitcast` and the functions of raw buffers always receive ready buffers. These functions return
    /// no event, so they cannot fail later or report when the memory becomes valid. If a framework copies a pending
    /// buffer, the SDK therefore calls `copy` when this buffer becomes ready. A backend that can report such failures
    /// later also lists [`Features::queued_transfers`].
    #[must_use]
    pub const fn queued(self) -> Self {
        Self { queued: true, ..self }
    }

    /// Declares that the device also runs transfers in the order of submission, so that
    /// [`AsyncReads::begin_read`], [`DeviceCopies::copy`] and [`DeviceCopies::bitcast`] may receive buffers whose event
    /// is still pending.
    ///
    /// The SDK adds the event of the buffer to that of the read, and to the event that [`Backend::ready`] returns for
    /// the new buffer. If the buffer fails later, they fail with its error. The device may therefore copy a failed
    /// buffer, and must tolerate any contents. A framework may donate the buffer to a program right after the call, so
    /// the program must not change the memory before the transfer has ended.
    #[must_use]
    pub const fn queued_transfers(self) -> Self
    where
        B: AsyncReads + DeviceCopies,
    {
        Self { queued_transfers: true, ..self }
    }
}

impl<B: Backend> Default for Features<B> {
    fn default() -> Self {
        Self::none()
    }
}

impl<B: Backend> std::fmt::Debug for Features<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
