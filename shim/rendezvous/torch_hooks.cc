// Replaces the constructors with which a program creates its stores and CPU process groups, so that
// whatever host, port or file it names, it reaches the server that answers for absent ranks, and no
// connection to absent ranks is attempted. libtorch_python imports these constructors from
// libtorch_cpu; a preloaded definition is called instead. Only the complete object constructors
// (C1) are replaced: libprism_rendezvous.so derives from the classes and uses the others.
//
// Without PRISM_STORE, or without the library, the program gets libtorch's own.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "shim/rendezvous/hooks.h"
#include "shim/session.h"
#include "shim/sibling_library.h"
#include "shim/spawned_process.h"

namespace prism::shim {
namespace {

#define PRISM_TCP_STORE                                                      \
  "_ZN4c10d8TCPStoreC1ENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE" \
  "RKNS_15TCPStoreOptionsE"
#define PRISM_FILE_STORE \
  "_ZN4c10d9FileStoreC1ENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEi"
#define PRISM_GLOO                                                              \
  "_ZN4c10d16ProcessGroupGlooC1ERKN3c1013intrusive_ptrINS_5StoreENS1_6detail34" \
  "intrusive_target_default_null_typeIS3_EEEEiiNS2_INS0_7OptionsENS5_ISA_EEEE"
#define PRISM_GLOO_DEVICE "_ZN4c10d16ProcessGroupGloo19createDefaultDeviceEb"

// libtorch_cpu's own definition.
void* RealSymbol(const char* name) {
  void* const library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  void* const symbol = library == nullptr ? nullptr : dlsym(library, name);
  if (symbol == nullptr) {
    fprintf(stderr, "prism shim: %s is not in this libtorch\n", name);
    abort();
  }
  return symbol;
}

TcpStoreConstructor* RealTcpStore() {
  static auto* const real = reinterpret_cast<TcpStoreConstructor*>(RealSymbol(PRISM_TCP_STORE));
  return real;
}

// libprism_rendezvous.so; nullptr if the process has no server.
void* Library() {
  static void* const library = []() -> void* {
    if (getenv(kStoreVariable) == nullptr) {
      return nullptr;
    }
    void* const opened = OpenForTorch("libprism_rendezvous.so", "no answers for absent ranks");
    if (opened == nullptr) {
      Count("rendezvous_missing");
    }
    return opened;
  }();
  return library;
}

void* Replacement(const char* name) {
  EndIfSpawnedForOtherRank();
  return Library() == nullptr ? nullptr : dlsym(Library(), name);
}

void* ReplacementOrReal(const char* replacement, const char* name) {
  void* const found = Replacement(replacement);
  return found == nullptr ? RealSymbol(name) : found;
}

}  // namespace
}  // namespace prism::shim

extern "C" {

#define PRISM_REPLACES(symbol) __asm__(symbol) __attribute__((visibility("default")))

void PrismTcpStore(void* self, void* host, const void* options) PRISM_REPLACES(PRISM_TCP_STORE);
void PrismFileStore(void* self, void* path, int workers) PRISM_REPLACES(PRISM_FILE_STORE);
void PrismGloo(void* self, const void* store, int rank, int size, void* options)
    PRISM_REPLACES(PRISM_GLOO);
// Returns a shared_ptr through the address that the caller gives.
void* PrismGlooDevice(void* result, bool lazy) PRISM_REPLACES(PRISM_GLOO_DEVICE);

void PrismTcpStore(void* self, void* host, const void* options) {
  using prism::shim::TcpStoreConstructor;
  TcpStoreConstructor* const real = prism::shim::RealTcpStore();
  using Make = void(void*, void*, const void*, TcpStoreConstructor*);
  auto* const make = reinterpret_cast<Make*>(prism::shim::Replacement(prism::shim::kMakeTcpStore));
  if (make == nullptr) {
    real(self, host, options);
  } else {
    make(self, host, options, real);
  }
}

void PrismFileStore(void* self, void* path, int workers) {
  using prism::shim::TcpStoreConstructor;
  using Make = void(void*, void*, int, TcpStoreConstructor*);
  auto* const make = reinterpret_cast<Make*>(prism::shim::Replacement(prism::shim::kMakeFileStore));
  if (make == nullptr) {
    using FileStoreConstructor = void(void*, void*, int);
    reinterpret_cast<FileStoreConstructor*>(prism::shim::RealSymbol(PRISM_FILE_STORE))(self, path,
                                                                                       workers);
  } else {
    make(self, path, workers, prism::shim::RealTcpStore());
  }
}

void PrismGloo(void* self, const void* store, int rank, int size, void* options) {
  using Make = void(void*, const void*, int, int, void*);
  void* const make = prism::shim::ReplacementOrReal(prism::shim::kMakeGloo, PRISM_GLOO);
  reinterpret_cast<Make*>(make)(self, store, rank, size, options);
}

void* PrismGlooDevice(void* result, bool lazy) {
  using Make = void*(void*, bool);
  return reinterpret_cast<Make*>(prism::shim::ReplacementOrReal(prism::shim::kMakeGlooDevice,
                                                                PRISM_GLOO_DEVICE))(result, lazy);
}
}
