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

// Whether it is in this library. A lookup in libtorch goes on in what it depends on: the stand-ins
// of NVIDIA's libraries, and through them the shim, which defines both names of a function.
inline bool IsOwnSymbol(const void* address) {
  static const char here = 0;
  Dl_info own = {};
  Dl_info found = {};
  return dladdr(&here, &own) != 0 && dladdr(address, &found) != 0 &&
         own.dli_fbase == found.dli_fbase;
}

// Null while the library is not loaded; kept at `found` once it is. `other`: null, or its other
// name.
inline void* TorchSymbol(const char* library,
                         const char* name,
                         const char* other,
                         std::atomic<void*>* found) {
  void* address = found->load(std::memory_order_relaxed);
  if (address != nullptr) {
    return address;
  }
  void* const loaded = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  if (loaded == nullptr) {
    return nullptr;
  }
  for (const char* const wanted : {name, other}) {
    address = wanted == nullptr || address != nullptr ? address : dlsym(loaded, wanted);
    address = address == nullptr || IsOwnSymbol(address) ? nullptr : address;
  }
  found->store(address, std::memory_order_relaxed);
  return address;
}

}  // namespace prism::shim
