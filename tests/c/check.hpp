// Checks for the tests of device_plugin.hpp. Each check is counted. A failure prints its line and ends the program.
#ifndef CHECK_HPP
#define CHECK_HPP

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "device_plugin.hpp"

namespace dp = device_plugin;

inline int checks = 0;

#define CHECK(...)                                                                           \
    do {                                                                                     \
        ++checks;                                                                            \
        if (!(__VA_ARGS__)) {                                                                \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #__VA_ARGS__);   \
            std::exit(1);                                                                    \
        }                                                                                    \
    } while (0)

// Checks that a call fails in both modes with this code and this text in the message. The call uses `error`.
#define FAILS(expected, says, ...)                                                           \
    do {                                                                                     \
        const auto call = [&](dp::Error* error) { static_cast<void>(__VA_ARGS__); };         \
        dp::Error found;                                                                     \
        call(&found);                                                                        \
        check_error(found, expected, says, __LINE__);                                        \
        check_error(thrown(call), expected, says, __LINE__);                                 \
    } while (0)

inline void check_error(const dp::Error& error, dp::ErrorCode code, std::string_view says, int line) {
    ++checks;
    const bool said = error.message().find(says) != std::string_view::npos;
    if (error && error.code() == code && said && error.what() == error.message()) return;
    std::fprintf(stderr, "line %d: error %u: %s\n", line, static_cast<unsigned>(error.code()), error.what());
    std::exit(1);
}

// Makes a call without a place for its error, and returns the error that it throws. In a program without exceptions, it
// would abort, so that the call is made as the other mode.
template <typename F>
dp::Error thrown(F call) {
#if defined(__cpp_exceptions)
    try {
        call(nullptr);
    } catch (const dp::Error& error) {
        return error;
    }
    return dp::Error();
#else
    dp::Error error;
    call(&error);
    return error;
#endif
}

// The name of the CPU device. The variable must give the path of its library.
constexpr const char* CPU = "pjrt_cpu";
constexpr const char* VARIABLE = "PJRT_NAMES_AND_LIBRARY_PATHS";

// The plugins of the variable, on a machine without other plugins.
inline dp::Registry cpu_registry() {
    const char* plugins = std::getenv(VARIABLE);
    if (plugins == nullptr) {
        std::fprintf(stderr, "set %s=%s:PATH, where PATH is that of libpjrt_plugin_cpu.so\n", VARIABLE, CPU);
        std::exit(1);
    }
    return dp::Registry::discover(
        dp::Discovery::isolated("/").python(false).conventional(false).variable(VARIABLE, plugins));
}

inline int done(const char* name) {
    std::printf("%s: %d checks\n", name, checks);
    return 0;
}

#endif
