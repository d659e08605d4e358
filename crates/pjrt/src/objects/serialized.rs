//! Serialized executables and topologies. Their envelope identifies the plugin that serialized them.

use std::fmt;

use crate::envelope::{Identity, Kind, Sealed};
use crate::error::Error;
use crate::objects::owners::{Client, Plugin};

/// Fields of an identity that may be absent. Serialized topologies omit these fields, and so do executables that were
/// compiled for a topology without a client.
const OPTIONAL: [&str; 2] = [PLATFORM, PLATFORM_VERSION];
const PLATFORM: &str = "platform";
const PLATFORM_VERSION: &str = "platform version";

/// Returns the identity of a plugin, with the platform's name and version if they are known.
pub(crate) fn identity(plugin: &Plugin, platform: Option<String>, version: Option<String>) -> Identity {
    let mut identity = vec![
        ("API version".to_owned(), plugin.api_version().to_string()),
        ("machine".to_owned(), format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)),
    ];
    let mut add = |name: &str, value: Option<String>| identity.extend(value.map(|value| (name.to_owned(), value)));
    add(PLATFORM, platform);
    add(PLATFORM_VERSION, version);
    add("library", plugin.inner().fingerprint().map(str::to_owned));
    let mut attributes = plugin.attributes().unwrap_or_default();
    attributes.sort_by(|a, b| a.name.cmp(&b.name));
    identity.extend(attributes.into_iter().map(|item| (format!("attribute {}", item.name), item.value.to_string())));
    identity
}

impl Client {
    /// Returns the identity of this client's plugin. Serialized executables contain this identity.
    pub(crate) fn identity(&self) -> Identity {
        identity(&self.plugin(), self.platform_name().ok(), self.platform_version().ok())
    }
}

macro_rules! serialized {
    ($(#[$doc:meta])* $name:ident, $kind:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq)]
        pub struct $name(Sealed);

        impl $name {
            pub(crate) fn new(identity: Identity, payload: &[u8]) -> Result<Self, Error> {
                Sealed::new($kind, identity, payload).map(Self)
            }

            /// Parses an envelope that [`Self::as_bytes`] returned.
            ///
            /// # Errors
            ///
            /// Returns an error if the bytes are not an envelope of this type, or if the version, the length or the
            /// checksum is wrong.
            pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Self, Error> {
                Sealed::open($kind, bytes.into()).map(Self)
            }

            /// Returns the envelope as bytes that can be stored or sent to another process.
            pub fn as_bytes(&self) -> &[u8] {
                self.0.bytes()
            }

            /// Returns the envelope as bytes, without a copy.
            pub fn into_bytes(self) -> Vec<u8> {
                self.0.into_bytes()
            }

            /// Returns the bytes that the plugin's serialization function returned, without the envelope.
            pub fn payload(&self) -> &[u8] {
                self.0.payload()
            }

            /// Returns the names and values that identify the plugin, such as the API version, platform, library and
            /// attributes.
            pub fn identity(&self) -> &[(String, String)] {
                self.0.identity()
            }

            pub(crate) fn check(&self, reader: &Identity) -> Result<(), Error> {
                self.0.check(reader, &OPTIONAL)
            }
        }

        impl AsRef<[u8]> for $name {
            fn as_ref(&self) -> &[u8] {
                self.as_bytes()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut debug = f.debug_struct(stringify!($name));
                debug.field("identity", &self.identity()).field("payload_bytes", &self.payload().len()).finish()
            }
        }
    };
}

serialized! {
    /// A serialized executable: the plugin's bytes, in an envelope that identifies the plugin and contains a checksum.
    ///
    /// A serialized executable may contain machine code. The envelope detects accidents, such as a truncated file, or a
    /// cache that two builds of a plugin share. The checksum is not a signature. Anyone who can modify the stored bytes
    /// can make the process run arbitrary code ([contract](crate::contracts) P2).
    ///
    /// ```
    /// use pjrt::SerializedExecutable;
    /// # use pjrt::{ClientOptions, CompileOptions, Program};
    /// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
    /// # let program = Program::mlir(
    /// #     "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    /// #        %y = stablehlo.add %x, %x : tensor<2xf32>
    /// #        return %y : tensor<2xf32>
    /// #      }",
    /// # );
    /// # let double = client.compile(&program, &CompileOptions::default())?;
    ///
    /// let bytes = double.executable().serialize()?.into_bytes();
    /// // Store the bytes, and load them in a later process.
    /// let double = client.deserialize_and_load(&SerializedExecutable::from_bytes(bytes)?)?;
    /// let x = client.buffer_from_host(&[1.0f32, 2.0], &[2])?;
    /// assert_eq!(double.execute(&[&x])?[0].to_host::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    SerializedExecutable, Kind::Executable
}

impl SerializedExecutable {
    /// Returns the SHA-256 of the other bytes, which are the last bytes of [`Self::as_bytes`].
    pub(crate) fn checksum(&self) -> &[u8] {
        self.0.checksum()
    }
}

serialized! {
    /// A serialized topology: the plugin's bytes, in an envelope that identifies the plugin. The envelope's checksum
    /// detects accidents, such as a truncated file. The checksum is not a signature.
    ///
    /// ```
    /// use pjrt::{SerializedTopology, TopologyDescription};
    /// # let client = plugin_registry::open("cpu")?.client(&pjrt::ClientOptions::new())?;
    ///
    /// let bytes = client.topology()?.serialize()?.into_bytes();
    /// let topology = TopologyDescription::deserialize(&client.plugin(), &SerializedTopology::from_bytes(bytes)?)?;
    /// assert_eq!(topology.device_descriptions()?.len(), client.devices()?.len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    SerializedTopology, Kind::Topology
}
