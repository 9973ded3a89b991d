// NVTX ranges named "iteration", with which programs without a framework mark their iterations
// (slicer/record/iteration_rule.h). NVTX is compiled into the program from headers: at its first
// call it loads the library that NVTX_INJECTION64_PATH names, this one unless the user has another,
// and lets it replace NVTX's functions. Ranges of other names are ignored, as are ranges that begin
// on one thread and may end on another.
#include <dlfcn.h>
#include <stdlib.h>

#include <cstdint>
#include <string_view>

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#include "shim/observer/observer_calls.h"
#include "shim/session.h"

namespace prism::shim {
namespace {

constexpr std::string_view kIterationMarker = "iteration";

// nvtx3/nvtxDetail/nvtxTypes.h, which no other header may include.
constexpr uint32_t kCallbacks = 1;  // the table that getExportTable() is asked for
constexpr uint32_t kCore = 1;       // modules of it
constexpr uint32_t kCoreOfDomains = 5;
constexpr unsigned int kPushAttributes = 8;  // places in kCore
constexpr unsigned int kPushText = 9;
constexpr unsigned int kPushWideText = 10;
constexpr unsigned int kPop = 11;
constexpr unsigned int kPushInDomain = 4;  // places in kCoreOfDomains
constexpr unsigned int kPopInDomain = 5;

using Function = void (*)();
struct ExportedCallbacks {
  size_t struct_size;
  int (*get_functions)(uint32_t module, Function*** functions, unsigned int* size);
};
using GetExportTable = const void* (*)(uint32_t table);

// Ranges of a thread nest.
thread_local int depth = 0;
thread_local int iteration_depth = 0;  // 0: none is open

int Push(std::string_view name) {
  ++depth;
  if (name == kIterationMarker && iteration_depth == 0) {
    iteration_depth = depth;
    prism_shim_marker(DefineOnce(channel::Table::kMarkerName, name), 1, 0);
  }
  return depth - 1;
}

int Pop() {
  if (depth == 0) {
    return -1;  // as NVTX returns for one pop too many
  }
  if (depth == iteration_depth) {
    iteration_depth = 0;
    prism_shim_marker(DefineOnce(channel::Table::kMarkerName, kIterationMarker), 0, 0);
  }
  return --depth;
}

int PushText(const char* name) {
  return Push(name == nullptr ? "" : name);
}

int PushWideText(const wchar_t* /*name*/) {
  return Push("");
}

int PushAttributes(const nvtxEventAttributes_t* range) {
  const bool is_text = range != nullptr && range->messageType == NVTX_MESSAGE_TYPE_ASCII;
  return PushText(is_text ? range->message.ascii : nullptr);
}

int PushInDomain(nvtxDomainHandle_t /*domain*/, const nvtxEventAttributes_t* range) {
  return PushAttributes(range);
}

int PopInDomain(nvtxDomainHandle_t /*domain*/) {
  return Pop();
}

struct Replacement {
  uint32_t module;
  unsigned int place;
  Function function;
};

const Replacement kReplacements[] = {
    {kCore, kPushAttributes, reinterpret_cast<Function>(&PushAttributes)},
    {kCore, kPushText, reinterpret_cast<Function>(&PushText)},
    {kCore, kPushWideText, reinterpret_cast<Function>(&PushWideText)},
    {kCore, kPop, reinterpret_cast<Function>(&Pop)},
    {kCoreOfDomains, kPushInDomain, reinterpret_cast<Function>(&PushInDomain)},
    {kCoreOfDomains, kPopInDomain, reinterpret_cast<Function>(&PopInDomain)},
};

__attribute__((constructor)) void OfferInjection() {
  Dl_info self = {};
  if (dladdr(reinterpret_cast<const void*>(&kReplacements), &self) != 0 &&
      self.dli_fname != nullptr) {
    setenv("NVTX_INJECTION64_PATH", self.dli_fname, 0);
  }
}

}  // namespace
}  // namespace prism::shim

extern "C" {

// Called by NVTX, once for each library compiled with its headers. 1: done.
int InitializeInjectionNvtx2(prism::shim::GetExportTable get_export_table) {
  const auto* const callbacks =
      static_cast<const prism::shim::ExportedCallbacks*>(get_export_table(prism::shim::kCallbacks));
  if (callbacks == nullptr || callbacks->struct_size < sizeof(*callbacks)) {
    return 0;
  }
  for (const prism::shim::Replacement& replacement : prism::shim::kReplacements) {
    prism::shim::Function** functions = nullptr;
    unsigned int size = 0;
    if (callbacks->get_functions(replacement.module, &functions, &size) == 1 &&
        replacement.place < size && functions[replacement.place] != nullptr) {
      *functions[replacement.place] = replacement.function;
    }
  }
  return 1;
}
}
