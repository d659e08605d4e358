//! Two plugins in different modules cannot export the same symbols.

mod first {
    use device_plugin::{DevicePlugin, Library, device_plugin};

    pub struct First;

    #[device_plugin(export)]
    impl DevicePlugin for First {
        const NAME: &'static str = "first";
        fn library() -> Library {
            unsafe { Library::beside("libfirst.so") }
        }
    }
}

mod second {
    use device_plugin::{DevicePlugin, Library, device_plugin};

    pub struct Second;

    #[device_plugin(export)]
    impl DevicePlugin for Second {
        const NAME: &'static str = "second";
        fn library() -> Library {
            unsafe { Library::beside("libsecond.so") }
        }
    }
}

fn main() {}
