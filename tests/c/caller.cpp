// Tests running programs through device_plugin.hpp: clients, buffers, programs and events. It also compiles without
// exceptions and RTTI.
#include <array>
#include <atomic>
#include <complex>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "caller/extensions.hpp"
#include "check.hpp"

#ifdef WITH_PJRT
#include "device_plugin_pjrt.hpp"
#endif

#if __has_include(<span>)
#include <span>
#endif

using dp::ElementType;
using dp::ErrorCode;

// Counts allocations, which the operators of this program make. They are not inline, because GCC otherwise warns about
// the pair of new and free.
static std::atomic<std::size_t> allocations{0};

[[gnu::noinline]] void* operator new(std::size_t size) {
    ++allocations;
    void* memory = std::malloc(size == 0 ? 1 : size);
    if (memory == nullptr) std::abort();
    return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

// A type for bf16, as a framework has it.
struct Half {
    std::uint16_t bits;
};
template <>
struct device_plugin::element_type_of<Half> : device_plugin::IsElement<device_plugin::ElementType::BF16> {};

static const char* const ADD =
    "func.func public @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
    "  %r = stablehlo.add %x, %y : tensor<2x3xf32>\n  return %r : tensor<2x3xf32>\n}\n";
// Updates its second argument in place.
static const char* const UPDATE =
    "func.func public @main(%x: tensor<4xf32>, %state: tensor<4xf32> {tf.aliasing_output = 1 : i32})\n"
    "    -> (tensor<4xf32>, tensor<4xf32>) {\n"
    "  %r = stablehlo.add %x, %state : tensor<4xf32>\n  return %x, %r : tensor<4xf32>, tensor<4xf32>\n}\n";

// Whether a call compiles.
template <template <typename...> class Call, typename Enable, typename... A>
struct Compiles : std::false_type {};
template <template <typename...> class Call, typename... A>
struct Compiles<Call, std::void_t<Call<A...>>, A...> : std::true_type {};

template <typename C>
using ToHost = decltype(std::declval<dp::Buffer>().to_host(std::declval<C>()));
template <typename C>
using Start = decltype(std::declval<dp::Buffer>().start_to_host(std::declval<C>()));
template <typename C>
using Own = decltype(std::declval<dp::Client>().upload_owned(std::declval<C>(), dp::Extents()));

using Floats = std::vector<float>;
static_assert(Compiles<ToHost, void, Floats&>::value && Compiles<Start, void, float (&)[3]>::value);
static_assert(!Compiles<ToHost, void, Floats>::value && !Compiles<ToHost, void, const Floats&>::value);
static_assert(!Compiles<Start, void, Floats>::value && !Compiles<Start, void, const Floats&>::value);
static_assert(Compiles<Own, void, Floats>::value && !Compiles<Own, void, Floats&>::value);

// A copy costs one pointer, and moves and copies do not throw.
template <typename T>
constexpr bool is_handle = sizeof(T) == sizeof(void*) && std::is_nothrow_default_constructible_v<T> &&
                           std::is_nothrow_copy_constructible_v<T> && std::is_nothrow_copy_assignable_v<T> &&
                           std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T>;
static_assert(is_handle<dp::Client> && is_handle<dp::Device> && is_handle<dp::Memory> && is_handle<dp::Buffer> &&
              is_handle<dp::Event> && is_handle<dp::Program> && is_handle<dp::CompileOptions> &&
              is_handle<dp::Executable> && is_handle<dp::LoadedExecutable> && is_handle<dp::ExecuteOptions> &&
              is_handle<dp::Bytes> && is_handle<dp::KeyValueStore> && is_handle<dp::TopologyDescription> &&
              is_handle<dp::DeviceDescription>);
static_assert(!std::is_copy_constructible_v<dp::SettableEvent>);
static_assert(std::is_nothrow_move_constructible_v<dp::SettableEvent>);
static_assert(std::is_nothrow_copy_constructible_v<dp::Error>);

static void spans_and_shapes() {
    Floats vector{1, 2, 3};
    const Floats constant{1, 2};
    std::array<float, 2> array{4, 5};
    float plain[] = {6, 7, 8};
    CHECK(dp::Span<const float>(vector).size() == 3 && dp::Span<float>(vector).data() == vector.data());
    CHECK(dp::Span(constant)[1] == 2 && dp::Span(array).size() == 2 && dp::Span<const float>(plain).end()[-1] == 8);
    CHECK(dp::Span<const float>(plain, 2).size() == 2 && dp::Span<const float>().empty());
    CHECK(dp::Span<const float>(dp::Span(vector)).begin() == vector.data());
    CHECK([](dp::Span<const int> list) { return list.size() == 3 && list[2] == 9; }({7, 8, 9}));
#if defined(__cpp_lib_span)
    CHECK(dp::Span<float>(std::span(vector)).size() == 3 && std::span<const float>(dp::Span(vector)).size() == 3);
#endif
    const dp::Shape shape{ElementType::F32, {2, 3}};
    CHECK(to_string(shape) == "f32[2,3]" && to_string(dp::Shape{ElementType::PRED, {}}) == "pred[]");
    CHECK(shape == dp::Shape::of(shape.raw()) && shape != dp::Shape{ElementType::S32, {2, 3}});
    CHECK(to_string(ElementType::F8E4M3B11FNUZ) == "f8e4m3b11fnuz" && to_string(ElementType{}).empty());
    CHECK(dp::size_of(ElementType::C128) == 16 && dp::size_of(ElementType::S4) == 1);
    CHECK(dp::size_of(ElementType{99}) == 0);
    static_assert(dp::element_type_of_v<std::int8_t> == ElementType::S8);
    static_assert(dp::element_type_of_v<unsigned long long> == ElementType::U64);
    static_assert(dp::element_type_of_v<const std::complex<float>> == ElementType::C64);
}

static void devices(const dp::Client& client) {
    CHECK(client.platform_name() == "pjrt_cpu" && !client.platform_version().empty() && client.process_index() == 0);
    CHECK(client.api() != nullptr && client.raw() != nullptr);
    CHECK(client.devices().size() == 2 && client.addressable_devices().size() == 2);
    // Results of temporary objects remain valid.
    const std::string kind = client.devices()[1].kind();
    CHECK(kind == "cpu" && client.addressable_devices().front().to_string() == "cpu:0");
    for (const dp::Device& device : client.devices()) {
        CHECK(device.is_addressable() && device.process_index() == 0 && !device.debug_string().empty());
        CHECK(client.lookup_device(device.id()) == device && device != dp::Device());
        CHECK(client.lookup_addressable_device(device.local_hardware_id()) == device);
        CHECK(device.memories().size() == 3 && device.default_memory().kind() == "device");
        for (const dp::Memory& memory : device.memories()) CHECK(memory.devices().front() == device);
        for (const dp::Option& attribute : device.attributes()) CHECK(!attribute.name.empty());
        CHECK(device.memory_stats().bytes_in_use >= 0);
        device.clear_memory_stats();
        CHECK(!device.poison_execution(7, ErrorCode::Aborted, "for the test"));
    }
    const dp::Memory memory = client.devices()[1].memories()[0];
    CHECK(client.memories().size() == 6 && memory == client.devices()[1].memories()[0] && memory.kind_id() >= 0);
    CHECK(memory != client.devices()[0].memories()[0] && !memory.to_string().empty() && !memory.debug_string().empty());
    CHECK(client.default_device_assignment(2, 1) == (std::vector<std::int64_t>{0, 1}));
    const dp::TopologyDescription topology = client.topology();
    CHECK(topology.platform_name() == "pjrt_cpu" && topology.devices().size() == 2);
    CHECK(topology.devices()[1].id() == 1 && topology.devices()[1].kind() == "cpu");
    CHECK(topology.fingerprint() == client.topology().fingerprint() && topology.serialize().size() > 0);
    client.synchronize(std::chrono::seconds(1));

    const dp::KeyValueStore store = dp::KeyValueStore::in_process();
    store.prefixed("job", "1").put("key", "value");
    CHECK(store.prefixed("job", "1").wait_for("key", std::chrono::seconds(1)).size() == 5);
    const std::chrono::milliseconds soon(1);
    FAILS(ErrorCode::DeadlineExceeded, "dp_key_value_store_get", store.wait_for("key", soon, error));
    FAILS(ErrorCode::InvalidArgument, "NUL", store.put({"a\0b", 3}, "value", error));
}

static void transfers(const dp::Client& client) {
    Floats values{1, 2, 3, 4, 5, 6};
    const dp::Buffer buffer = client.upload(dp::Span<const float>(values), {2, 3});
    CHECK(buffer.shape() == (dp::Shape{ElementType::F32, {2, 3}}) && to_string(buffer.shape()) == "f32[2,3]");
    CHECK(buffer.to_vector<float>() == values && buffer.host_size() == 24 && buffer.on_device_size() >= 24);
    CHECK(buffer.layout() == "{1,0}" && buffer.device() == client.devices()[0] && buffer.client() == client);
    CHECK(buffer.memory() == client.devices()[0].default_memory() && buffer.is_on_cpu() && !buffer.is_deleted());
    CHECK(buffer.unpadded_dimensions() == buffer.shape().dimensions && buffer.unsafe_pointer() != 0);
    CHECK(buffer.dynamic_dimensions() == (std::vector<bool>{false, false}));
    buffer.wait();
    buffer.ready_event().wait();

    // Types, and ways to write arrays.
    const std::size_t rows = 3;
    CHECK(client.upload(values, {rows, values.size() / rows}).shape().dimensions == (std::vector<std::int64_t>{3, 2}));
    CHECK(client.upload({1, 2, 3}, {3}).to_vector<int>() == (std::vector<int>{1, 2, 3}));
    CHECK(client.upload({2.5}, {}).to_vector<double>() == std::vector<double>{2.5});
    CHECK(client.upload(std::array<bool, 2>{true, false}, {2}).to_vector<bool>() == (std::vector<bool>{true, false}));
    CHECK(client.upload(std::array<Half, 1>{{{0x3f80}}}, {1}).to_vector<Half>()[0].bits == 0x3f80);
    const std::vector<std::complex<float>> complex{{1, 2}, {3, 4}};
    CHECK(client.upload(complex, {2}).to_vector<std::complex<float>>() == complex);
    const std::vector<std::int64_t> extents{1, 1, 1, 1, 1, 1, 1, 1, 6};
    CHECK(client.upload(values, extents).shape().dimensions == extents);
    CHECK(client.upload(Floats(), {0, 3}).to_vector<float>().empty());
    CHECK(client.upload(values.data(), 8, ElementType::F32, {2}).to_vector<float>() == (Floats{1, 2}));

    // Strides: a transposed array, and every second element from the last on.
    dp::UploadOptions options;
    options.byte_strides = {4, 12};
    CHECK(client.upload(values, {3, 2}, options).to_vector<float>() == (Floats{1, 4, 2, 5, 3, 6}));
    options.byte_strides = {-8};
    options.offset = 20;
    CHECK(client.upload(values, {3}, options).to_vector<float>() == (Floats{6, 4, 2}));
    FAILS(ErrorCode::InvalidArgument, "byte_strides", client.upload(values, {3, 2}, options, error));
    options = dp::UploadOptions();
    options.device = client.devices()[1];
    CHECK(client.upload(values, {6}, options).device() == client.devices()[1]);
    options.memory = client.devices()[1].memories()[1];
    FAILS(ErrorCode::InvalidArgument, "memory is enough", client.upload(values, {6}, options, error));
    options.device.reset();
    options.layout = "{0,1}";
    const dp::Buffer column_major = client.upload(values, {2, 3}, options);
    CHECK(column_major.layout() == "{0,1}" && column_major.memory().kind() == "pinned_host");
    CHECK(column_major.to_vector<float>() == values);
    options.layout = std::string("{0,1}\0", 6);
    FAILS(ErrorCode::InvalidArgument, "layout", client.upload(values, {2, 3}, options, error));

    // Downloads.
    float plain[6] = {};
    buffer.to_host(plain);
    CHECK(plain[5] == 6);
    std::array<float, 6> array{};
    buffer.to_host(array.data(), sizeof(array), "{0,1}");
    CHECK(array[1] == 4);
    Floats later(6);
    client.upload(values, {6}).start_to_host(later).wait();
    CHECK(later == values);
    buffer.start_raw_to_host(4, later.data(), 8).wait();
    CHECK(later[0] == 2 && later[1] == 3);
    FAILS(ErrorCode::InvalidArgument, "are f32, and not s32", buffer.to_vector<int>(error));
    double wide[6];
    FAILS(ErrorCode::InvalidArgument, "are f32, and not f64", buffer.to_host(wide, error));
    later.resize(5);
    FAILS(ErrorCode::InvalidArgument, "", buffer.to_host(later, error));
    FAILS(ErrorCode::InvalidArgument, "", buffer.start_to_host(later, error));
    dp::Error failure;
    CHECK(buffer.to_vector<int>(&failure).empty() && failure);
    CHECK(buffer.to_vector<float>(&failure).size() == 6 && !failure && failure.code() == ErrorCode::Ok);

    // Copies, and buffers without uploads.
    CHECK(buffer.copy_to(client.devices()[1]).device() == client.devices()[1]);
    CHECK(buffer.copy_to(client.devices()[1].memories()[2]).to_vector<float>() == values);
    CHECK(to_string(buffer.bitcast({ElementType::S32, {6}}).shape()) == "s32[6]");
    const dp::Memory memory = buffer.memory();
    CHECK(memory.create_uninitialized_buffer({ElementType::F32, {5}}).to_vector<float>().size() == 5);
    const dp::Shape five{ElementType::F32, {5}};
    const dp::Buffer poisoned = memory.create_error_buffer(five, ErrorCode::DataLoss, "for the test");
    FAILS(ErrorCode::DataLoss, "for the test", poisoned.wait(error));
    FAILS(ErrorCode::DataLoss, "for the test", poisoned.to_vector<float>(error));
    const dp::Buffer freed = client.upload(values, {6});
    freed.free_memory();
    CHECK(freed.is_deleted());
    FAILS(ErrorCode::InvalidArgument, "deleted", freed.to_vector<float>(error));
}

static void lent_memory(const dp::Client& client) {
    Floats values(1 << 12, 3.0f);
    const void* const address = values.data();
    {
        const dp::Buffer buffer = client.upload_owned(std::move(values), {1 << 12});
        CHECK(values.empty() && buffer.to_vector<float>()[4095] == 3);
        // The memory is used without a copy, if it is aligned as the device needs it.
        CHECK(reinterpret_cast<std::uintptr_t>(address) % 64 != 0 ||
              buffer.unsafe_pointer() == reinterpret_cast<std::uintptr_t>(address));
    }
    std::array<int, 3> array{1, 2, 3};
    CHECK(client.upload_owned(std::move(array), {3}).to_vector<int>()[2] == 3);

    // The function can only be moved. It is called once.
    std::atomic<int> released{0};
    const auto lend = [&](const dp::Client& to, dp::Extents dimensions, dp::UploadOptions options, dp::Error* error) {
        auto owner = std::make_unique<Floats>(4, 1.0f);
        const void* const data = owner->data();
        auto release = [owner = std::move(owner), &released] { ++released; };
        return to.upload_lent(data, 16, ElementType::F32, dimensions, std::move(release), options, error);
    };
    {
        const dp::Buffer buffer = lend(client, {4}, {}, nullptr);
        CHECK(buffer.to_vector<float>() == Floats(4, 1.0f));
    }
    client.synchronize(std::chrono::seconds(5));
    CHECK(released == 1);
    dp::UploadOptions options;
    options.semantics = dp::HostBufferSemantics::ImmutableUntilTransferCompletes;
    lend(client, {4}, options, nullptr).wait();
    client.synchronize(std::chrono::seconds(5));
    CHECK(released == 2);
    // Also if the upload fails, for whatever reason.
    FAILS(ErrorCode::InvalidArgument, "", lend(client, {5}, {}, error));
    CHECK(released == 4);
    FAILS(ErrorCode::InvalidArgument, "`client` is NULL", lend(dp::Client(), {4}, {}, error));
    CHECK(released == 6);
    options.layout = std::string("\0", 1);
    FAILS(ErrorCode::InvalidArgument, "layout", lend(client, {4}, options, error));
    options.layout = "nonsense";
    FAILS(ErrorCode::InvalidArgument, "layout", lend(client, {4}, options, error));
    CHECK(released == 10);
    // Memory that is not lent can only be used during the call.
    options.layout.clear();
    const Floats ones(4, 1.0f);
    FAILS(ErrorCode::InvalidArgument, "", client.upload(ones, {4}, options, error));
}

static void exchanges(const dp::Client& client) {
    const Floats values{1, 2, 3, 4, 5, 6};
    const dp::Buffer buffer = client.upload(values, {2, 3});
    const dp::Buffer imported = client.from_dlpack(buffer.to_dlpack());
    CHECK(imported.to_vector<float>() == values && imported.shape() == buffer.shape());
    const dp::Buffer elsewhere = client.from_dlpack(buffer.to_dlpack_unversioned(), client.devices()[1]);
    CHECK(elsewhere.to_vector<float>() == values && elsewhere.device() == client.devices()[1]);
    FAILS(ErrorCode::InvalidArgument, "`buffer` is NULL", dp::Buffer().to_dlpack(dp::DlpackDevice::None, 0, error));
    DLManagedTensor* const nothing = nullptr;
    FAILS(ErrorCode::InvalidArgument, "`tensor`", client.from_dlpack(nothing, {}, {}, error));

    const dp::Memory memory = client.devices()[0].default_memory();
    const dp::TransferManager manager =
        memory.create_transfer_manager({{ElementType::F32, {2, 3}}, {ElementType::S32, {2}}, {ElementType::F32, {}}});
    CHECK(manager.buffer_count() == 3 && manager.buffer_size(0) == 24 && dp::TransferManager().buffer_count() == 0);
    const dp::Buffer first = manager.retrieve_buffer(0), second = manager.retrieve_buffer(1);
    CHECK(!first.ready_event().is_ready());
    const dp::Event half = manager.transfer(0, 0, {values.data(), 12}, false);
    manager.transfer_owned(0, 12, Floats{4, 5, 6}, true).wait();
    manager.transfer_owned(1, 0, std::vector<int>{7, 8}, true).wait();
    half.wait();
    CHECK(first.to_vector<float>() == values && second.to_vector<int>() == (std::vector<int>{7, 8}));
    manager.set_buffer_error(2, ErrorCode::Cancelled, "for the test");
    const dp::Buffer third = manager.retrieve_buffer(2);
    FAILS(ErrorCode::Cancelled, "for the test", third.wait(error));
    FAILS(ErrorCode::OutOfRange, "`index` is 9", manager.transfer_owned(9, 0, Floats{1}, true, error));
    const dp::TransferManager absent;
    FAILS(ErrorCode::InvalidArgument, "`manager` is NULL", absent.transfer_owned(0, 0, Floats{1}, true, error));

    // The options own the functions.
    const auto token = std::make_shared<int>(0);
    {
        dp::ExecuteOptions options;
        const auto receive = [token](const dp::SentChunk& chunk) {
            return chunk.is_last ? ErrorCode::Ok : ErrorCode::Aborted;
        };
        options.on_send(5, receive);
        options.on_receive(4, [token](std::size_t, dp::CopyToDeviceStream) {}).major_to_minor_callbacks(true);
        CHECK(token.use_count() == 4);
    }
    CHECK(token.use_count() == 1);
    dp::CopyToDeviceStream none;
    FAILS(ErrorCode::InvalidArgument, "`stream` is NULL", none.add_chunk("chunk", error));
    FAILS(ErrorCode::InvalidArgument, "`stream` is NULL", none.total_bytes(error));
}

static void events(const dp::Client& client) {
    dp::SettableEvent settable = client.create_event();
    const dp::Event event = settable.event();
    CHECK(!event.is_ready() && !event.wait_for(std::chrono::microseconds(1)));
    CHECK(!event.wait_for(std::chrono::duration<double>(-1)));
    int calls = 0;
    dp::Error outcome(ErrorCode::Unknown, "not called");
    auto token = std::make_unique<int>(3);
    event.then([&calls, &outcome, token = std::move(token)](dp::Error error) {
        calls += *token;
        outcome = std::move(error);
    });
    CHECK(calls == 0);
    settable.set();
    event.wait();
    CHECK(!settable && event.is_ready() && event.wait_for(std::chrono::hours::max()));
    CHECK(calls == 3 && !outcome && event.wait_for(std::chrono::seconds(0)));
    event.then([&](dp::Error error) { calls += error ? 100 : 1; });
    CHECK(calls == 4);
    FAILS(ErrorCode::InvalidArgument, "`settable` is NULL", settable.set(error));

    settable = client.create_event();
    const dp::Event failing = settable.event();
    // The callback drops the event to which it belongs.
    auto held = std::make_unique<dp::Event>(failing);
    held->then([&](dp::Error error) {
        held.reset();
        outcome = std::move(error);
    });
    std::thread setter([&] { settable.set_error(ErrorCode::DeadlineExceeded, "for the test"); });
    FAILS(ErrorCode::DeadlineExceeded, "for the test", failing.wait(error));
    setter.join();
    CHECK(outcome.code() == ErrorCode::DeadlineExceeded && held == nullptr);
    // This is the error of the operation, and not a timeout.
    FAILS(ErrorCode::DeadlineExceeded, "for the test", failing.wait_for(std::chrono::seconds(1), error));
    const dp::Event dropped = client.create_event().event();
    dp::Error failure;
    dropped.wait(&failure);
    CHECK(failure);
    settable = client.create_event();
    FAILS(ErrorCode::InvalidArgument, "code", client.create_event().set_error(ErrorCode{77}, "no code", error));
}

static void runs(const dp::Client& client) {
    const dp::Program program = dp::Program::mlir(ADD);
    CHECK(program.format() == "mlir" && program.code() == ADD);
    const dp::LoadedExecutable add = client.compile(program);
    CHECK(add.raw() != nullptr && add.num_outputs() == 1 && add.num_parameters() == 2 && !add.is_deleted());
    CHECK(to_string(add.parameter_shape(1)) == "f32[2,3]" && add.client() == client && add.devices().size() == 1);
    CHECK(add.parameter_layout(0) == "{1,0}" || add.parameter_layout(0).empty());
    const dp::Executable executable = add.executable();
    CHECK(!executable.name().empty() && executable.num_outputs() == 1 && executable.num_replicas() == 1);
    CHECK(executable.num_partitions() == 1 && to_string(executable.output_shape(0)) == "f32[2,3]");
    CHECK(executable.output_memory_kind(0) == "device" && executable.parameter_memory_kind(1) == "device");
    CHECK(executable.size_of_generated_code() >= -1 && executable.compiled_memory_stats().argument_size == 48);
    CHECK(executable.fingerprint().to_string() == add.executable().fingerprint().to_string());
    CHECK(executable.cost_analysis().find("flops").has_value() && !executable.cost_analysis().find("nonsense"));
    const dp::Program optimized = executable.optimized_program();
    CHECK(executable.compile_options().encode().size() > 0 && !optimized.format().empty() && !optimized.code().empty());
    FAILS(ErrorCode::OutOfRange, "`index` is 1", executable.output_shape(1, error));

    const Floats values{1, 2, 3, 4, 5, 6}, twice{2, 4, 6, 8, 10, 12};
    const dp::Buffer x = client.upload(values, {2, 3}), y = client.upload(values, {2, 3});
    CHECK(add.execute({x, y})[0].to_vector<float>() == twice && add.execute({x, x})[0].to_vector<float>() == twice);
    CHECK(add.execute({client.upload(values, {2, 3}), y}).front().to_vector<float>() == twice);
    const dp::ExecuteOptions options_of_run = dp::ExecuteOptions().launch_id(1).call_location("caller.cpp:1");
    const dp::Execution run = add.execute_async({x, y}, options_of_run);
    run.done.wait();
    CHECK(run.outputs.size() == 1 && run.outputs[0].to_vector<float>() == twice);
    std::vector<dp::Input> list;
    list.push_back(x);
    list.push_back(client.upload(values, {2, 3}));
    CHECK(add.execute(list)[0].to_vector<float>() == twice);
    FAILS(ErrorCode::InvalidArgument, "inputs[1]", add.execute(list, {}, error));  // It was donated before.

    FAILS(ErrorCode::InvalidArgument, "", add.execute({x}, {}, error));
    FAILS(ErrorCode::InvalidArgument, "", add.execute({}, {}, error));
    FAILS(ErrorCode::InvalidArgument, "", add.execute({x, client.upload(values, {6})}, {}, error));
    FAILS(ErrorCode::InvalidArgument, "inputs[1]", add.execute({x, dp::Buffer()}, {}, error));
    FAILS(ErrorCode::InvalidArgument, "", client.compile(dp::Program::mlir("func.func nonsense"), {}, error));

    // Calls with few inputs allocate the list of outputs, and nothing else.
    const std::size_t before = allocations;
    const std::vector<dp::Buffer> outputs = add.execute({x, y});
    CHECK(allocations == before + 1);
    const dp_buffer* const inputs[] = {x.get(), y.get()};
    dp_buffer* made[1];
    add.execute_into(inputs, made);
    CHECK(allocations == before + 1);
    CHECK(dp::Buffer::adopt(made[0]).to_vector<float>() == twice);
    FAILS(ErrorCode::InvalidArgument, "outputs", add.execute_into(inputs, {}, {}, error));

    // Donations.
    const dp::LoadedExecutable update = client.compile(dp::Program::mlir(UPDATE));
    const dp::Buffer one = client.upload({1.0f, 1.0f, 1.0f, 1.0f}, {4});
    dp::Buffer state = client.upload({0.0f, 0.0f, 0.0f, 0.0f}, {4});
    for (int step = 0; step < 3; ++step) {
        dp_buffer* const old = state.get();
        state = std::move(update.execute({one, std::move(state)})[1]);
        CHECK(state.get() != old && dp_release(old) == DP_INVALID_ARGUMENT);
    }
    CHECK(state.to_vector<float>() == Floats(4, 3.0f) && one.to_vector<float>() == Floats(4, 1.0f));
    // A buffer with a copy cannot be donated. The copy remains.
    dp::Buffer donor = state;
    dp::Error failure;
    CHECK(update.execute({one, std::move(donor)}, {}, &failure).empty());
    CHECK(failure.code() == ErrorCode::FailedPrecondition && !donor && state.to_vector<float>() == Floats(4, 3.0f));
    // A buffer cannot be donated and also be another input.
    donor = client.upload(Floats(4, 1.0f), {4});
    CHECK(update.execute({donor, std::move(donor)}, {}, &failure).empty());
    CHECK(failure.code() == ErrorCode::InvalidArgument && !donor);
    // If the run fails, the donated buffers are released.
    for (int reason = 0; reason < 3; ++reason) {
        donor = client.upload({1.0f, 2.0f, 3.0f, 4.0f}, {4});
        dp_buffer* const raw = donor.get();
        const dp::LoadedExecutable program_of_reason = reason == 0 ? dp::LoadedExecutable() : update;
        const dp::Buffer other = reason == 1 ? dp::Buffer() : x;
        const std::vector<dp::Buffer> none = program_of_reason.execute({other, std::move(donor)}, {}, &failure);
        CHECK(none.empty() && failure && !donor && dp_release(raw) == DP_INVALID_ARGUMENT);
    }

    // More inputs than fit without an allocation.
    std::string sum = "func.func public @main(";
    for (int i = 0; i < 20; ++i) sum += (i == 0 ? "%a" : ", %a") + std::to_string(i) + ": tensor<f32>";
    sum += ") -> tensor<f32> {\n  %s0 = stablehlo.add %a0, %a1 : tensor<f32>\n";
    for (int i = 1; i < 19; ++i) {
        sum += "  %s" + std::to_string(i) + " = stablehlo.add %s" + std::to_string(i - 1) + ", %a" +
               std::to_string(i + 1) + " : tensor<f32>\n";
    }
    sum += "  return %s18 : tensor<f32>\n}\n";
    std::vector<dp::Input> many;
    for (int i = 0; i < 20; ++i) many.push_back(client.upload({static_cast<float>(i)}, {}));
    CHECK(client.compile(dp::Program::mlir(sum)).execute(many)[0].to_vector<float>() == Floats{190});

    // Serialization. The bytes can be passed as any range.
    const dp::Bytes bytes = executable.serialize();
    const dp::LoadedExecutable loaded = client.deserialize_and_load(bytes);
    CHECK(loaded.execute({x, y})[0].to_vector<float>() == twice && client.load(executable).num_outputs() == 1);
    std::vector<unsigned char> copy(bytes.data(), bytes.data() + bytes.size());
    CHECK(client.deserialize_and_load(copy).num_outputs() == 1);
    copy.back() ^= 1;
    FAILS(ErrorCode::InvalidArgument, "checksum", client.deserialize_and_load(copy, {}, error));
    FAILS(ErrorCode::InvalidArgument, "", client.deserialize_and_load("nonsense", {}, error));

    dp::CompileOptions options;
    options.num_replicas(1).num_partitions(1).device_ordinal(1).override_option("xla_cpu_enable_fast_math", false);
    options.override_option("a", "text").override_option("b", 3).override_option("c", 0.5);
    const dp::CompileOptions decoded = dp::CompileOptions::decode(options.encode());
    CHECK(decoded.encode().to_string() == options.encode().to_string() && dp::CompileOptions().encode().size() > 0);
    FAILS(ErrorCode::InvalidArgument, "at least 1", options.num_replicas(0, error));
    FAILS(ErrorCode::InvalidArgument, "larger than", options.override_option("d", UINT64_MAX, error));
    const dp::LoadedExecutable second = client.compile(program, dp::CompileOptions().device_ordinal(1));
    CHECK(second.devices()[0] == client.devices()[1]);
    CHECK(client.topology().compile(program).num_outputs() == 1);

    // Two devices.
    const dp::LoadedExecutable sharded = client.compile(program, dp::CompileOptions().device_assignment(2, 1, {0, 1}));
    const auto on = [&](int device, float value) {
        dp::UploadOptions to;
        to.device = client.devices()[static_cast<std::size_t>(device)];
        return client.upload(Floats(6, value), {2, 3}, to);
    };
    const dp::Buffer here = on(0, 1), there = on(1, 2);
    const dp::ShardedExecution both = sharded.execute_sharded({here, on(0, 3), there, on(1, 4)});
    for (const dp::Event& done : both.done) done.wait();
    CHECK(both.outputs.size() == 2 && both.outputs[1].size() == 1 && both.done.size() == 2);
    CHECK(both.outputs[0][0].to_vector<float>() == Floats(6, 4));
    CHECK(both.outputs[1][0].to_vector<float>() == Floats(6, 6));
    FAILS(ErrorCode::InvalidArgument, "on some devices only",
          sharded.execute_sharded({here, on(0, 3), there, there}, {}, error));
    FAILS(ErrorCode::InvalidArgument, "", sharded.execute_sharded({here, here, there}, {}, error));
}

// Objects that are empty, were moved from, or are stale.
static void wrong_objects(const dp::Client& client) {
    const dp::Client none;
    FAILS(ErrorCode::InvalidArgument, "`client` is NULL", none.devices(error));
    FAILS(ErrorCode::InvalidArgument, "`client` is NULL", none.platform_name(error));
    FAILS(ErrorCode::InvalidArgument, "`client` is NULL", none.compile(dp::Program(), {}, error));
    FAILS(ErrorCode::InvalidArgument, "`program` is NULL", client.compile(dp::Program(), {}, error));
    FAILS(ErrorCode::InvalidArgument, "`buffer` is NULL", dp::Buffer().shape(error));
    FAILS(ErrorCode::InvalidArgument, "`buffer` is NULL", dp::Buffer().unpadded_dimensions(error));
    FAILS(ErrorCode::InvalidArgument, "`buffer` is NULL", dp::Buffer().dynamic_dimensions(error));
    FAILS(ErrorCode::InvalidArgument, "`buffer` is NULL", dp::Buffer().to_vector<float>(error));
    FAILS(ErrorCode::InvalidArgument, "`event` is NULL", dp::Event().wait(error));
    FAILS(ErrorCode::InvalidArgument, "`event` is NULL", dp::Event().then([](dp::Error) { std::abort(); }, error));
    FAILS(ErrorCode::InvalidArgument, "`event` is NULL", dp::Event().wait_for(std::chrono::seconds(1), error));
    FAILS(ErrorCode::InvalidArgument, "`executable` is NULL", dp::LoadedExecutable().execute({}, {}, error));
    FAILS(ErrorCode::InvalidArgument, "`executable` is NULL", dp::LoadedExecutable().execute_sharded({}, {}, error));
    FAILS(ErrorCode::InvalidArgument, "`executable` is NULL", dp::LoadedExecutable().devices(error));
    FAILS(ErrorCode::InvalidArgument, "`buffer` is not a PJRT_Buffer", dp::Buffer::adopt_raw(client, nullptr, error));
    FAILS(ErrorCode::InvalidArgument, "`client` is not", dp::Client::adopt_raw(client.api(), nullptr, error));
    CHECK(none.raw() == nullptr && none.api() == nullptr && !none && dp::Bytes().size() == 0);
    const dp::Program nothing;
    CHECK(nothing.code().empty() && nothing.format().empty() && dp::LoadedExecutable().num_outputs() == 0);

    dp::Buffer buffer = client.upload({1.0f}, {1});
    const dp::Buffer copy = buffer;
    CHECK(copy.get() == buffer.get());
    const dp::Buffer moved = std::move(buffer);
    CHECK(!buffer && moved && buffer.get() == nullptr && moved.to_vector<float>()[0] == 1);
    FAILS(ErrorCode::InvalidArgument, "`buffer` is NULL", buffer.host_size(error));
    buffer = moved;
    dp::Buffer& same = buffer;
    buffer = same;
    buffer = std::move(same);
    CHECK(buffer.get() == moved.get());
    // An object whose references were all released, and an object of another type.
    dp_buffer* const raw = dp::Buffer(client.upload({1.0f}, {1})).release();
    const dp::Buffer stale = dp::Buffer::adopt(raw);
    CHECK(dp_release(raw) == DP_OK);
    FAILS(ErrorCode::InvalidArgument, "was freed", stale.to_vector<float>(error));
    const dp::Buffer stale_copy = stale;
    CHECK(stale_copy.raw() == nullptr);
    dp::Event wrong = dp::Event::adopt(reinterpret_cast<dp_event*>(client.upload({1.0f}, {1}).release()));
    FAILS(ErrorCode::InvalidArgument, "is a dp_buffer, but must be a dp_event", wrong.wait(error));
    // Copies allocate nothing.
    const std::size_t before = allocations;
    const std::array<dp::Buffer, 8> copies{moved, moved, moved, moved, moved, moved, moved, moved};
    CHECK(allocations == before && copies[7].to_vector<float>()[0] == 1);
}

#ifdef WITH_PJRT
// Objects that the program created with the plugin's table.
static void adopted(const dp::Plugin& plugin) {
    const PJRT_Api* const api = plugin.load();
    const dp::Options options = plugin.client_options(dp::Options().set("device_count", 1));
    const dp::Lease lease = plugin.acquire("the test");
    const std::vector<PJRT_NamedValue> values = dp::to_pjrt(options);
    PJRT_Client_Create_Args create{};
    create.struct_size = PJRT_Client_Create_Args_STRUCT_SIZE;
    create.create_options = values.data();
    create.num_options = values.size();
    CHECK(api->PJRT_Client_Create(&create) == nullptr);
    const dp::Client client = dp::Client::adopt_raw(api, create.client);
    CHECK(client.raw() == create.client && client.api() == api && client.devices().size() == 1);
    const float data[] = {1, 2};
    const std::int64_t extent = 2;
    PJRT_Client_BufferFromHostBuffer_Args upload{};
    upload.struct_size = PJRT_Client_BufferFromHostBuffer_Args_STRUCT_SIZE;
    upload.client = client.raw();
    upload.data = data;
    upload.type = PJRT_Buffer_Type_F32;
    upload.dims = &extent;
    upload.num_dims = 1;
    upload.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    upload.device = client.addressable_devices()[0].raw();
    CHECK(api->PJRT_Client_BufferFromHostBuffer(&upload) == nullptr);
    PJRT_Event_Destroy_Args destroy{};
    destroy.struct_size = PJRT_Event_Destroy_Args_STRUCT_SIZE;
    destroy.event = upload.done_with_host_buffer;
    CHECK(api->PJRT_Event_Destroy(&destroy) == nullptr);
    const dp::Buffer buffer = dp::Buffer::adopt_raw(client, upload.buffer);
    CHECK(buffer.raw() == upload.buffer && buffer.to_vector<float>() == Floats{1, 2});
}
#endif

static void all() {
    spans_and_shapes();
    CHECK(dp::is_compatible());
    const dp::Registry registry = cpu_registry();
    const dp::Plugin plugin = registry.find(CPU);
    dp::Error failure(ErrorCode::Unknown, "before");
    const dp::Client client = plugin.create_client(dp::Options().set("device_count", 2), &failure);
    CHECK(client && !failure && failure.message() == "no error");
    dp::Options wrong;
    wrong.set("device_count", -1);
    FAILS(ErrorCode::InvalidArgument, "device_count", plugin.create_client(wrong, error));
    devices(client);
    transfers(client);
    lent_memory(client);
    exchanges(client);
    extensions(plugin, client);
    events(client);
    runs(client);
    wrong_objects(client);

    const dp::TopologyDescription topology = client.topology();
    const dp::TopologyDescription again = plugin.deserialize_topology(topology.serialize());
    CHECK(again.fingerprint() == topology.fingerprint());
#ifdef WITH_PJRT
    adopted(plugin);
#endif
    // Objects outlive their client.
    const dp::Buffer last = plugin.create_client().upload({1.0f}, {1});
    CHECK(last.to_vector<float>()[0] == 1);
}

int main() {
    all();
    CHECK(dp::object_count() == 0);
    return done("caller");
}
