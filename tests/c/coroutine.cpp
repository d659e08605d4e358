// Tests co_await of events, with C++20.
#include <atomic>
#include <coroutine>
#include <future>
#include <thread>
#include <vector>

#include "check.hpp"

// A coroutine that starts at once and frees itself when it ends. The future gets what it returns, or what it throws.
template <typename T>
struct Task {
    struct promise_type {
        std::promise<T> promise;
        Task get_return_object() { return {promise.get_future()}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_value(T value) { promise.set_value(std::move(value)); }
        void unhandled_exception() { promise.set_exception(std::current_exception()); }
    };
    std::future<T> future;
};

static Task<std::thread::id> until(dp::Event event) {
    co_await event;
    co_return std::this_thread::get_id();
}

static Task<dp::Error> outcome_of(dp::Event event) { co_return co_await outcome(event); }

// The arrays are in the coroutine, so they exist until the transfer has ended.
static Task<float> sum(dp::Client client, dp::LoadedExecutable add) {
    const std::vector<float> ones(4, 1.0f);
    const dp::Buffer x = client.upload(ones, {4});
    dp::Buffer state = x;
    for (int step = 0; step < 3; ++step) {
        dp::Execution run = add.execute_async({x, state});
        co_await run.done;
        state = std::move(run.outputs[0]);
    }
    std::vector<float> result(4);
    co_await state.start_to_host(result);
    co_await state.ready_event();
    co_return result[3];
}

static dp::Error failure_of(std::future<std::thread::id> future) {
    try {
        future.get();
    } catch (const dp::Error& error) {
        return error;
    }
    return dp::Error();
}

static void all() {
    const dp::Client client = cpu_registry().find(CPU).create_client();
    dp::SettableEvent settable = client.create_event();
    const dp::Event event = settable.event();
    auto waiting = until(event);
    auto also = outcome_of(event);
    CHECK(waiting.future.wait_for(std::chrono::milliseconds(1)) == std::future_status::timeout);
    std::thread::id setter_id;
    std::thread setter([&] {
        setter_id = std::this_thread::get_id();
        settable.set();
    });
    // The coroutine continues on the thread that ends the operation.
    const std::thread::id resumed_on = waiting.future.get();
    CHECK(!also.future.get());
    setter.join();
    CHECK(resumed_on == setter_id);
    // An event that is ready does not suspend.
    CHECK(until(event).future.get() == std::this_thread::get_id());

    settable = client.create_event();
    auto failing = until(settable.event());
    auto reported = outcome_of(settable.event());
    settable.set_error(dp::ErrorCode::DataLoss, "for the test");
    const dp::Error error = failure_of(std::move(failing.future));
    CHECK(error.code() == dp::ErrorCode::DataLoss && error.message().find("for the test") != std::string_view::npos);
    CHECK(reported.future.get().code() == dp::ErrorCode::DataLoss);
    settable = client.create_event();
    const dp::Event ended = settable.event();
    settable.set_error(dp::ErrorCode::Aborted, "before");
    CHECK(failure_of(until(ended).future).code() == dp::ErrorCode::Aborted);
    CHECK(failure_of(until(dp::Event()).future).code() == dp::ErrorCode::InvalidArgument);
    CHECK(outcome_of(dp::Event()).future.get().code() == dp::ErrorCode::InvalidArgument);
    // The event ends with an error if nothing can set it any more.
    settable = client.create_event();
    auto dropped = outcome_of(settable.event());
    settable.reset();
    CHECK(dropped.future.get().code() != dp::ErrorCode::Ok);

    const dp::LoadedExecutable add = client.compile(dp::Program::mlir(
        "func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %r = stablehlo.add %x, %y : tensor<4xf32>\n  return %r : tensor<4xf32>\n}\n"));
    CHECK(sum(client, add).future.get() == 4);
    std::vector<std::future<float>> many;
    for (int i = 0; i < 50; ++i) many.push_back(sum(client, add).future);
    for (std::future<float>& one : many) CHECK(one.get() == 4);
}

int main() {
    all();
    // The coroutines drop their objects after they have set their results.
    for (int i = 0; i < 5000 && dp::object_count() != 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(dp::object_count() == 0);
    return done("coroutine");
}
