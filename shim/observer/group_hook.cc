// Which process group makes a communicator.
//
// c10d::ProcessGroupNCCL::initNCCLComm is where every communicator comes to be: lazily, eagerly, by
// a split or for two ranks alone. libtorch_cuda calls it across its own procedure linkage table, so
// a preloaded definition is called instead. The argument types are written out here, since the shim
// includes nothing of libtorch; the symbol carries them. The result is a std::shared_ptr, which
// returns through memory whose address is the first argument (Itanium C++ ABI, section 3.1.3.1).
#include <dlfcn.h>

#include <atomic>
#include <cstdint>

#include "shim/clock/watchdogs.h"
#include "shim/observer/observer_calls.h"

namespace {

using InitFunction = void*(void* result,
                           void* group,
                           const void* key,
                           void* device,
                           uint8_t op_type,
                           int pair_rank,
                           bool with_itself);

constexpr const char* kInitName =
    "_ZN4c10d16ProcessGroupNCCL12initNCCLCommERKNSt7__cxx1112basic_stringIcSt11char_"
    "traitsIcESaIcEEERN3c106DeviceENS_6OpTypeEib";

thread_local prism::shim::GroupAtWork at_work = {};

InitFunction* RealInit() {
  static std::atomic<void*> found{nullptr};
  void* address = found.load(std::memory_order_relaxed);
  if (address == nullptr) {
    void* const library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    address = library == nullptr ? nullptr : dlsym(library, kInitName);
    found.store(address, std::memory_order_relaxed);
  }
  return reinterpret_cast<InitFunction*>(address);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) InitFunction PrismInitNcclComm __asm__(
    "_ZN4c10d16ProcessGroupNCCL12initNCCLCommERKNSt7__cxx1112basic_stringIcSt11char_"
    "traitsIcESaIcEEERN3c106DeviceENS_6OpTypeEib");

// Foreign exceptions pass through: the frame below holds nothing that has to be undone but at_work,
// which the next call sets anew and which nobody reads in between.
void* PrismInitNcclComm(void* result,
                        void* group,
                        const void* key,
                        void* device,
                        uint8_t op_type,
                        int pair_rank,
                        bool with_itself) {
  prism::shim::ExpectWatchdogOf(group);
  at_work = {group, key, pair_rank, with_itself};
  void* const made = RealInit()(result, group, key, device, op_type, pair_rank, with_itself);
  at_work = {};
  return made;
}

extern "C" __attribute__((visibility("default"))) const prism::shim::GroupAtWork*
prism_shim_group_at_work() {
  return &at_work;
}
