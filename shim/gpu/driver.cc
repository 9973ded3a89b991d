#include "shim/gpu/driver.h"

#include <dlfcn.h>

namespace prism::shim {
namespace {

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

}  // namespace

const char* LoadDriver(const char* library, Driver* driver) {
  void* const opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    return library;
  }
  // The names of the versions that cuda.h maps to.
  const char* missing = nullptr;
  const auto find = [&](const char* name, auto* function) {
    if (missing == nullptr && !Find(opened, name, function)) {
      missing = name;
    }
  };
  find("cuInit", &driver->init);
  find("cuModuleLoadData", &driver->load_module);
  find("cuModuleGetFunction", &driver->get_function);
  find("cuLaunchKernel", &driver->launch);
  find("cuMemHostAlloc", &driver->allocate_host);
  find("cuMemHostGetDevicePointer_v2", &driver->device_pointer);
  find("cuMemAlloc_v2", &driver->allocate);
  find("cuMemsetD8_v2", &driver->set);
  find("cuStreamWriteValue64_v2", &driver->write_value);
  find("cuStreamWaitValue64_v2", &driver->wait_value);
  find("cuLaunchHostFunc", &driver->launch_host);
  return missing;
}

}  // namespace prism::shim
