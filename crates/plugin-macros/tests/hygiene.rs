//! Tests that the expansions compile and work in a hostile environment: without a prelude, with `device-plugin` under
//! another name, with shadowed names of the standard library, without unsafe code, and with every lint of this
//! workspace.
#![no_implicit_prelude]
#![deny(unsafe_code)]
#![deny(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    unused_imports,
    dead_code,
    non_snake_case,
    non_camel_case_types,
    clippy::pedantic,
    clippy::unwrap_used
)]

extern crate std;

/// Names of the standard library that are shadowed by other types.
pub mod shadowed {
    #![allow(
        missing_debug_implementations,
        missing_docs,
        dead_code,
        non_camel_case_types,
        reason = "they only cause conflicts"
    )]

    /// The plugin.
    pub struct Example;

    pub struct Option;
    pub struct Result;
    pub struct Some;
    pub struct None;
    pub struct Ok;
    pub struct Err;
    pub struct Box;
    pub struct String;
    pub struct Vec;
    pub struct Descriptor;
    pub struct Faults;
    pub struct StaticApi;
    pub struct Registered;
    pub struct str;
    pub struct bool;
    pub struct usize;
    pub mod core {}
    pub mod device_plugin {}
    pub mod inventory {}

    #[::dp::device_plugin(export, crate = ::dp)]
    impl ::dp::DevicePlugin for Example {
        const NAME: &'static ::core::primitive::str = "example";

        #[allow(unsafe_code, reason = "only the plugin itself names a library")]
        fn library() -> ::dp::Library {
            // SAFETY: R1 (the library is trusted): it is this vendor's PJRT plugin.
            unsafe { ::dp::Library::beside("libexample.so") }
        }
    }
}

mod device {
    //! A backend, which `api()` and `GetPjrtApi` need.
    use ::dp::{
        Backend, ClientOptions, CompileOptions, Compiled, DeviceInfo, Error, Event, HostArray, Launch, Placement,
        Program, Result,
    };
    use ::std::sync::Arc;
    use ::std::vec::Vec;
    use ::std::{prelude::v1::*, vec};

    pub(super) struct Device;

    impl Backend for Device {
        type Buffer = ();
        type Executable = ();

        fn create(_: &ClientOptions) -> Result<Self> {
            Ok(Self)
        }
        fn devices(&self) -> Vec<DeviceInfo> {
            vec![DeviceInfo::new(0, "none")]
        }
        fn buffer_from_host(&self, _: HostArray<'_>, _: Placement) -> Result<()> {
            Err(Error::unimplemented("arrays"))
        }
        fn read(&self, (): &(), _: &mut [u8]) -> Result<()> {
            Ok(())
        }
        fn compile(&self, _: &Program, _: &CompileOptions) -> Result<Compiled<()>> {
            Err(Error::unimplemented("programs"))
        }
        fn execute(&self, _: &Arc<()>, _: &mut Launch<'_, Self>) -> Result<Event> {
            Ok(Event::ready())
        }
    }
}

mod renamed {
    //! A plugin type that is private to the crate and named by a path, and a local name for the crate `device-plugin`.
    use ::dp::{DevicePlugin, device_plugin};

    #[device_plugin(export, prefix = "inner", crate = dp)]
    impl DevicePlugin for super::inner::Inner {
        const NAME: &'static str = "inner";
        type Backend = super::device::Device;
    }
}

mod inner {
    pub(super) struct Inner;
}

mod other_crate {
    //! Exports the plugins as if they belonged to another crate.
    ::dp::export!(super::inner::Inner, prefix = "again");
    ::dp::export!(crate::shadowed::Example, descriptor_only, prefix = "wrapper");
}

#[::core::prelude::v1::test]
fn the_plugins_are_there() {
    use ::std::prelude::v1::*;

    let names: Vec<&str> = ::dp::registered().map(|plugin| plugin.name()).collect();
    ::std::assert_eq!(names, ["example", "inner"]);
    for plugin in ::dp::registered() {
        let descriptor = plugin.descriptor().map_err(|faults| faults.to_string());
        ::std::assert_eq!(
            descriptor.map(|descriptor| descriptor.manifest().name.clone()),
            Ok(plugin.name().to_owned())
        );
        ::std::assert!(plugin.type_name().starts_with("hygiene::"), "{plugin:?}");
    }
    ::std::assert!(shadowed::Example::descriptor().is_ok());
    ::std::assert_eq!(inner::Inner::api().as_raw(), inner::Inner::api().as_raw());
}
