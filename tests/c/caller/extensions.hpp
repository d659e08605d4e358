// Tests the extensions through device_plugin.hpp: those of the CPU device, and others that `offered.h` adds.
#ifndef CALLER_EXTENSIONS_HPP
#define CALLER_EXTENSIONS_HPP

#include <thread>

#include "../check.hpp"
#include "offered.h"

using Floats = std::vector<float>;

static const std::string HEAD = "func.func public @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32>";
static const std::string BODY = " {\n  %r = stablehlo.add %x, %x : tensor<2x3xf32>\n  return %r : tensor<2x3xf32>\n}\n";
static const std::string ROWS = "{mhlo.sharding = \"{devices=[2,1]<=[2]}\"}";

static void extensions_of_plugin(const dp::Client& client) {
    const dp::Buffer buffer = client.upload({1.0f, 2.0f, 3.0f}, {3});
    for (const dp::Extension& extension : dp::extensions(client)) CHECK(!extension.name.empty());
    CHECK(dp::supports(client, "PJRT_Buffer_Bitcast"));
    FAILS(dp::ErrorCode::NotFound, "", dp::supports(client, "PJRT_Nonsense", error));
    FAILS(dp::ErrorCode::InvalidArgument, "`client` is NULL", dp::extensions(dp::Client(), error));
    CHECK(dp::default_layout(client, buffer.shape()).size() > 0);
    dp::Error failure;
    const dp::RawBuffer raw = dp::RawBuffer::of(buffer, &failure);
    if (failure) {
        CHECK(failure.code() == dp::ErrorCode::Unimplemented && !raw);
    } else {
        float second = 0;
        raw.read(4, &second, sizeof(second));
        CHECK(second == 2 && raw.size() == 12 && raw.host_pointer() != nullptr);
        const float written[] = {5};
        raw.write(8, {written, 4}).wait();
        CHECK(buffer.to_vector<float>() == Floats{1, 2, 5});
    }
    dp::Profile profile = dp::Profile::start(client, {}, &failure);
    if (failure) {
        CHECK(failure.code() == dp::ErrorCode::Unimplemented && !profile);
    } else {
        CHECK(profile.stop() && !profile);
    }
    FAILS(dp::ErrorCode::InvalidArgument, "`profile` is NULL", profile.stop(error));
    dp::ExecuteOptions options;
    const dp::ExecuteContext context = dp::ExecuteContext::create(client, &failure);
    if (failure) {
        CHECK(failure.code() == dp::ErrorCode::Unimplemented && !context);
    } else {
        context.set_in(options);
        CHECK(options && dp::register_ffi_type(client, "the test's type") != 0);
    }
    FAILS(dp::ErrorCode::InvalidArgument, "`context` is NULL", dp::ExecuteContext().set_in(options, error));
}
// An xla.OpSharding: type OTHER, extents [2, 1] of the tiles, devices [0, 1].
static const std::string SHARDING("\x08\x03\x1a\x02\x02\x01\x22\x02\x00\x01", 10);

static dp::Executable compiled(const dp::Client& client) {
    return client.compile(dp::Program::mlir(HEAD + BODY)).executable();
}

// Two clients of one computation send each other an array.
static void sent_arrays(const dp::Plugin& plugin) {
    const dp::KeyValueStore store = dp::KeyValueStore::in_process();
    const auto join = [&](int rank) {
        const dp::Options options = dp::Options().set("node_id", rank).set("num_nodes", 2).set("cpu_device_count", 1);
        return plugin.create_client(options, store);
    };
    dp::Client there;
    std::thread other([&] { there = join(1); });
    const dp::Client here = join(0);
    other.join();
    const Floats values{1, 2, 3};
    const dp::Device from = here.addressable_devices()[0], to = there.addressable_devices()[0];
    const dp::Buffer sent = here.upload(values, {3});
    const dp::Shape shape{dp::ElementType::F32, {3}};
    const std::vector<dp::Buffer> arrived = dp::receive_buffers(to, {{shape, from.id(), 5}, {shape, from.id(), 6}});
    const dp::Buffer other_one = here.upload({4.0f, 5.0f, 6.0f}, {3});
    const std::vector<dp::Event> events =
        dp::send_buffers(here, {{sent, to.id(), 6}, {other_one, to.id(), 5}}, {{0, 1}, {1, 1}});
    for (const dp::Event& event : events) event.wait();
    CHECK(arrived.size() == 2 && events.size() == 2);
    CHECK(arrived[0].to_vector<float>() == Floats{4, 5, 6} && arrived[1].to_vector<float>() == values);
    FAILS(dp::ErrorCode::InvalidArgument, "`sends[0].buffer` is NULL",
          dp::send_buffers(here, {{dp::Buffer(), to.id(), 6}}, {}, error));
    FAILS(dp::ErrorCode::InvalidArgument, "`device` is NULL", dp::receive_buffers(dp::Device(), {}, {}, error));
}

// A plugin with extensions that the CPU device lacks.
static void offered_extensions(const dp::Client& cpu) {
    const dp::Client client = dp::Registry::without_plugins().add_api("offering", offer(cpu.api(), 1)).create_client();
    {
        dp::HostMemory memory = dp::HostMemory::allocate(client, 12, 2), moved = std::move(memory);
        CHECK(!memory && memory.size() == 0 && moved.size() == 12 && offered.node == 2 && offered.freed == 0);
        auto* const values = static_cast<float*>(moved.data());
        CHECK(values[2] == 0);
        values[1] = 5;
        dp::UploadOptions options;
        options.semantics = dp::HostBufferSemantics::ImmutableZeroCopy;
        const dp::Buffer buffer =
            client.upload_lent(values, 12, dp::ElementType::F32, {3}, [owner = std::move(moved)] {}, options);
        CHECK(buffer.to_vector<float>() == Floats{0, 5, 0});
    }
    client.synchronize(std::chrono::seconds(5));
    CHECK(offered.allocated == 1 && offered.freed == 1);
    FAILS(dp::ErrorCode::InvalidArgument, "`size` is 0", dp::HostMemory::allocate(client, 0, -1, error));
    CHECK(reinterpret_cast<std::uintptr_t>(dp::HostMemory::allocate(cpu, 8, -1).data()) % 64 == 0);

    const dp::Executable program = compiled(client);
    CHECK(dp::executable_metadata(client, program).to_string() == std::string("meta\0data", 9));
    FAILS(dp::ErrorCode::InvalidArgument, "different plugins", dp::executable_metadata(client, compiled(cpu), error));
    FAILS(dp::ErrorCode::Unimplemented, "ExecutableMetadata", dp::executable_metadata(cpu, program, error));
    const dp::AbiVersion runtime = dp::runtime_abi_version(client);
    const dp::AbiVersion needed = dp::executable_abi_version(client, program);
    CHECK(runtime.serialized.view() == "run-7" && needed.serialized.view() == "exe-7");
    CHECK(runtime.platform_id == 0xfedcba9876543210 && needed.platform_id == runtime.platform_id);
    dp::check_runtime_abi_version(client, runtime.serialized);
    dp::check_executable_abi_version(client, "any-7");
    FAILS(dp::ErrorCode::InvalidArgument, "IsCompatible", dp::check_runtime_abi_version(client, "any-8", error));
    FAILS(dp::ErrorCode::InvalidArgument, "IsCompatible", dp::check_executable_abi_version(client, "any-8", error));
    FAILS(dp::ErrorCode::Unimplemented, "AbiVersion", dp::runtime_abi_version(cpu, error));

    dp::SliceFailure failure = dp::SliceFailure::Unknown;
    std::string said;
    dp::on_slice_failure(client, [&](dp::SliceFailure found) { failure = found; });
    dp::on_fatal_error(client, [&](dp::ErrorCode code, std::string_view message) {
        if (code == dp::ErrorCode::Unavailable) said = message;
    });
    fail_hardware(2);
    fail_process(14, "gone", 4);
    CHECK(failure == dp::SliceFailure::WorkerUnavailable && said == "gone");
    dp::report_slice_failure(client, dp::SliceFailure::FlappingTask);
    dp::report_fatal_error(client, dp::ErrorCode::DataLoss, "why");
    CHECK(offered.failure == 3 && offered.code == 15 && offered.reports == 2);
    FAILS(dp::ErrorCode::Unimplemented, "Callback", dp::on_slice_failure(cpu, [](dp::SliceFailure) {}, error));
    FAILS(dp::ErrorCode::InvalidArgument, "`client` is NULL",
          dp::on_fatal_error(dp::Client(), [](dp::ErrorCode, std::string_view) {}, error));
    FAILS(dp::ErrorCode::InvalidArgument, "code", dp::report_fatal_error(client, dp::ErrorCode::Ok, "why", error));
    CHECK(dp::phase_names(client) == (std::vector<std::string>{"lower", "emit"}));
    const std::vector<dp::Bytes> made = dp::run_phases(client, {std::string("emit")}, {"a", ""});
    CHECK(made.size() == 2 && made[0].view() == "emita" && made[1].view() == "emit");
    FAILS(dp::ErrorCode::OutOfRange, "1 places",
          dp::run_phases(client, {std::string("emit")}, {"a", ""}, {}, 1, error));
    FAILS(dp::ErrorCode::Unimplemented, "PhaseCompile", dp::phase_names(cpu, error));
    CHECK(offered.compilers == 0 && offered.texts == 0);
    dp::register_batch_partitionable(client, "solve");
    CHECK(offered.target == std::string_view("solve"));
    FAILS(dp::ErrorCode::Unimplemented, "Custom_Partitioner", dp::register_batch_partitionable(cpu, "solve", error));
}

// Memories and shardings, which the CPU device reports.
static void described(const dp::Plugin& plugin, const dp::Client& client) {
    const dp::Device device = client.devices()[0];
    const dp::DeviceDescription description = client.topology().devices()[0];
    const std::vector<dp::MemoryDescription> memories = dp::memory_descriptions(plugin, description);
    CHECK(memories.size() == device.memories().size());
    for (const dp::MemoryDescription& found : memories) {
        const bool is_default = found.kind == "device";
        CHECK(found.is_default == is_default && (!is_default || found.kind_id == device.default_memory().kind_id()));
    }
    FAILS(dp::ErrorCode::InvalidArgument, "`device` is NULL", dp::memory_descriptions(plugin, {}, error));

    // The rows of the argument and of the result are on different devices.
    const std::string array = "(tensor<2x3xf32> " + ROWS + ")", split = "func.func public @main(%x: " + array.substr(1);
    const dp::CompileOptions options =
        dp::CompileOptions().device_assignment(1, 2, {0, 1}).spmd_partitioning(true);
    const dp::Program text = dp::Program::mlir(split + " -> " + array + BODY);
    const dp::Executable program = client.compile(text, options).executable();
    CHECK(dp::parameter_sharding(client, program, 0).to_string() == SHARDING);
    CHECK(dp::output_sharding(client, program, 0).to_string() == SHARDING);
    FAILS(dp::ErrorCode::OutOfRange, "`index` is 1", dp::parameter_sharding(client, program, 1, error));
    FAILS(dp::ErrorCode::OutOfRange, "`index` is 1", dp::output_sharding(client, program, 1, error));
    FAILS(dp::ErrorCode::NotFound, "no shardings", dp::output_sharding(client, compiled(client), 0, error));
}

static void extensions(const dp::Plugin& plugin, const dp::Client& client) {
    extensions_of_plugin(client);
    sent_arrays(plugin);
    offered_extensions(client);
    described(plugin, client);
}

#endif
