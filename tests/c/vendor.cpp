// Tests of device_plugin/vendor.hpp in code without exceptions: a driver that fails, called through its plugin.
#include "check.hpp"
#include "device_plugin/vendor.hpp"

namespace {

int live = 0;  // objects of the driver

struct Counted {
    Counted() { ++live; }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    ~Counted() { --live; }
};

class Driver {
public:
    struct Buffer {
        std::vector<float> elements;
        std::unique_ptr<Counted> counted;
    };
    struct Executable {
        std::unique_ptr<Counted> counted;
    };

    static constexpr const char* name = "failing";
    static constexpr const char* version = "1.0.0";
    static constexpr const char* manifest = nullptr;

    explicit Driver(const dp::Options& options) {
        if (options.size() != 0) dp::fail(dp::Error(dp::ErrorCode::PermissionDenied, "no options here"));
    }
    std::size_t device_count() { return 1; }
    void describe(std::size_t, dp_device_info&) {}
    Buffer upload(const dp::HostArray& array) {
        const auto elements = array.elements<float>();
        return Buffer{{elements.begin(), elements.end()}, std::make_unique<Counted>()};
    }
    void read(const Buffer& buffer, void* data, std::size_t size) { std::memcpy(data, buffer.elements.data(), size); }
    Executable compile(const dp::Module&, const dp::CompileOptions&) {
        dp::fail(dp::Error(dp::ErrorCode::Unimplemented, "the first error"));
        dp::fail(dp::Error(dp::ErrorCode::Internal, "the second error"));
        return {std::make_unique<Counted>()};
    }
    void execute(const Executable&, dp::Launch<Buffer>&) {}

private:
    Counted counted_;
};

}  // namespace

DEVICE_PLUGIN_EXPORT(Driver)

int main() {
    {
        const dp::Plugin plugin = dp::Registry::without_plugins().add(DevicePlugin_GetDescriptor());
        FAILS(dp::ErrorCode::PermissionDenied, "no options here", plugin.create_client(dp::Options().set("a", 1), error));
        CHECK(live == 0);
        const dp::Client client = plugin.create_client();
        const dp::Buffer buffer = client.upload({1.0f, 2.0f}, {2});
        CHECK(buffer.to_vector<float>() == std::vector<float>{1, 2} && live == 2);
        FAILS(dp::ErrorCode::InvalidArgument, "s32[2] has no elements of type f32",
              client.upload(std::vector<std::int32_t>{1, 2}, {2}, {}, error));
        const dp::Module module = dp::build("none", [](dp::FunctionBuilder& f) { return f.argument("tensor<f32>"); });
        FAILS(dp::ErrorCode::Unimplemented, "the first error", client.compile(module.program_for(client), {}, error));
        CHECK(live == 2);
    }
    CHECK(live == 0);
    return done("vendor");
}
