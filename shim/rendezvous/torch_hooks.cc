// Replaces the constructors with which a program creates its stores and CPU process groups, so that
// whatever host, port or file it names, it reaches the server that answers for absent ranks, and no
// connection to absent ranks is attempted. libtorch_python imports these constructors from
// libtorch_cpu; a preloaded definition is called instead. Only the complete object constructors
// (C1) are replaced: libprism_rendezvous.so derives from the classes and uses the others.
//
// Without PRISM_STORE the program gets libtorch's own; without the library too if it has one rank,
// else it would wait for ranks that never come, and ends.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "shim/channel/no_answers.h"
#include "shim/observer/torch_symbol.h"
#include "shim/rendezvous/hooks.h"
#include "shim/session.h"
#include "shim/sibling_library.h"
#include "shim/spawned_process.h"

namespace prism::shim {
namespace {

#define PRISM_TCP_STORE(string) "_ZN4c10d8TCPStoreC1E" string "RKNS_15TCPStoreOptionsE"
#define PRISM_FILE_STORE(string) "_ZN4c10d9FileStoreC1E" string "i"
#define PRISM_GLOO                                                              \
  "_ZN4c10d16ProcessGroupGlooC1ERKN3c1013intrusive_ptrINS_5StoreENS1_6detail34" \
  "intrusive_target_default_null_typeIS3_EEEEiiNS2_INS0_7OptionsENS5_ISA_EEEE"
// Without its argument before torch 2.8; then what is passed on as such is ignored.
#define PRISM_GLOO_DEVICE(argument) "_ZN4c10d16ProcessGroupGloo19createDefaultDeviceE" argument

// libtorch_cpu's own definition.
void* RealSymbol(const char* name, const char* other) {
  std::atomic<void*> found{nullptr};
  void* const symbol = TorchSymbol("libtorch_cpu.so", name, other, &found);
  if (symbol == nullptr) {
    fprintf(stderr, "prism shim: %s is not in this libtorch\n", name);
    abort();
  }
  return symbol;
}

TcpStoreConstructor* RealTcpStore() {
  static auto* const real = reinterpret_cast<TcpStoreConstructor*>(
      RealSymbol(PRISM_TCP_STORE(PRISM_STRING), PRISM_TCP_STORE(PRISM_OLD_STRING)));
  return real;
}

// libprism_rendezvous.so; nullptr if the process has no server.
void* Library() {
  static void* const library = []() -> void* {
    if (getenv(kStoreVariable) == nullptr) {
      return nullptr;
    }
    void* const opened = OpenForTorch("libprism_rendezvous.so", channel::kNoAnswers);
    if (opened == nullptr && SessionConfig().world_size > 1) {
      syscall(SYS_exit_group, 1);
    }
    return opened;
  }();
  return library;
}

void* Replacement(const char* name) {
  EndIfSpawnedForOtherRank();
  return Library() == nullptr ? nullptr : dlsym(Library(), name);
}

void* ReplacementOrReal(const char* replacement, const char* name, const char* other) {
  void* const found = Replacement(replacement);
  return found == nullptr ? RealSymbol(name, other) : found;
}

}  // namespace
}  // namespace prism::shim

extern "C" {

void PrismTcpStore(void* self, void* host, const void* options)
    PRISM_REPLACES(PRISM_TCP_STORE(PRISM_STRING));
void PrismTcpStoreOld(void* self, void* host, const void* options)
    PRISM_ALSO_REPLACES(PRISM_TCP_STORE(PRISM_STRING), PRISM_TCP_STORE(PRISM_OLD_STRING));
void PrismFileStore(void* self, void* path, int workers)
    PRISM_REPLACES(PRISM_FILE_STORE(PRISM_STRING));
void PrismFileStoreOld(void* self, void* path, int workers)
    PRISM_ALSO_REPLACES(PRISM_FILE_STORE(PRISM_STRING), PRISM_FILE_STORE(PRISM_OLD_STRING));
void PrismGloo(void* self, const void* store, int rank, int size, void* options)
    PRISM_REPLACES(PRISM_GLOO);
// Returns a shared_ptr through the address that the caller gives.
void* PrismGlooDevice(void* result, bool lazy) PRISM_REPLACES(PRISM_GLOO_DEVICE("b"));
void* PrismGlooDeviceOld(void* result, bool lazy)
    PRISM_ALSO_REPLACES(PRISM_GLOO_DEVICE("b"), PRISM_GLOO_DEVICE("v"));

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
    reinterpret_cast<FileStoreConstructor*>(prism::shim::RealSymbol(
        PRISM_FILE_STORE(PRISM_STRING), PRISM_FILE_STORE(PRISM_OLD_STRING)))(self, path, workers);
  } else {
    make(self, path, workers, prism::shim::RealTcpStore());
  }
}

void PrismGloo(void* self, const void* store, int rank, int size, void* options) {
  using Make = void(void*, const void*, int, int, void*);
  void* const make = prism::shim::ReplacementOrReal(prism::shim::kMakeGloo, PRISM_GLOO, nullptr);
  reinterpret_cast<Make*>(make)(self, store, rank, size, options);
}

void* PrismGlooDevice(void* result, bool lazy) {
  using Make = void*(void*, bool);
  return reinterpret_cast<Make*>(prism::shim::ReplacementOrReal(
      prism::shim::kMakeGlooDevice, PRISM_GLOO_DEVICE("b"), PRISM_GLOO_DEVICE("v")))(result, lazy);
}
}
