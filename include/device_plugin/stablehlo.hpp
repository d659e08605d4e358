// StableHLO programs: building, reading, checking, printing and writing them.
#ifndef DEVICE_PLUGIN_STABLEHLO_HPP
#define DEVICE_PLUGIN_STABLEHLO_HPP

#include <array>

#include "base.hpp"
#include "buffer.hpp"
#include "client.hpp"
#include "program.hpp"
#include "stablehlo.h"

DEVICE_PLUGIN_NAMESPACE_BEGIN

// The type of a value, as MLIR text: from a Shape, or from text such as `tensor<2x3xf32>` or `!stablehlo.token`.
class Type {
public:
    Type(std::string_view text) : text_(text) {}
    Type(const char* text) : text_(text) {}
    Type(const std::string& text) : text_(text) {}
    Type(const Shape& shape) : text_("tensor<") {
        for (const std::int64_t extent : shape.dimensions) text_ += std::to_string(extent) + 'x';
        text_ += mlir_name(shape.element_type) + '>';
    }

    const std::string& text() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return text_; }

private:
    // The names of StableHLO's element types: those of PJRT, but signed integers begin with `i`, unsigned with `ui`.
    static std::string mlir_name(ElementType type) {
        const std::string name(to_string(type));
        if (name == "pred") return "i1";
        if (name == "c64") return "complex<f32>";
        if (name == "c128") return "complex<f64>";
        if (name[0] == 's') return 'i' + name.substr(1);
        if (name[0] == 'u') return "ui" + name.substr(1);
        if (name.rfind("f8", 0) == 0 || name.rfind("f6", 0) == 0 || name.rfind("f4", 0) == 0) {
            std::string upper = name;
            for (char& c : upper) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
            upper[0] = 'f';
            return upper;
        }
        return name;
    }

    std::string text_;
};

// The attributes of an op, as MLIR writes them in the generic form.
class Attributes {
public:
    Attributes& integer(std::string_view name, std::int64_t value) {
        return add(name, std::to_string(value) + " : i64");
    }
    Attributes& integer32(std::string_view name, std::int32_t value) {
        return add(name, std::to_string(value) + " : i32");
    }
    // An argument's buffer may become that of the result with this index, which has the same size.
    Attributes& donated_to(std::int32_t result) { return integer32("tf.aliasing_output", result); }
    Attributes& boolean(std::string_view name, bool value) { return add(name, value ? "true" : "false"); }
    Attributes& integers(std::string_view name, Span<const std::int64_t> values) {
        std::string text = "array<i64";
        const char* separator = ": ";
        for (const std::int64_t value : values) {
            text += separator + std::to_string(value);
            separator = ", ";
        }
        return add(name, text + '>');
    }
    // A word of an enumeration of StableHLO, such as `LT` of `comparison_direction`. Empty for the default.
    Attributes& word(std::string_view name, std::string_view enumeration, std::string_view value) {
        if (value.empty()) return *this;
        return add(name, "#stablehlo<" + std::string(enumeration) + ' ' + std::string(value) + '>');
    }
    // Any attribute, as MLIR text.
    Attributes& add(std::string_view name, std::string_view value) {
        text_ += (text_.empty() ? "{" : ", ") + std::string(name) + " = " + std::string(value);
        return *this;
    }

    // The dictionary, or empty text.
    std::string text() const { return text_.empty() ? text_ : text_ + '}'; }

private:
    std::string text_;
};

// A value of a function that is being built: an argument, or a result of an op.
using Operand = dp_value;

class FunctionBuilder;

// One method for each op whose results follow from its operands and attributes. Generated from the table of ops.
template <typename Builder>
class Ops {
public:
#include "ops.inc"

private:
    Builder& self() noexcept { return static_cast<Builder&>(*this); }
};

// A function that is being built. The builder infers the types of results, and checks each op.
class FunctionBuilder : public detail::Object<FunctionBuilder, dp_function_builder>, public Ops<FunctionBuilder> {
public:
    // Begins a function. `main` is the function that a program runs.
    [[nodiscard]] static FunctionBuilder create(std::string_view name = "main", Error* error = nullptr) {
        return detail::call<FunctionBuilder>(error, dp_function_builder_new, detail::Text(name));
    }

    // Adds an argument. `attributes` are such as `Attributes().donated_to(0)`.
    Operand argument(const Type& type, const Attributes& attributes = {}, Error* error = nullptr) {
        return detail::call<Operand>(error, dp_function_builder_argument, get(), detail::Text(type.text()),
                                     detail::Text(attributes.text()));
    }

    Operand argument(const Shape& shape, const Attributes& attributes = {}, Error* error = nullptr) {
        return argument(Type(shape), attributes, error);
    }

    // Adds a constant with these elements, in row-major order.
    template <typename C, typename T = detail::Read<const C&>>
    Operand constant(const C& values, const std::vector<std::int64_t>& dimensions, Error* error = nullptr) {
        const Span<const T> elements(values);
        const Shape described{element_type_of<T>::value, dimensions};
        const dp_shape shape = described.raw();
        return detail::call<Operand>(error, dp_function_builder_constant, get(), &shape,
                                     static_cast<const void*>(elements.data()), elements.size() * sizeof(T));
    }
    template <typename T>
    Operand constant(std::initializer_list<T> values, const std::vector<std::int64_t>& dimensions,
                     Error* error = nullptr) {
        return constant(Span<const T>(values), dimensions, error);
    }
    // Adds a constant whose elements all have the same value, rounded to the element type.
    Operand splat(double value, const Shape& shape, Error* error = nullptr) {
        const dp_shape raw = shape.raw();
        return detail::call<Operand>(error, dp_function_builder_splat, get(), &raw, value);
    }
    // Adds a constant with the shape of another value.
    Operand splat_like(double value, const Operand& like, Error* error = nullptr) {
        return detail::call<Operand>(error, dp_function_builder_splat_like, get(), &like, value);
    }

    // The type of a value, such as `tensor<2x3xf32>`.
    std::string type(const Operand& value, Error* error = nullptr) {
        return detail::call<Bytes>(error, dp_function_builder_type, get(), &value).to_string();
    }

    // Adds an op with one result. `result` is needed for ops whose result does not follow from the operands, such as
    // `stablehlo.reshape`. `regions` is the number of its regions, which were ended last.
    Operand op(std::string_view name, Span<const Operand> operands, const Attributes& attributes = {},
               Span<const Type> result = {}, std::size_t regions = 0, Error* error = nullptr) {
        return op_with_results(1, name, operands, attributes, result, regions, error)[0];
    }
    // Adds an op with any number of results.
    std::vector<Operand> op_with_results(std::size_t count, std::string_view name, Span<const Operand> operands,
                                         const Attributes& attributes = {}, Span<const Type> results = {},
                                         std::size_t regions = 0, Error* error = nullptr) {
        std::vector<Operand> made(count);
        std::vector<const char*> types;
        for (const Type& type : results) types.push_back(type.text().c_str());
        detail::run(error, dp_function_builder_op, get(), detail::Text(name), operands.data(), operands.size(),
                    detail::Text(attributes.text()), types.data(), types.size(), regions,
                    detail::Text(location_.empty() ? std::string_view() : std::string_view(location_)), made.data(),
                    made.size());
        return made;
    }

    // Begins a region with arguments of these types, and returns the arguments. Ops are added to it until end_region.
    std::vector<Operand> begin_region(Span<const Type> types, Error* error = nullptr) {
        std::vector<Operand> arguments(types.size());
        std::vector<const char*> texts;
        for (const Type& type : types) texts.push_back(type.text().c_str());
        detail::run(error, dp_function_builder_begin_region, get(), texts.data(), texts.size(), arguments.data(),
                    arguments.size());
        return arguments;
    }
    // Ends the innermost region, which returns these values. The next op that has regions gets it.
    void end_region(Span<const Operand> values, Error* error = nullptr) {
        detail::run(error, dp_function_builder_end_region, get(), values.data(), values.size());
    }

    // Sums, or another reduction, along dimensions. `body` gets two scalars and returns one.
    template <typename F>
    Operand reduce(const Operand& input, const Operand& init, Span<const std::int64_t> dimensions, F body,
                   Error* error = nullptr) {
        const Type scalar(type(init, error));
        if (failed(error)) return {};
        const std::vector<Operand> arguments = begin_region({scalar, scalar}, error);
        if (failed(error)) return {};
        const Operand result = body(*this, arguments[0], arguments[1]);
        end_region({result}, error);
        if (failed(error)) return {};
        return op("stablehlo.reduce", {input, init}, Attributes().integers("dimensions", dimensions), {}, 1, error);
    }
    // Runs `body` while `condition` is true. Both get the values, which are `init` at first; `condition` returns a
    // `tensor<i1>`, `body` the next values.
    template <typename C, typename B>
    std::vector<Operand> while_loop(Span<const Operand> init, C condition, B body, Error* error = nullptr) {
        std::vector<Type> types;
        for (const Operand& value : init) {
            types.push_back(type(value, error));
            if (failed(error)) return {};
        }
        std::vector<Operand> values = begin_region(types, error);
        if (failed(error)) return {};
        end_region({condition(*this, values)}, error);
        if (failed(error)) return {};
        values = begin_region(types, error);
        if (failed(error)) return {};
        const std::vector<Operand> next = body(*this, values);
        end_region(next, error);
        if (failed(error)) return {};
        return op_with_results(init.size(), "stablehlo.while", init, {}, {}, 2, error);
    }
    // Calls a function that was added to the module before, with results of these types.
    std::vector<Operand> call(std::string_view function, Span<const Operand> operands, Span<const Type> results,
                              Error* error = nullptr) {
        const std::string callee = '@' + std::string(function);
        return op_with_results(results.size(), "func.call", operands, Attributes().add("callee", callee), results, 0,
                               error);
    }
    // A product of arrays: `contracting` are pairs of dimensions that are summed over, `batching` pairs of dimensions
    // that both operands have. The result has the element type of the operands, or the type `result`.
    Operand dot_general(const Operand& lhs, const Operand& rhs,
                        Span<const std::array<std::int64_t, 2>> contracting,
                        Span<const std::array<std::int64_t, 2>> batching = {}, Span<const Type> result = {},
                        Error* error = nullptr) {
        const auto list = [](Span<const std::array<std::int64_t, 2>> pairs, std::size_t side) {
            std::string text;
            for (const auto& pair : pairs) text += (text.empty() ? "" : ", ") + std::to_string(pair[side]);
            return '[' + text + ']';
        };
        const std::string dimensions = "#stablehlo.dot<lhs_batching_dimensions = " + list(batching, 0) +
                                       ", rhs_batching_dimensions = " + list(batching, 1) +
                                       ", lhs_contracting_dimensions = " + list(contracting, 0) +
                                       ", rhs_contracting_dimensions = " + list(contracting, 1) + '>';
        return op("stablehlo.dot_general", {lhs, rhs}, Attributes().add("dot_dimension_numbers", dimensions), result, 0,
                  error);
    }

    // The place in the source of the following ops, for messages.
    void location(std::string_view place) { location_ = std::string(place); }

private:
    static bool failed(const Error* error) noexcept { return error != nullptr && *error; }

    std::string location_;
};

// An op of a program.
class Op : public detail::Object<Op, dp_op> {
public:
    DEVICE_PLUGIN_TEXT(name, dp_op_name)
    // The numbers of the values that are the operands and the results.
    [[nodiscard]] std::vector<std::uint32_t> operands(Error* error = nullptr) const {
        const auto size = detail::count(error, dp_op_operand_count, get());
        return detail::list<std::uint32_t>(error, size, dp_op_operand_at, get());
    }
    [[nodiscard]] std::vector<std::uint32_t> results(Error* error = nullptr) const {
        const auto size = detail::count(error, dp_op_result_count, get());
        return detail::list<std::uint32_t>(error, size, dp_op_result_at, get());
    }
    std::size_t region_count() const noexcept { return dp_op_region_count(get()); }
    // The ops of a region, including the return op at its end.
    [[nodiscard]] std::vector<Op> region(std::size_t index, Error* error = nullptr) const {
        std::size_t count = 0;
        std::size_t arguments = 0;
        detail::run(error, dp_op_region_argument_count, get(), index, &count, &arguments);
        return detail::list<Op>(error, count, dp_op_region_op_at, get(), index);
    }
    // The numbers of the values that are the arguments of a region.
    [[nodiscard]] std::vector<std::uint32_t> region_arguments(std::size_t index, Error* error = nullptr) const {
        std::size_t ops = 0;
        std::size_t count = 0;
        detail::run(error, dp_op_region_argument_count, get(), index, &ops, &count);
        return detail::list<std::uint32_t>(error, count, dp_op_region_argument_at, get(), index);
    }
    // An attribute as MLIR text. Empty if the op has none of this name.
    [[nodiscard]] std::string attribute(std::string_view name, Error* error = nullptr) const {
        return detail::call<std::string>(error, dp_op_attribute, get(), detail::Text(name));
    }
    // An attribute that is an integer or a boolean.
    [[nodiscard]] std::int64_t integer(std::string_view name, Error* error = nullptr) const {
        return detail::call<std::int64_t>(error, dp_op_integer, get(), detail::Text(name));
    }
    // An attribute that is a list of integers.
    [[nodiscard]] std::vector<std::int64_t> integers(std::string_view name, Error* error = nullptr) const {
        std::vector<std::int64_t> values(detail::call<std::size_t>(error, dp_op_integers_count, get(), detail::Text(name)));
        detail::run(error, dp_op_integers, get(), detail::Text(name), values.data(), values.size());
        return values;
    }
    // The elements of a `stablehlo.constant`, or the one element to which all are equal. They belong to the op.
    ByteView constant(bool* is_splat = nullptr, Error* error = nullptr) const&& = delete;
    [[nodiscard]] ByteView constant(bool* is_splat = nullptr, Error* error = nullptr) const& {
        std::size_t size = 0;
        const void* data = nullptr;
        detail::run(error, dp_op_constant_data, get(), &size, is_splat, &data);
        return ByteView(data, size);
    }
};

// A function of a program. Its values are numbered from 0.
class Function : public detail::Object<Function, dp_function> {
public:
    DEVICE_PLUGIN_TEXT(name, dp_function_name)
    // The numbers of the values that are the arguments.
    [[nodiscard]] std::vector<std::uint32_t> arguments(Error* error = nullptr) const {
        const auto size = detail::count(error, dp_function_argument_count, get());
        return detail::list<std::uint32_t>(error, size, dp_function_argument_at, get());
    }
    std::size_t value_count() const noexcept { return dp_function_value_count(get()); }
    [[nodiscard]] std::string type(std::uint32_t value, Error* error = nullptr) const {
        return detail::call<std::string>(error, dp_function_value_type, get(), value);
    }
    // The shape of a value that is a tensor with static extents.
    [[nodiscard]] Shape shape(std::uint32_t value, Error* error = nullptr) const {
        return Shape::of(detail::call<dp_shape>(error, dp_function_value_shape, get(), value));
    }
    // The ops of the body, including the return op at its end.
    [[nodiscard]] std::vector<Op> ops(Error* error = nullptr) const {
        return detail::list<Op>(error, detail::count(error, dp_function_op_count, get()), dp_function_op_at, get());
    }
};

// A StableHLO program that was read or built.
class Module : public detail::Object<Module, dp_module> {
public:
    // Reads and checks a program.
    [[nodiscard]] static Module read(const Program& program, Error* error = nullptr) {
        return detail::call<Module>(error, dp_module_read, program.get());
    }
    // The program as text.
    [[nodiscard]] std::string print(bool generic = false, bool locations = false, Error* error = nullptr) const {
        return detail::call<Bytes>(error, dp_module_print, get(), generic, locations).to_string();
    }
    // A portable artifact of a StableHLO version, such as `1.9.0`, or of the newest.
    [[nodiscard]] Bytes write(std::string_view version = {}, Error* error = nullptr) const {
        return detail::call<Bytes>(error, dp_module_write, get(), detail::Text(version));
    }
    // The program in a version that the client's plugin reads.
    [[nodiscard]] Program program_for(const Client& client, Error* error = nullptr) const {
        return detail::call<Program>(error, dp_module_program_for, get(), client.get());
    }
    // The function that the program runs.
    [[nodiscard]] Function main(Error* error = nullptr) const { return detail::call<Function>(error, dp_module_main, get()); }
    [[nodiscard]] std::vector<Function> functions(Error* error = nullptr) const {
        const auto size = detail::count(error, dp_module_function_count, get());
        return detail::list<Function>(error, size, dp_module_function_at, get());
    }
    // The program with the ops of called functions in place of the calls.
    [[nodiscard]] Module inlined(Error* error = nullptr) const { return detail::call<Module>(error, dp_module_inline, get()); }
};

// A program that is being built.
class ModuleBuilder : public detail::Object<ModuleBuilder, dp_module_builder> {
public:
    [[nodiscard]] static ModuleBuilder create(std::string_view name, Error* error = nullptr) {
        return detail::call<ModuleBuilder>(error, dp_module_builder_new, detail::Text(name));
    }
    // Ends a function, which returns these values, and adds it.
    void add(FunctionBuilder&& function, Span<const Operand> results, Error* error = nullptr) {
        detail::run(error, dp_module_builder_add, get(), function.release(), results.data(), results.size());
    }
    void devices(std::uint32_t replicas, std::uint32_t partitions, Error* error = nullptr) {
        detail::run(error, dp_module_builder_set_devices, get(), replicas, partitions);
    }
    // Checks the program, and returns it. Empties the builder.
    [[nodiscard]] Module build(Error* error = nullptr) {
        return detail::call<Module>(error, dp_module_builder_build, release());
    }
};

// Builds a program with one function, `main`. `body` gets the builder and returns the results: a list, or one operand.
// `error` gets the faults of the program. Those of ops are thrown, unless the body passes an `Error*` to them; then an
// op that failed is no value, and a function that uses it is an error that names the first op that failed.
template <typename F>
[[nodiscard]] Module build(std::string_view name, F body, Error* error = nullptr) {
    const auto failed = [error] { return error != nullptr && *error; };
    FunctionBuilder function = FunctionBuilder::create("main", error);
    if (failed()) return {};
    const auto results = body(function);
    ModuleBuilder module = ModuleBuilder::create(name, error);
    if (failed()) return {};
    if constexpr (std::is_convertible_v<decltype(results), Operand>) {
        module.add(std::move(function), {results}, error);
    } else {
        module.add(std::move(function), results, error);
    }
    if (failed()) return {};
    return module.build(error);
}

DEVICE_PLUGIN_NAMESPACE_END

#endif  // DEVICE_PLUGIN_STABLEHLO_HPP
