// MPI of the program is refused: it would start alone, as rank 0 of 1, in every rank that is
// recorded, and each would train by itself without an error.
#include <dlfcn.h>

#include "shim/session.h"

namespace {

constexpr int kRefused = 16;  // MPI_ERR_OTHER of Open MPI; an error of MPICH as well

bool HasPeers() {
  if (prism::shim::SessionConfig().world_size == 1) {
    return false;
  }
  prism::shim::Refuse(
      "MPI among a program's ranks (take RANK, WORLD_SIZE and LOCAL_RANK from the environment and "
      "share NCCL's id in a file)");
  return true;
}

// A library that was opened for itself, as Python's modules are, is not behind ours.
template <typename Call>
Call RealCall(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  for (const char* library : {"libmpi.so.40", "libmpi.so.12"}) {
    void* const loaded = found == nullptr ? dlopen(library, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
    found = loaded == nullptr ? found : dlsym(loaded, name);
  }
  return reinterpret_cast<Call>(found);
}

}  // namespace

extern "C" {

int MPI_Init(int* count, char*** arguments) {
  if (HasPeers()) {
    return kRefused;
  }
  const auto real = RealCall<int (*)(int*, char***)>("MPI_Init");
  return real == nullptr ? kRefused : real(count, arguments);
}

int MPI_Init_thread(int* count, char*** arguments, int wanted, int* provided) {
  if (HasPeers()) {
    return kRefused;
  }
  const auto real = RealCall<int (*)(int*, char***, int, int*)>("MPI_Init_thread");
  return real == nullptr ? kRefused : real(count, arguments, wanted, provided);
}
}
