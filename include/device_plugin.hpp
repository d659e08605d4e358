// A C++17 interface to device_plugin.h: finding plugins, and running programs on their devices. It contains only inline
// functions, so that the library can be used with any compiler. base.hpp has the rules.
//
//     namespace dp = device_plugin;
//     const dp::Client client = dp::Registry::discover().select(dp::Policy().prefer("gpu").any()).create_client();
//     const dp::LoadedExecutable program = client.compile(dp::Program::mlir(text));
//     const dp::Buffer weights = client.upload(values, {2, 3});
//     dp::Buffer state = client.upload({0.0f, 0.0f, 0.0f}, {3});
//     state = std::move(program.execute({weights, std::move(state)})[0]);
//     const std::vector<float> result = state.to_vector<float>();
//
// For a plugin in C++, include device_plugin/vendor.hpp.
// To exchange options with programs that include XLA's pjrt_c_api.h, include device_plugin_pjrt.hpp.
#ifndef DEVICE_PLUGIN_HPP
#define DEVICE_PLUGIN_HPP

#include "device_plugin/base.hpp"
#include "device_plugin/element_type.hpp"
#include "device_plugin/capabilities.hpp"
#include "device_plugin/registry.hpp"
#include "device_plugin/buffer.hpp"
#include "device_plugin/program.hpp"
#include "device_plugin/client.hpp"
#include "device_plugin/stablehlo.hpp"
#include "device_plugin/extensions.hpp"

#endif  // DEVICE_PLUGIN_HPP
