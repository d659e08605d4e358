// Chooses how this framework lowers its one operation, by the capabilities that the device declares and not by the
// device's name.
#ifndef LOWERING_HPP
#define LOWERING_HPP

#include <cstddef>
#include <sstream>
#include <string>

#include "device_plugin.hpp"

// rows = table[indices]; result = rows · weights.
struct Embedding {
    std::size_t vocabulary;  // rows of the table
    std::size_t width;       // columns of the table, rows of the weights
    std::size_t lookups;     // indices
    std::size_t classes;     // columns of the weights
};

struct Lowering {
    bool dense_gather;       // one-hot · table instead of a gather
    bool bf16;               // compute the product in bf16 and sum in f32
};

// The number of the element type bf16 in PJRT_Buffer_Type.
constexpr std::uint32_t BF16 = 13;

inline Lowering choose(const device_plugin::Capabilities& capabilities, const Embedding& shape) {
    Lowering lowering{};
    lowering.dense_gather = capabilities.gathers_densely(shape.vocabulary);
    // Uses automatic mixed precision with the list for XLA devices, if the device's default type is bf16.
    lowering.bf16 = capabilities.autocast_kind() == std::uint32_t{DP_AUTOCAST_XLA} &&
                    capabilities.autocast_default_dtype() == BF16;
    return lowering;
}

inline std::string describe(const Lowering& lowering) {
    return std::string(lowering.dense_gather ? "one-hot dot_general" : "gather") + ", product in " +
           (lowering.bf16 ? "bf16" : "f32");
}

inline std::string tensor(std::size_t rows, std::size_t columns, const char* type) {
    std::ostringstream out;
    out << "tensor<" << rows << 'x' << columns << 'x' << type << '>';
    return out.str();
}

inline std::string vector(std::size_t length, const char* type) {
    std::ostringstream out;
    out << "tensor<" << length << 'x' << type << '>';
    return out.str();
}

// Returns the StableHLO program.
inline std::string lower(const Embedding& e, const Lowering& lowering) {
    const std::string table = tensor(e.vocabulary, e.width, "f32");
    const std::string indices = vector(e.lookups, "i32");
    const std::string column = tensor(e.lookups, 1, "i32");
    const std::string weights = tensor(e.width, e.classes, "f32");
    const std::string rows = tensor(e.lookups, e.width, "f32");
    const std::string result = tensor(e.lookups, e.classes, "f32");
    std::ostringstream out;
    out << "func.func public @main(%table: " << table << ", %indices: " << indices << ", %weights: " << weights
        << ") -> " << result << " {\n";
    if (lowering.dense_gather) {
        const std::string grid = tensor(e.lookups, e.vocabulary, "i32");
        const std::string mask = tensor(e.lookups, e.vocabulary, "i1");
        const std::string one_hot = tensor(e.lookups, e.vocabulary, "f32");
        out << "  %rows_of = stablehlo.iota dim = 1 : " << grid << "\n"
            << "  %wanted = stablehlo.broadcast_in_dim %indices, dims = [0] : (" << indices << ") -> " << grid << "\n"
            << "  %mask = stablehlo.compare EQ, %rows_of, %wanted, SIGNED : (" << grid << ", " << grid << ") -> " << mask
            << "\n"
            << "  %one_hot = stablehlo.convert %mask : (" << mask << ") -> " << one_hot << "\n"
            << "  %rows = stablehlo.dot_general %one_hot, %table, contracting_dims = [1] x [0] : (" << one_hot << ", "
            << table << ") -> " << rows << "\n";
    } else {
        out << "  %column = stablehlo.reshape %indices : (" << indices << ") -> " << column << "\n"
            << "  %rows = \"stablehlo.gather\"(%table, %column) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], "
               "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, "
            << e.width << ">}> : (" << table << ", " << column << ") -> " << rows << "\n";
    }
    if (lowering.bf16) {
        const std::string short_rows = tensor(e.lookups, e.width, "bf16");
        const std::string short_weights = tensor(e.width, e.classes, "bf16");
        out << "  %short_rows = stablehlo.convert %rows : (" << rows << ") -> " << short_rows << "\n"
            << "  %short_weights = stablehlo.convert %weights : (" << weights << ") -> " << short_weights << "\n"
            << "  %result = stablehlo.dot_general %short_rows, %short_weights, contracting_dims = [1] x [0] : ("
            << short_rows << ", " << short_weights << ") -> " << result << "\n";
    } else {
        out << "  %result = stablehlo.dot_general %rows, %weights, contracting_dims = [1] x [0] : (" << rows << ", "
            << weights << ") -> " << result << "\n";
    }
    out << "  return %result : " << result << "\n}\n";
    return out.str();
}

#endif
