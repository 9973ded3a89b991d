#include "shim/gpu/twins.h"

#include <cstddef>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <unordered_map>

#include "shim/gpu/forward.h"

PRISM_TWIN(cudaStreamCreateWithFlags);
PRISM_TWIN(cudaEventCreateWithFlags);

namespace prism::shim {
namespace {

struct Twins {
  std::shared_mutex mutex;
  std::unordered_map<const void*, const void*> by_real;
};

// Never destroyed: threads of the program use the device until the process ends.
Twins& Get() {
  alignas(Twins) static std::byte storage[sizeof(Twins)];
  static Twins* const twins = new (storage) Twins();
  return *twins;
}

// The default streams are handles that both devices know (stream.cc).
bool IsDefault(cudaStream_t stream) {
  return reinterpret_cast<uintptr_t>(stream) <= 2;
}

}  // namespace

void PairHandles(const void* real, const void* twin) {
  Twins& twins = Get();
  const std::unique_lock<std::shared_mutex> lock(twins.mutex);
  twins.by_real[real] = twin;
}

void UnpairHandle(const void* real) {
  Twins& twins = Get();
  const std::unique_lock<std::shared_mutex> lock(twins.mutex);
  twins.by_real.erase(real);
}

void* FindTwin(const void* real) {
  Twins& twins = Get();
  const std::shared_lock<std::shared_mutex> lock(twins.mutex);
  const auto found = twins.by_real.find(real);
  return found == twins.by_real.end() ? nullptr : const_cast<void*>(found->second);
}

cudaStream_t TwinOfStream(cudaStream_t real) {
  if (IsDefault(real)) {
    return real;
  }
  if (void* const twin = FindTwin(real)) {
    return static_cast<cudaStream_t>(twin);
  }
  cudaStream_t twin = nullptr;
  prism_twin_cudaStreamCreateWithFlags(&twin, cudaStreamNonBlocking);
  PairHandles(real, twin);
  return twin;
}

cudaEvent_t TwinOfEvent(cudaEvent_t real) {
  if (real == nullptr) {
    return nullptr;
  }
  if (void* const twin = FindTwin(real)) {
    return static_cast<cudaEvent_t>(twin);
  }
  cudaEvent_t twin = nullptr;
  prism_twin_cudaEventCreateWithFlags(&twin, cudaEventDefault);
  PairHandles(real, twin);
  return twin;
}

}  // namespace prism::shim
