// libtorch's own definition of a function that the shim defines too. Its library may not be in the
// global scope, so RTLD_NEXT need not find it. Wheels of torch 2.6 have the std::string from before
// C++11, so functions with one have two names, of which a libtorch has one.
#pragma once

#include <dlfcn.h>

#include <atomic>

// std::string in a symbol's name.
#define PRISM_STRING "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
#define PRISM_OLD_STRING "Ss"

// A definition under the name of a function of libtorch; under its other name, too.
#define PRISM_REPLACES(symbol) __asm__(symbol) __attribute__((visibility("default")))
#define PRISM_ALSO_REPLACES(symbol, other) \
  __asm__(other) __attribute__((alias(symbol), visibility("default")))

namespace prism::shim {

// Null while the library is not loaded; kept at `found` once it is. `other`: null, or its other
// name.
inline void* TorchSymbol(const char* library,
                         const char* name,
                         const char* other,
                         std::atomic<void*>* found) {
  void* address = found->load(std::memory_order_relaxed);
  if (address == nullptr) {
    void* const loaded = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    address = loaded == nullptr ? nullptr : dlsym(loaded, name);
    address = address == nullptr && loaded != nullptr && other != nullptr ? dlsym(loaded, other)
                                                                          : address;
    found->store(address, std::memory_order_relaxed);
  }
  return address;
}

}  // namespace prism::shim
