// A library between TensorFlow and a PJRT plugin, for run.py.
//
// TensorFlow accepts a PJRT plugin only from a library that also exports TFNPD_InitPlugin. This library exports both
// functions, and takes the PJRT table from the library that PJRT_ADAPTER_PLUGIN names.
//
// The function that gives TensorFlow the client, TF_CreateAndSetPjRtCApiClient, is declared in TensorFlow's headers, but its
// wheels do not export it. This library calls the C++ functions behind it. Their ABI changes with TensorFlow's version, so
// build it against the headers of the installed wheel. Unless PJRT_ADAPTER_CLIENT is 1, the library uses C functions only.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "tensorflow/core/common_runtime/next_pluggable_device/c/plugin_c_api.h"
#include "xla/tsl/framework/device_type.h"

// Declared here, because TensorFlow's headers of these functions include headers of MLIR, which its wheels lack.
namespace xla {
struct PjRtClient {
  virtual ~PjRtClient() = default;
};
struct KeyValueStoreInterface;
using Value = std::variant<std::string, bool, int64_t, std::vector<int64_t>, float>;
absl::StatusOr<std::unique_ptr<PjRtClient>> GetCApiClient(std::string_view device_type,
                                                          const absl::flat_hash_map<std::string, Value>& options,
                                                          std::shared_ptr<KeyValueStoreInterface> store);
}  // namespace xla
namespace tensorflow {
absl::Status SetPjRtClientInTFGlobalResourceManager(const tsl::DeviceType& device_type,
                                                    std::unique_ptr<xla::PjRtClient> client);
}  // namespace tensorflow

namespace {

constexpr char kDeviceType[] = "PJRT";

bool Is(const char* variable, const char* value) {
  const char* found = std::getenv(variable);
  return found != nullptr && std::string_view(found) == value;
}

// Lists of more than TPU_C_API_MAX_INLINED items own their memory.
template <typename List, typename Item>
void CopyList(const List& from, Item* List::*, List* to) {
  *to = from;
  if (from.size > TPU_C_API_MAX_INLINED) {
    to->heap = new Item[from.size];
    std::copy_n(from.heap, from.size, to->heap);
  }
}

// The device stores an array as TensorFlow does.
void SameShape(XLA_Shape* host, int, bool, XLA_LayoutPreference, XLA_Shape* device, TF_Status* status) {
  if (host->ntuple_shapes != 0 || host->layout.tiles.size != 0) {
    TF_SetStatus(status, TF_UNIMPLEMENTED, "this device has neither tuples nor tiles");
    return;
  }
  *device = *host;
  CopyList(host->dimensions, &Int64List::heap, &device->dimensions);
  CopyList(host->dynamic_dimensions, &BoolList::heap, &device->dynamic_dimensions);
  CopyList(host->layout.minor_to_major, &Int64List::heap, &device->layout.minor_to_major);
}

int32_t DeviceCount(TF_Status*) {
  const char* count = std::getenv("PJRT_ADAPTER_DEVICES");
  return count == nullptr ? 1 : std::atoi(count);
}

void CreateClient(TF_Status* status) {
  static bool created = false;
  if (created || !Is("PJRT_ADAPTER_CLIENT", "1")) return;
  auto client = xla::GetCApiClient(kDeviceType, {}, nullptr);
  absl::Status result = client.status();
  if (result.ok()) {
    result = tensorflow::SetPjRtClientInTFGlobalResourceManager(tsl::DeviceType(kDeviceType), *std::move(client));
  }
  created = result.ok();
  if (!created) TF_SetStatus(status, TF_INTERNAL, result.ToString().c_str());
}

}  // namespace

extern "C" const TFNPD_Api* TFNPD_InitPlugin(TFNPD_PluginParams* params, TF_Status*) {
  params->device_type = kDeviceType;
  params->compilation_device_name = "XLA_CPU_JIT";
  params->priority = 220;
  params->is_pluggable_device = true;
  params->use_pjrt_on_demand_compile = Is("PJRT_ADAPTER_ON_DEMAND", "1");
  static const TFNPD_Api api = [] {
    TFNPD_Api api = {};
    api.struct_size = TFNPD_Api_STRUCT_SIZE;
    api.TFNPD_XlaShapeToDeviceShapeRepresentation = SameShape;
    api.TFNPD_GetDeviceCount = DeviceCount;
    api.TFNPD_InitPluginInternalDeviceStates = CreateClient;
    return api;
  }();
  return &api;
}

extern "C" const PJRT_Api* GetPjrtApi() {
  const char* path = std::getenv("PJRT_ADAPTER_PLUGIN");
  void* library = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
  auto get = library == nullptr ? nullptr : reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
  if (get == nullptr) {
    std::fprintf(stderr, "PJRT_ADAPTER_PLUGIN must name the library of a PJRT plugin\n");
    std::abort();
  }
  return get();
}
