//! List the devices of a client, their attributes and their memories.

use pjrt::ClientOptions;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = ClientOptions::new().with("device_count", 2i64);
    let client = plugin_registry::open("cpu")?.client(&options)?;
    println!("{} {}", client.platform_name()?, client.platform_version()?);

    for device in client.devices()? {
        // If a distributed program has several processes, the client also lists the devices of the other processes.
        let place = if device.is_addressable()? { "here" } else { "in another process" };
        println!("device {}: {}, {place}", device.id()?, device.description()?.display_string()?);
        for attribute in device.attributes()? {
            println!("    {} = {:?}", attribute.name, attribute.value);
        }
        for memory in device.memories()? {
            println!("    memory {}: {}", memory.id()?, memory.kind()?);
        }
        println!("    buffers go to {} by default", device.default_memory()?.kind()?);
    }
    assert_eq!(client.addressable_devices()?.len(), 2);
    Ok(())
}
