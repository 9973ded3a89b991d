// libtorch's own definition of a function that the shim defines too. Its library may not be in the
// global scope, so RTLD_NEXT need not find it.
#pragma once

#include <dlfcn.h>

#include <atomic>

namespace prism::shim {

// Null while the library is not loaded; kept at `found` once it is.
inline void* TorchSymbol(const char* library, const char* name, std::atomic<void*>* found) {
  void* address = found->load(std::memory_order_relaxed);
  if (address == nullptr) {
    void* const loaded = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    address = loaded == nullptr ? nullptr : dlsym(loaded, name);
    found->store(address, std::memory_order_relaxed);
  }
  return address;
}

}  // namespace prism::shim
