//! A client's configuration, from its options and from environment variables for options that are not given.

use std::ffi::OsString;
use std::net::IpAddr;
use std::time::Duration;

use device_plugin::{ClientOptions, Error, OptionSchema, OptionSpec, OptionType, Result, Value};

/// The plugin's name.
pub(crate) const NAME: &str = "pjrt_cpu";
/// The name that a client reports with the option `plain_platform_name`. PyTorch/XLA names devices after their platform
/// and expects names without underscores.
const PLAIN_NAME: &str = "pjrtcpu";
const PLAIN: &str = "plain_platform_name";

/// Option for the number of devices.
const DEVICES: &str = "device_count";
/// The name that XLA's CPU plugin uses for the option [`DEVICES`].
const DEVICES_ALIAS: &str = "cpu_device_count";
const DEVICES_VARIABLE: &str = "PJRT_CPU_DEVICES";
/// Option for the maximum number of bytes that a device may use.
pub(crate) const LIMIT: &str = "memory_limit";
pub(crate) const LIMIT_VARIABLE: &str = "PJRT_CPU_MEMORY_LIMIT";
/// Option that runs each execution on the thread that launches it, without other threads.
const DETERMINISTIC: &str = "deterministic";
/// Option for the number of executions of a device that a framework may launch before one of them has ended. XLA's CPU
/// client has a constant of this name.
const IN_FLIGHT: &str = "max_inflight_computations_per_device";
const IN_FLIGHT_VARIABLE: &str = "PJRT_CPU_MAX_INFLIGHT_COMPUTATIONS_PER_DEVICE";
/// Default of [`IN_FLIGHT`]. XLA has the same default.
const DEFAULT_IN_FLIGHT: usize = 32;

/// Option for the rank of this process. [`NODES`] is the option for the number of processes.
const NODE: &str = "node_id";
const NODES: &str = "num_nodes";
/// Option for the time to wait for the other processes when the client is created. [`COLLECTIVE_TIMEOUT`] is the option
/// for the time to wait in a collective.
const RENDEZVOUS_TIMEOUT: &str = "rendezvous_timeout_ms";
const COLLECTIVE_TIMEOUT: &str = "collective_timeout_ms";
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);
/// Option for the address at which processes on other machines reach this process.
const LISTEN: &str = "listen_address";
/// Option for the transport of messages between processes.
const TRANSPORT: &str = "transport";

/// Maximum number of devices of a client.
pub(crate) const MOST_DEVICES: i64 = 1024;

/// The transport of messages between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransportKind {
    /// Unix sockets and TCP connections.
    Local,
    #[cfg(feature = "mpi")]
    Mpi,
}

/// The configuration of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    /// Number of devices, at least 1.
    pub(crate) devices: usize,
    /// Maximum number of bytes that buffers and temporaries of one device may occupy.
    pub(crate) memory_limit: Option<usize>,
    /// Number of executions of one device that may be in flight before a launch waits, at least 1.
    pub(crate) in_flight: usize,
    /// Whether each execution runs on the thread that launches it, without other threads. The members of a launch with
    /// collectives still run on one thread each.
    pub(crate) deterministic: bool,
    /// Name of the platform that the client reports.
    pub(crate) platform_name: &'static str,
    /// How long to wait for the other processes when the client is created.
    pub(crate) rendezvous_timeout: Duration,
    /// How long to wait for another process in a collective.
    pub(crate) collective_timeout: Duration,
    /// Address at which processes on other machines reach this process. `None` if all processes are on the same
    /// machine.
    pub(crate) listen_address: Option<IpAddr>,
    pub(crate) transport: TransportKind,
}

/// Returns the schema of the options, for frameworks that check options before they load the plugin.
pub(crate) fn schema() -> OptionSchema {
    let devices = format!("number of devices to make of this machine, 1 to {MOST_DEVICES}");
    OptionSchema::only([
        OptionSpec::new(DEVICES, OptionType::Int64, format!("{devices}; by default {DEVICES_VARIABLE}, else 1")),
        OptionSpec::new(
            DEVICES_ALIAS,
            OptionType::Int64,
            format!("{DEVICES} under the name XLA's CPU plugin gives it"),
        ),
        OptionSpec::new(
            LIMIT,
            OptionType::String,
            format!(
                "memory of each device in bytes, with KiB, MiB, GiB or TiB also in those; \
                 by default {LIMIT_VARIABLE}, else no limit"
            ),
        ),
        OptionSpec::new(
            IN_FLIGHT,
            OptionType::Int64,
            format!(
                "launches of long programs that may be in flight on each device before the next launch waits for one \
                 to end, at least 1; by default {IN_FLIGHT_VARIABLE}, else {DEFAULT_IN_FLIGHT}"
            ),
        ),
        OptionSpec::new(
            DETERMINISTIC,
            OptionType::Bool,
            "run each execution on the thread that launches it, without other threads, so that the order of errors \
             and the memory peaks are reproducible; by default false",
        ),
        OptionSpec::new(
            PLAIN,
            OptionType::Bool,
            format!("report the platform name {PLAIN_NAME} in place of {NAME}, for PyTorch/XLA; by default false"),
        ),
        OptionSpec::new(NODE, OptionType::Int64, format!("rank of this process, from 0 to {NODES} - 1")),
        OptionSpec::new(NODES, OptionType::Int64, "number of processes that run programs together; by default 1"),
        OptionSpec::new(
            RENDEZVOUS_TIMEOUT,
            OptionType::Int64,
            "milliseconds to wait for the other processes when the client is created; by default 300000",
        ),
        OptionSpec::new(
            COLLECTIVE_TIMEOUT,
            OptionType::Int64,
            "milliseconds to wait for another process in a collective operation; by default 300000",
        ),
        OptionSpec::new(
            LISTEN,
            OptionType::String,
            "IP address of this machine at which processes of other machines reach this one, without encryption; by \
             default all processes must be on this machine",
        ),
        OptionSpec::new(
            TRANSPORT,
            OptionType::String,
            "transport of messages between processes: local (Unix sockets and TCP; the default) or mpi (requires mpirun \
             and a library built with the feature mpi)",
        ),
    ])
}

impl Config {
    /// Reads the options, and the environment variables for options that are not given.
    pub(crate) fn new(options: &ClientOptions, variable: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        options.expect_only(&[
            DEVICES,
            DEVICES_ALIAS,
            LIMIT,
            IN_FLIGHT,
            DETERMINISTIC,
            PLAIN,
            NODE,
            NODES,
            RENDEZVOUS_TIMEOUT,
            COLLECTIVE_TIMEOUT,
            LISTEN,
            TRANSPORT,
        ])?;
        let value = |name: &str, variable_name: &str| -> Result<Option<(String, Value)>> {
            if let Some(value) = options.get(name) {
                return Ok(Some((format!("option {name}"), value.clone())));
            }
            let Some(value) = variable(variable_name) else { return Ok(None) };
            let text = value.into_string().map_err(|bytes| {
                Error::invalid_argument(format!("{variable_name} is {bytes:?}: it must be UTF-8 text"))
            })?;
            Ok(Some((variable_name.to_owned(), Value::String(text))))
        };
        let devices = match (options.get(DEVICES), options.get(DEVICES_ALIAS)) {
            (None, Some(_)) => value(DEVICES_ALIAS, DEVICES_VARIABLE)?,
            _ => value(DEVICES, DEVICES_VARIABLE)?,
        };
        let devices = devices.map_or(Ok(1), |(name, value)| device_count(&name, &value))?;
        if let Some(alias) = options.get(DEVICES_ALIAS)
            && device_count(&format!("option {DEVICES_ALIAS}"), alias)? != devices
        {
            return Err(Error::invalid_argument(format!(
                "option {DEVICES_ALIAS} is {alias}, and option {DEVICES} is {devices}: give one of them"
            )));
        }
        let memory_limit =
            value(LIMIT, LIMIT_VARIABLE)?.map(|(name, value)| memory_limit(&name, &value)).transpose()?;
        let in_flight = value(IN_FLIGHT, IN_FLIGHT_VARIABLE)?;
        let in_flight = in_flight.map_or(Ok(DEFAULT_IN_FLIGHT), |(name, value)| in_flight_count(&name, &value))?;
        let deterministic = options.get(DETERMINISTIC).map_or(Ok(false), |value| truth(DETERMINISTIC, value))?;
        let is_plain = options.get(PLAIN).map_or(Ok(false), |value| truth(PLAIN, value))?;
        let platform_name = if is_plain { PLAIN_NAME } else { NAME };
        let listen_address = options.get(LISTEN).map(address).transpose()?;
        let transport = options.get(TRANSPORT).map_or(Ok(TransportKind::Local), transport_kind)?;
        if transport != TransportKind::Local && listen_address.is_some() {
            return Err(Error::invalid_argument(format!(
                "option {LISTEN} is given, and option {TRANSPORT} is not local: remove one of them"
            )));
        }
        let timeout = |name| options.get(name).map_or(Ok(DEFAULT_TIMEOUT), |value| milliseconds(name, value));
        let (rendezvous_timeout, collective_timeout) = (timeout(RENDEZVOUS_TIMEOUT)?, timeout(COLLECTIVE_TIMEOUT)?);
        Ok(Self {
            devices,
            memory_limit,
            in_flight,
            deterministic,
            platform_name,
            rendezvous_timeout,
            collective_timeout,
            listen_address,
            transport,
        })
    }
}

/// Parses a number of devices.
fn device_count(name: &str, value: &Value) -> Result<usize> {
    let number = integer(value).filter(|number| (1..=MOST_DEVICES).contains(number));
    number.and_then(|number| usize::try_from(number).ok()).ok_or_else(|| {
        Error::invalid_argument(format!("{name} is {value}: it must be an integer from 1 to {MOST_DEVICES}"))
    })
}

/// Parses a number of executions.
fn in_flight_count(name: &str, value: &Value) -> Result<usize> {
    let number = integer(value).filter(|number| *number >= 1).and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| Error::invalid_argument(format!("{name} is {value}: it must be an integer of at least 1")))
}

fn milliseconds(name: &str, value: &Value) -> Result<Duration> {
    let number = integer(value).and_then(|number| u64::try_from(number).ok());
    let number = number.filter(|number| (1..=u64::from(u32::MAX)).contains(number)).ok_or_else(|| {
        Error::invalid_argument(format!("option {name} is {value}: it must be a number of milliseconds above 0"))
    })?;
    Ok(Duration::from_millis(number))
}

fn address(value: &Value) -> Result<IpAddr> {
    let address = if let Value::String(text) = value { text.trim().parse().ok() } else { None };
    address.ok_or_else(|| {
        Error::invalid_argument(format!("option {LISTEN} is {value}: it must be an IP address, such as 10.0.0.1"))
    })
}

fn transport_kind(value: &Value) -> Result<TransportKind> {
    match value {
        Value::String(text) if text == "local" => Ok(TransportKind::Local),
        #[cfg(feature = "mpi")]
        Value::String(text) if text == "mpi" => Ok(TransportKind::Mpi),
        #[cfg(not(feature = "mpi"))]
        Value::String(text) if text == "mpi" => Err(Error::unimplemented(format!(
            "option {TRANSPORT} is mpi, and this library was built without MPI: build it with the feature mpi, or use local"
        ))),
        _ => Err(Error::invalid_argument(format!("option {TRANSPORT} is {value}: it must be local or mpi"))),
    }
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Int64(number) => Some(*number),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Parses a number of bytes.
fn memory_limit(name: &str, value: &Value) -> Result<usize> {
    let bytes = match value {
        Value::Int64(number) => usize::try_from(*number).ok(),
        Value::String(text) => parse_bytes(text),
        _ => None,
    };
    bytes.filter(|bytes| *bytes > 0).ok_or_else(|| {
        Error::invalid_argument(format!(
            "{name} is {value}: it must be a number of bytes above 0, such as 1073741824, 512MiB or 1.5GiB"
        ))
    })
}

/// Parses a size such as `1073741824`, `512MiB` or `1.5 GiB`.
fn parse_bytes(text: &str) -> Option<usize> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "kib" => 10,
        "mib" => 20,
        "gib" => 30,
        "tib" => 40,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: usize = whole.parse().ok()?;
    let unit = 1usize << shift;
    let rest = if fraction.is_empty() {
        0
    } else {
        // Use only the first nine digits of the fraction, so that the product does not overflow.
        let digits = &fraction[..fraction.len().min(9)];
        let scale = 10u128.pow(u32::try_from(digits.len()).ok()?);
        usize::try_from(digits.parse::<u128>().ok()? * u128::try_from(unit).ok()? / scale).ok()?
    };
    whole.checked_mul(unit)?.checked_add(rest)
}

fn truth(name: &str, value: &Value) -> Result<bool> {
    let truth = match value {
        Value::Bool(truth) => Some(*truth),
        Value::String(text) => match OptionType::Bool.parse(text) {
            Some(Value::Bool(truth)) => Some(truth),
            _ => None,
        },
        _ => None,
    };
    truth.ok_or_else(|| Error::invalid_argument(format!("option {name} is {value}: it must be true or false")))
}

/// Formats a size for messages, such as `8.0 MiB`.
pub(crate) fn readable(bytes: usize) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let Some(power) = bytes.checked_ilog2().map(|bits| bits / 10).filter(|power| *power > 0) else {
        return format!("{bytes} bytes");
    };
    let power = power.min(4);
    let tenths = (bytes as u128 * 10) >> (10 * power);
    let unit = usize::try_from(power - 1).map_or("", |at| units[at]);
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use device_plugin::NamedValue;
    use expect_test::expect;

    use super::*;

    fn config(options: &[(&str, Value)], variables: &[(&str, &str)]) -> Result<Config> {
        let options: Vec<_> = options.iter().map(|(name, value)| NamedValue::new(*name, value.clone())).collect();
        Config::new(&ClientOptions::new(options), |name| {
            variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| (*value).into())
        })
    }

    #[test]
    fn options_override_variables_and_defaults() {
        let default = Config {
            devices: 1,
            memory_limit: None,
            in_flight: 32,
            deterministic: false,
            platform_name: "pjrt_cpu",
            rendezvous_timeout: DEFAULT_TIMEOUT,
            collective_timeout: DEFAULT_TIMEOUT,
            listen_address: None,
            transport: TransportKind::Local,
        };
        assert_eq!(config(&[], &[]).unwrap(), default);
        let variables = [
            ("PJRT_CPU_DEVICES", "3"),
            ("PJRT_CPU_MEMORY_LIMIT", "2MiB"),
            ("PJRT_CPU_MAX_INFLIGHT_COMPUTATIONS_PER_DEVICE", "5"),
        ];
        let of_variables = Config { devices: 3, memory_limit: Some(2 << 20), in_flight: 5, ..default };
        assert_eq!(config(&[], &variables).unwrap(), of_variables);
        let given = [
            ("cpu_device_count", Value::from("8")),
            ("memory_limit", Value::from("1.5 GiB")),
            ("max_inflight_computations_per_device", 1.into()),
            ("deterministic", "1".into()),
            ("plain_platform_name", true.into()),
            ("rendezvous_timeout_ms", 10.into()),
            ("collective_timeout_ms", "20".into()),
            ("listen_address", "::1".into()),
            ("transport", "local".into()),
        ];
        let of_options = Config {
            devices: 8,
            memory_limit: Some(3 << 29),
            in_flight: 1,
            deterministic: true,
            platform_name: "pjrtcpu",
            rendezvous_timeout: Duration::from_millis(10),
            collective_timeout: Duration::from_millis(20),
            listen_address: Some(std::net::Ipv6Addr::LOCALHOST.into()),
            transport: TransportKind::Local,
        };
        assert_eq!(config(&given, &variables).unwrap(), of_options);
        assert_eq!(config(&[("memory_limit", 4096.into())], &[]).unwrap().memory_limit, Some(4096));
    }

    #[test]
    fn transport_depends_on_the_feature() {
        let code = |value: Value| config(&[("transport", value)], &[]).unwrap_err().code();
        assert_eq!(code("pigeons".into()), device_plugin::ErrorCode::INVALID_ARGUMENT);
        assert_eq!(code(1.into()), device_plugin::ErrorCode::INVALID_ARGUMENT);
        #[cfg(not(feature = "mpi"))]
        assert_eq!(code("mpi".into()), device_plugin::ErrorCode::UNIMPLEMENTED);
        #[cfg(feature = "mpi")]
        {
            assert_eq!(config(&[("transport", "mpi".into())], &[]).unwrap().transport, TransportKind::Mpi);
            let both = [("transport", "mpi".into()), ("listen_address", "::1".into())];
            assert_eq!(config(&both, &[]).unwrap_err().code(), device_plugin::ErrorCode::INVALID_ARGUMENT);
        }
    }

    #[test]
    fn errors_name_option_and_range() {
        let message = |options: &[(&str, Value)], variables: &[(&str, &str)]| {
            config(options, variables).map(drop).unwrap_err().message().to_owned()
        };
        let mut messages = String::new();
        let mut record = |case: &str, message: String| messages += &format!("{case}: {message}\n");
        record("device_count=0", message(&[("device_count", 0.into())], &[]));
        record("PJRT_CPU_DEVICES=many", message(&[], &[("PJRT_CPU_DEVICES", "many")]));
        let both = message(&[("device_count", 2.into()), ("cpu_device_count", 4.into())], &[]);
        record("both names of one option", both);
        for limit in ["", "-1", "0", "3 MB", "1e9", "99999999999999TiB"] {
            record(&format!("memory_limit={limit}"), message(&[("memory_limit", limit.into())], &[]));
        }
        for count in ["0", "-1", "many"] {
            record(&format!("{IN_FLIGHT}={count}"), message(&[(IN_FLIGHT, count.into())], &[]));
        }
        record("deterministic=3", message(&[("deterministic", 3.into())], &[]));
        for (option, value) in [(RENDEZVOUS_TIMEOUT, "0"), (COLLECTIVE_TIMEOUT, "long"), (LISTEN, "localhost")] {
            record(&format!("{option}={value}"), message(&[(option, value.into())], &[]));
        }
        record("an unknown option", message(&[("devices", 3.into())], &[]));
        expect![[r#"
            device_count=0: option device_count is 0: it must be an integer from 1 to 1024
            PJRT_CPU_DEVICES=many: PJRT_CPU_DEVICES is many: it must be an integer from 1 to 1024
            both names of one option: option cpu_device_count is 4, and option device_count is 2: give one of them
            memory_limit=: option memory_limit is : it must be a number of bytes above 0, such as 1073741824, 512MiB or 1.5GiB
            memory_limit=-1: option memory_limit is -1: it must be a number of bytes above 0, such as 1073741824, 512MiB or 1.5GiB
            memory_limit=0: option memory_limit is 0: it must be a number of bytes above 0, such as 1073741824, 512MiB or 1.5GiB
            memory_limit=3 MB: option memory_limit is 3 MB: it must be a number of bytes above 0, such as 1073741824, 512MiB or 1.5GiB
            memory_limit=1e9: option memory_limit is 1e9: it must be a number of bytes above 0, such as 1073741824, 512MiB or 1.5GiB
            memory_limit=99999999999999TiB: option memory_limit is 99999999999999TiB: it must be a number of bytes above 0, such as 1073741824, 512MiB or 1.5GiB
            max_inflight_computations_per_device=0: option max_inflight_computations_per_device is 0: it must be an integer of at least 1
            max_inflight_computations_per_device=-1: option max_inflight_computations_per_device is -1: it must be an integer of at least 1
            max_inflight_computations_per_device=many: option max_inflight_computations_per_device is many: it must be an integer of at least 1
            deterministic=3: option deterministic is 3: it must be true or false
            rendezvous_timeout_ms=0: option rendezvous_timeout_ms is 0: it must be a number of milliseconds above 0
            collective_timeout_ms=long: option collective_timeout_ms is long: it must be a number of milliseconds above 0
            listen_address=localhost: option listen_address is localhost: it must be an IP address, such as 10.0.0.1
            an unknown option: unknown option "devices"; known are device_count, cpu_device_count, memory_limit, max_inflight_computations_per_device, deterministic, plain_platform_name, node_id, num_nodes, rendezvous_timeout_ms, collective_timeout_ms, listen_address, transport
        "#]].assert_eq(&messages);
    }

    #[cfg(unix)]
    #[test]
    fn rejects_non_utf8_variable() {
        use std::os::unix::ffi::OsStringExt;
        let mut messages = String::new();
        for wrong in [DEVICES_VARIABLE, LIMIT_VARIABLE, IN_FLIGHT_VARIABLE] {
            let variable = |name: &str| (name == wrong).then(|| OsString::from_vec(b"4\xff".to_vec()));
            let error = Config::new(&ClientOptions::new(Vec::new()), variable).unwrap_err();
            messages += &format!("{wrong}: {}\n", error.message());
        }
        expect![[r#"
            PJRT_CPU_DEVICES: PJRT_CPU_DEVICES is "4\xFF": it must be UTF-8 text
            PJRT_CPU_MEMORY_LIMIT: PJRT_CPU_MEMORY_LIMIT is "4\xFF": it must be UTF-8 text
            PJRT_CPU_MAX_INFLIGHT_COMPUTATIONS_PER_DEVICE: PJRT_CPU_MAX_INFLIGHT_COMPUTATIONS_PER_DEVICE is "4\xFF": it must be UTF-8 text
        "#]].assert_eq(&messages);
        // The option takes precedence, and the variable is not read.
        let options = ClientOptions::new(vec![NamedValue::new(DEVICES, 2)]);
        let variable = |name: &str| (name == DEVICES_VARIABLE).then(|| OsString::from_vec(vec![0xff]));
        assert_eq!(Config::new(&options, variable).unwrap().devices, 2);
    }

    #[test]
    fn sizes_are_readable() {
        assert_eq!(readable(1023), "1023 bytes");
        assert_eq!(readable(1536), "1.5 KiB");
        assert_eq!(readable(16 << 20), "16.0 MiB");
        assert_eq!(readable(0), "0 bytes");
    }
}
