// Tests of device_plugin/stablehlo.hpp: programs that are built, read, printed, written, and run on the CPU device.
#include "check.hpp"
#include "device_plugin/stablehlo.hpp"

namespace {

using Values = std::vector<dp::Operand>;

const dp::Shape scalar{dp::ElementType::F32, {}};

// The number of ops of a kind in the main function.
std::size_t count(const dp::Module& module, std::string_view kind) {
    std::size_t found = 0;
    for (const dp::Op& op : module.main().ops()) found += op.name() == kind;
    return found;
}

dp::Module sample() {
    return dp::build("sample", [](dp::FunctionBuilder& f) -> Values {
        const auto x = f.argument(dp::Shape{dp::ElementType::F32, {2, 3}});
        const auto w = f.argument("tensor<3x2xf32>");
        const auto product = f.dot_general(x, w, {{1, 0}});
        const auto relu = f.maximum(product, f.splat(0, {dp::ElementType::F32, {2, 2}}));
        const auto sum = f.reduce(relu, f.splat(0, scalar), {1}, [](auto& g, auto a, auto b) { return g.add(a, b); });
        const auto c = f.constant(std::vector<float>{100, 2}, {2});
        return {f.select(f.compare(sum, c, "GT"), sum, c), f.concatenate({c, sum}, 0), f.transpose(relu, {1, 0})};
    });
}

void builds_and_runs(const dp::Client& client) {
    const dp::Module module = sample();
    const dp::LoadedExecutable program = client.compile(module.program_for(client));
    const dp::Buffer x = client.upload(std::vector<float>{1, 2, 3, -4, 5, 6}, {2, 3});
    const dp::Buffer w = client.upload(std::vector<float>{1, 0, 0, 1, 1, 1}, {3, 2});
    const std::vector<dp::Buffer> outputs = program.execute({x, w});
    CHECK(outputs.size() == 3);
    // The product is [[4, 5], [2, 11]].
    CHECK(outputs[0].to_vector<float>() == std::vector<float>{100, 13});
    CHECK(outputs[1].to_vector<float>() == std::vector<float>{100, 2, 9, 13});
    CHECK(outputs[2].to_vector<float>() == std::vector<float>{4, 2, 5, 11});
}

void reads_and_writes() {
    const dp::Module module = sample();
    const std::string text = module.print();
    CHECK(text.find("stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0]") != std::string::npos);
    CHECK(module.print(true).find("\"stablehlo.dot_general\"(%arg0, %arg1)") != std::string::npos);
    for (const std::string_view version : {std::string_view(), std::string_view("1.9.0")}) {
        const dp::Bytes artifact = module.write(version);
        const dp::Module again = dp::Module::read(dp::Program::mlir(artifact));
        CHECK(again.print() == text);
    }
    CHECK(dp::Module::read(dp::Program::mlir(text)).print() == text);
    CHECK(module.functions().size() == 1);
    FAILS(dp::ErrorCode::InvalidArgument, "`new` is not a StableHLO version", module.write("new", error));
    FAILS(dp::ErrorCode::InvalidArgument, "expected a symbol", dp::Module::read(dp::Program::mlir("func.func {", error), error));
    FAILS(dp::ErrorCode::Unimplemented, "cannot be read", dp::Module::read(dp::Program::create("spirv", "x", error), error));
}

void walks() {
    const dp::Module module = sample();
    const dp::Function main = module.main();
    CHECK(main.arguments() == std::vector<std::uint32_t>{0, 1});
    CHECK(main.type(1) == "tensor<3x2xf32>" && main.shape(0).dimensions == std::vector<std::int64_t>{2, 3});
    CHECK(count(module, "stablehlo.constant") == 3 && count(module, "stablehlo.reduce") == 1);
    for (const dp::Op& op : main.ops()) {
        if (op.name() == "stablehlo.reduce") {
            CHECK(op.integers("dimensions") == std::vector<std::int64_t>{1} && op.attribute("dimensions") == "array<i64: 1>");
            CHECK(op.operands().size() == 2 && op.results().size() == 1 && op.region_count() == 1);
            CHECK(op.region_arguments(0).size() == 2);
            const std::vector<dp::Op> body = op.region(0);
            CHECK(body.size() == 2 && body[0].name() == "stablehlo.add" && body[1].name() == "stablehlo.return");
            CHECK(body[0].operands() == op.region_arguments(0));
            FAILS(dp::ErrorCode::OutOfRange, "`index` is 1", op.region(1, error));
            FAILS(dp::ErrorCode::NotFound, "no attribute \"lower\"", op.integer("lower", error));
            FAILS(dp::ErrorCode::InvalidArgument, "not a stablehlo.constant", op.constant(nullptr, error));
        }
        if (op.name() == "stablehlo.concatenate") CHECK(op.integer("dimension") == 0);
        if (op.name() == "stablehlo.constant") {
            bool is_splat = false;
            const dp::ByteView data = op.constant(&is_splat);
            const std::string type = main.type(op.results()[0]);
            CHECK(is_splat == (type == "tensor<2x2xf32>") && data.size() == (type == "tensor<2xf32>" ? 8 : 4));
        }
    }
    FAILS(dp::ErrorCode::InvalidArgument, "`value` is 99", main.type(99, error));
}

// Each op that the table generates, so that names and attributes are right.
void builds_every_op() {
    const dp::Module module = dp::build("ops", [](dp::FunctionBuilder& f) -> Values {
        const dp::Shape square{dp::ElementType::F32, {4, 4}};
        const auto x = f.argument(square);
        const auto i = f.argument("tensor<4x4xi32>");
        const auto p = f.argument("tensor<4x4xi1>");
        const auto one = f.argument("tensor<i32>");
        const auto c = f.complex(x, x);
        for (const auto& value : {f.abs(x), f.cbrt(x), f.ceil(x), f.cosine(x), f.exp2(x), f.exponential(x),
                                  f.exponential_minus_one(x), f.floor(x), f.log(x), f.log2(x), f.log_plus_one(x),
                                  f.logistic(x), f.negate(x), f.round_nearest_afz(x), f.round_nearest_even(x),
                                  f.rsqrt(x), f.sign(x), f.sine(x), f.sqrt(x), f.tan(x), f.tanh(x), f.real(c),
                                  f.imag(c), f.add(x, x), f.atan2(x, x), f.divide(x, x), f.maximum(x, x),
                                  f.minimum(x, x), f.multiply(x, x), f.power(x, x), f.remainder(x, x),
                                  f.subtract(x, x), f.clamp(x, x, x), f.fma(x, x, x), f.select(p, x, x),
                                  f.transpose(x, {1, 0}), f.reverse(x, {0}), f.cholesky(x, true),
                                  f.triangular_solve(x, x, true, true, false, "NO_TRANSPOSE"), f.reduce_precision(x, 8, 7),
                                  f.broadcast_in_dim(x, square, {0, 1})}) {
            CHECK(f.type(value) == "tensor<4x4xf32>");
        }
        for (const auto& value : {f.and_(i, i), f.or_(i, i), f.xor_(i, i), f.not_(i), f.popcnt(i), f.count_leading_zeros(i),
                                  f.shift_left(i, i), f.shift_right_arithmetic(i, i), f.shift_right_logical(i, i),
                                  f.convert(x, "tensor<4x4xi32>"), f.bitcast_convert(x, "tensor<4x4xi32>"),
                                  f.iota("tensor<4x4xi32>", 0)}) {
            CHECK(f.type(value) == "tensor<4x4xi32>");
        }
        CHECK(f.type(f.is_finite(x)) == "tensor<4x4xi1>" && f.type(f.compare(x, x, "LT")) == "tensor<4x4xi1>");
        CHECK(f.type(f.compare(x, x, "LT", "FLOAT")) == "tensor<4x4xi1>");
        CHECK(f.type(f.reshape(x, "tensor<16xf32>")) == "tensor<16xf32>");
        CHECK(f.type(f.slice(x, {0, 0}, {2, 4}, {1, 2})) == "tensor<2x2xf32>");
        CHECK(f.type(f.pad(x, f.splat(0, scalar), {0, 0}, {1, 0}, {0, 1})) == "tensor<5x7xf32>");
        CHECK(f.type(f.concatenate({x, x}, 1)) == "tensor<4x8xf32>");
        CHECK(f.type(f.dynamic_slice({x, one, one}, {2, 2})) == "tensor<2x2xf32>");
        CHECK(f.type(f.get_dimension_size(x, 0)) == "tensor<i32>");
        CHECK(f.type(f.splat_like(0.1, x)) == "tensor<4x4xf32>");
        return {x};
    });
    CHECK(count(module, "stablehlo.add") == 1 && count(module, "stablehlo.compare") == 2);
}

// A program that ignores the errors of its ops still learns which was the first.
void reports_first_failure() {
    const auto body = [](dp::FunctionBuilder& f) {
        dp::Error ignored;
        const auto x = f.argument("tensor<3xf32>");
        const auto sum = f.add(x, f.argument("tensor<4xf32>"), &ignored);
        return f.multiply(f.tanh(sum, &ignored), x, &ignored);
    };
    FAILS(dp::ErrorCode::InvalidArgument, "stablehlo.add: operands tensor<3xf32> and tensor<4xf32> differ in shape",
          dp::build("ignores", body, error));
}

// What a builder that lost its way says.
void names_unfinished_regions() {
    FAILS(dp::ErrorCode::InvalidArgument, "a region was begun, but not ended", dp::build("open", [](dp::FunctionBuilder& f) {
              static_cast<void>(f.begin_region({"tensor<f32>"}));
              return f.argument(scalar);
          }, error));
    FAILS(dp::ErrorCode::InvalidArgument, "a region was ended, but no op got it",
          dp::build("unused", [](dp::FunctionBuilder& f) {
              f.end_region({f.begin_region({"tensor<f32>"})[0]});
              return f.argument(scalar);
          }, error));
}

void calls_and_loops(const dp::Client& client) {
    dp::ModuleBuilder module = dp::ModuleBuilder::create("loop");
    dp::FunctionBuilder twice = dp::FunctionBuilder::create("twice");
    const auto x = twice.argument(scalar);
    const auto sum = twice.add(x, x);
    module.add(std::move(twice), {sum});
    dp::FunctionBuilder f = dp::FunctionBuilder::create();
    const auto start = f.argument({dp::ElementType::F32, {}}, dp::Attributes().donated_to(0));
    const auto limit = f.constant({100.0f}, {});
    const auto values = f.while_loop(
        {start, limit}, [](auto& g, const auto& now) { return g.compare(now[0], now[1], "LT"); },
        [](auto& g, const auto& now) { return Values{g.call("twice", {now[0]}, {scalar})[0], now[1]}; });
    module.add(std::move(f), {values[0]});
    const dp::LoadedExecutable program = client.compile(module.build().program_for(client));
    CHECK(program.execute({client.upload({3.0f}, {})})[0].to_vector<float>() == std::vector<float>{192});
    FAILS(dp::ErrorCode::InvalidArgument, "func.func: the module has a function @main already; choose another name (in @main)",
          [&](dp::Error* error) {
              dp::ModuleBuilder two = dp::ModuleBuilder::create("two");
              for (int i = 0; i < 2 && !(error && *error); ++i) two.add(dp::FunctionBuilder::create(), {}, error);
          }(error));
}

void refuses(const dp::Client& client) {
    dp::FunctionBuilder f = dp::FunctionBuilder::create();
    const auto x = f.argument("tensor<2xf32>");
    const auto y = f.argument("tensor<3xf32>");
    f.location("stablehlo.cpp:7");
    FAILS(dp::ErrorCode::InvalidArgument, "stablehlo.add: operands tensor<2xf32> and tensor<3xf32> differ in shape (in @main, stablehlo.cpp:7)",
          f.add(x, y, error));
    FAILS(dp::ErrorCode::InvalidArgument, "has no op \"stablehlo.sum\"", f.op("stablehlo.sum", {x}, {}, {}, 0, error));
    FAILS(dp::ErrorCode::InvalidArgument, "is not a type", f.argument("tensor<2xf33>", {}, error));
    FAILS(dp::ErrorCode::InvalidArgument, "`regions` is 1", f.op("stablehlo.abs", {x}, {}, {}, 1, error));
    FAILS(dp::ErrorCode::InvalidArgument, "no region was begun", f.end_region({x}, error));
    FAILS(dp::ErrorCode::InvalidArgument, "value of another function", f.abs({77, 0, 0}, error));
    FAILS(dp::ErrorCode::InvalidArgument, "attribute", f.op("stablehlo.iota", {}, dp::Attributes().add("dimension", "]"), {"tensor<2xf32>"}, 0, error));
    dp::Error stale(dp::ErrorCode::Aborted, "stale");
    CHECK(dp::build("none", [](dp::FunctionBuilder&) { return Values(); }).main().arguments(&stale).empty() && !stale);
    FAILS(dp::ErrorCode::InvalidArgument, "`op` is NULL", dp::Op().operands(error));
    FAILS(dp::ErrorCode::InvalidArgument, "`function` is NULL", dp::Function().arguments(error));
    FAILS(dp::ErrorCode::InvalidArgument, "`module` is NULL", dp::Module().functions(error));
    dp::ModuleBuilder module = dp::ModuleBuilder::create("twice");
    FAILS(dp::ErrorCode::FailedPrecondition, "`function` has other references",
          module.add(dp::FunctionBuilder(f), {x}, error));
    module.add(std::move(f), {x});
    FAILS(dp::ErrorCode::InvalidArgument, "`function` is NULL", module.add(std::move(f), {x}, error));
    CHECK(module.build());
    FAILS(dp::ErrorCode::InvalidArgument, "`builder` is NULL", module.build(error));
    FAILS(dp::ErrorCode::InvalidArgument, "`module` is NULL", dp::Module().program_for(client, error));
}

}  // namespace

int main() {
    const dp::Client client = dp::Registry::discover().find("pjrt_cpu").create_client();
    builds_and_runs(client);
    reads_and_writes();
    walks();
    builds_every_op();
    reports_first_failure();
    names_unfinished_regions();
    calls_and_loops(client);
    refuses(client);
    std::printf("%d checks\n", checks);
}
