// Which process group creates a communicator, and which of the process's groups that is.
//
// c10d::ProcessGroupNCCL::initNCCLComm creates every communicator: lazily, eagerly, by a split or
// for only two ranks. libtorch_cuda calls it across its own procedure linkage table, so a preloaded
// definition is called instead. The argument types are written out here, since the shim includes
// nothing of libtorch; the symbol encodes them. The result is a std::shared_ptr, which returns
// through memory whose address is the first argument (Itanium C++ ABI, section 3.1.3.1).
//
// Communicators are created when they are first used. So groups with the same members are
// distinguished by the order in which the groups were created, which is the same on all members: by
// the constructor of c10d::ProcessGroupNCCL, whose arguments of class type are passed by address.
//
// From 2.15 on torch's "nccl" is c10d::nccl2::ProcessGroupNCCL, another class. Most of its groups
// are made by splitting the default one, which creates a communicator at once.
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <unordered_map>

#include "shim/clock/watchdogs.h"
#include "shim/observer/observer_calls.h"
#include "shim/observer/torch_symbol.h"

namespace {

using InitFunction = void*(void* result,
                           void* group,
                           const void* key,
                           void* device,
                           uint8_t op_type,
                           int pair_rank,
                           bool with_itself);

#define PRISM_INIT_NAME(string) \
  "_ZN4c10d16ProcessGroupNCCL12initNCCLCommERK" string "RN3c106DeviceENS_6OpTypeEib"

using GroupConstructor = void(void* self, void* store, int rank, int size, void* options);

#define PRISM_GROUP_NAME                                                                       \
  "_ZN4c10d16ProcessGroupNCCLC1EN3c1013intrusive_ptrINS_5StoreENS1_6detail34intrusive_target_" \
  "default_null_typeIS3_EEEEiiNS2_INS0_7OptionsENS5_IS8_EEEE"

// What makes the communicators of c10d::nccl2::ProcessGroupNCCL: init for the group's own, split
// for a child's. Its watchdog, which it starts there, has no name.
#define PRISM_SECOND(name) "_ZN4c10d5nccl216ProcessGroupNCCL" name
#define PRISM_SECOND_GROUP_NAME                                          \
  PRISM_SECOND(                                                          \
      "C1EN3c1013intrusive_ptrINS_5StoreENS2_6detail34intrusive_target_" \
      "default_null_typeIS4_EEEEiiNS3_INS_16ProcessGroupNCCL7OptionsENS6_ISA_EEEE")
#define PRISM_SECOND_SPLIT_NAME                                                        \
  PRISM_SECOND(                                                                        \
      "5splitERKN3c1013intrusive_ptrINS_5StoreENS2_6detail34intrusive_target_default_" \
      "null_typeIS4_EEEERKSt6vectorIiSaIiEERKNS3_INS_7Backend7OptionsENS6_ISH_EEEE")
#define PRISM_SECOND_INIT_NAME PRISM_SECOND("4initEN3c106DeviceE")
#define PRISM_SECOND_WATCHDOG_NAME PRISM_SECOND("15timeoutWatchdogEv")

using SecondInit = void(void* group, uint16_t device);
using SecondWatchdog = void(void* group);
using SecondSplit =
    void*(void* result, void* group, const void* store, const void* ranks, const void* options);

constexpr const char* kLibrary = "libtorch_cuda.so";

thread_local prism::shim::GroupAtWork at_work = {};

// A group created at the address of an earlier one replaces it.
struct GroupNumbers {
  std::mutex mutex;
  std::unordered_map<const void*, uint32_t> by_group;
  uint32_t last = 0;
};

// Never destroyed: groups are created and used until the process ends.
GroupNumbers& Numbers() {
  alignas(GroupNumbers) static std::byte storage[sizeof(GroupNumbers)];
  static GroupNumbers* const numbers = new (storage) GroupNumbers();
  return *numbers;
}

uint32_t NumberOf(const void* group) {
  GroupNumbers& numbers = Numbers();
  const std::lock_guard<std::mutex> lock(numbers.mutex);
  const auto found = numbers.by_group.find(group);
  return found == numbers.by_group.end() ? 0 : found->second;
}

void GiveNumber(const void* group) {
  GroupNumbers& numbers = Numbers();
  const std::lock_guard<std::mutex> lock(numbers.mutex);
  numbers.by_group[group] = ++numbers.last;
}

uint32_t NextNumber() {
  GroupNumbers& numbers = Numbers();
  const std::lock_guard<std::mutex> lock(numbers.mutex);
  return numbers.last + 1;
}

template <typename Function>
Function* Second(const char* name, std::atomic<void*>* found) {
  return reinterpret_cast<Function*>(prism::shim::TorchSymbol(kLibrary, name, nullptr, found));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) GroupConstructor
    PrismMakeNcclGroup __asm__(PRISM_GROUP_NAME);

void PrismMakeNcclGroup(void* self, void* store, int rank, int size, void* options) {
  static std::atomic<void*> found{nullptr};
  GiveNumber(self);  // before, as the constructor itself may create a communicator
  reinterpret_cast<GroupConstructor*>(prism::shim::TorchSymbol(
      kLibrary, PRISM_GROUP_NAME, nullptr, &found))(self, store, rank, size, options);
}

extern "C" {
GroupConstructor PrismMakeSecondGroup PRISM_REPLACES(PRISM_SECOND_GROUP_NAME);
SecondInit PrismInitSecondGroup PRISM_REPLACES(PRISM_SECOND_INIT_NAME);
SecondSplit PrismSplitSecondGroup PRISM_REPLACES(PRISM_SECOND_SPLIT_NAME);
SecondWatchdog PrismWatchSecondGroup PRISM_REPLACES(PRISM_SECOND_WATCHDOG_NAME);
InitFunction PrismInitNcclComm PRISM_REPLACES(PRISM_INIT_NAME(PRISM_STRING));
InitFunction PrismInitNcclCommOld PRISM_ALSO_REPLACES(PRISM_INIT_NAME(PRISM_STRING),
                                                      PRISM_INIT_NAME(PRISM_OLD_STRING));
}

// Foreign exceptions pass through: the frame below holds nothing that has to be undone except
// at_work, which the next call sets again and which is not read in between.
void* PrismInitNcclComm(void* result,
                        void* group,
                        const void* key,
                        void* device,
                        uint8_t op_type,
                        int pair_rank,
                        bool with_itself) {
  static std::atomic<void*> found{nullptr};
  prism::shim::ExpectWatchdogOf(group);
  at_work = {.group = group,
             .number = NumberOf(group),
             .key = key,
             .pair_rank = pair_rank,
             .with_itself = with_itself};
  void* const made = reinterpret_cast<InitFunction*>(prism::shim::TorchSymbol(
      kLibrary, PRISM_INIT_NAME(PRISM_STRING), PRISM_INIT_NAME(PRISM_OLD_STRING), &found))(
      result, group, key, device, op_type, pair_rank, with_itself);
  at_work = {};
  return made;
}

void PrismMakeSecondGroup(void* self, void* store, int rank, int size, void* options) {
  static std::atomic<void*> found{nullptr};
  prism::shim::asks_at_issue.store(true);
  GiveNumber(self);
  Second<GroupConstructor>(PRISM_SECOND_GROUP_NAME, &found)(self, store, rank, size, options);
}

void PrismInitSecondGroup(void* group, uint16_t device) {
  static std::atomic<void*> found{nullptr};
  prism::shim::ExpectWatchdogOf(group);
  const prism::shim::GroupAtWork before = at_work;  // a split may have to create its parent
  at_work = {.group = group, .number = NumberOf(group), .is_second = true};
  Second<SecondInit>(PRISM_SECOND_INIT_NAME, &found)(group, device);
  at_work = before;
}

// The child's constructor, which gives it its number, comes after its communicator.
void* PrismSplitSecondGroup(
    void* result, void* group, const void* store, const void* ranks, const void* options) {
  static std::atomic<void*> found{nullptr};
  at_work = {.group = group,
             .number = NextNumber(),
             .is_second = true,
             .ranks = ranks,
             .options = options};
  void* const made =
      Second<SecondSplit>(PRISM_SECOND_SPLIT_NAME, &found)(result, group, store, ranks, options);
  at_work = {};
  return made;
}

// Named as the watchdogs of c10d::ProcessGroupNCCL are, so that it is treated like them.
void PrismWatchSecondGroup(void* group) {
  static std::atomic<void*> found{nullptr};
  pthread_setname_np(pthread_self(), "pt_nccl_watchdg");
  Second<SecondWatchdog>(PRISM_SECOND_WATCHDOG_NAME, &found)(group);
}

extern "C" __attribute__((visibility("default"))) const prism::shim::GroupAtWork*
prism_shim_group_at_work() {
  return &at_work;
}
