// The part of the benchmark in C++: runs of a program with one input and one output, through the C++ headers.
#include "device_plugin.hpp"

namespace dp = device_plugin;

// Without allocations. Each output belongs to a dp::Buffer, which releases it.
extern "C" void cpp_execute_into(dp_loaded_executable *executable, dp_buffer *input, size_t runs) {
    dp_retain(executable);
    const auto program = dp::LoadedExecutable::adopt(executable);
    for (size_t i = 0; i < runs; ++i) {
        const dp_buffer *const inputs[] = {input};
        dp_buffer *outputs[] = {nullptr};
        program.execute_into(inputs, outputs);
        const auto output = dp::Buffer::adopt(outputs[0]);
    }
}

// With lists of inputs and outputs.
extern "C" void cpp_execute(dp_loaded_executable *executable, dp_buffer *input, size_t runs) {
    dp_retain(executable);
    dp_retain(input);
    const auto program = dp::LoadedExecutable::adopt(executable);
    const auto argument = dp::Buffer::adopt(input);
    for (size_t i = 0; i < runs; ++i) {
        const auto outputs = program.execute({argument});
    }
}
