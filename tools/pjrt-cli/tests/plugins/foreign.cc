// A plugin without any SDK, for the tests of `pjrt conform`. FAULT selects what its functions do:
//   1: GetPjrtApi returns null
//   2: every function pointer is null
//   3: every function returns success and does nothing
//   4: creating a client throws an exception
//   5: GetPjrtApi throws an exception
#include <cstddef>
#include <stdexcept>

namespace {

// The beginning of PJRT_Api at API 0.117.
struct Table {
  size_t struct_size;
  void* extension_start;
  struct {
    size_t struct_size;
    void* extension_start;
    int major_version;
    int minor_version;
  } version;
  void* (*functions[138])(void* args);
};

// Positions of functions in the table.
constexpr int kClientCreate = 10;

void* DoNothing(void*) { return nullptr; }

void* Throw(void*) { throw std::runtime_error("the device does not answer"); }

Table table;

}  // namespace

extern "C" const void* GetPjrtApi() {
  if (FAULT == 1) return nullptr;
  if (FAULT == 5) throw std::runtime_error("the driver does not answer");
  table.struct_size = sizeof(Table);
  table.version = {24, nullptr, 0, 117};
  for (auto& function : table.functions) function = FAULT == 2 ? nullptr : DoNothing;
  if (FAULT == 4) table.functions[kClientCreate] = Throw;
  return &table;
}
