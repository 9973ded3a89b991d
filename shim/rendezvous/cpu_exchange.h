// Collectives on host memory among the present members of a group, for libprism_rendezvous.so: the
// exchange of shim/nccl/exchange.h behind functions that carry no C++ type of the shim's own
// libraries. An absent member contributes what the lowest present one does, as everywhere.
#pragma once

#include <cstdint>

namespace prism::shim {

// A group of ranks of the job. `global_ranks` has `size` entries; nullptr: not known; this rank
// then counts as the only present one.
struct CpuGroupSpec {
  uint64_t identity;  // equal on all members, different for every other group name
  int32_t size;
  int32_t rank;
  const int64_t* global_ranks;
};

// One call; fields as in ExchangeCall.
struct CpuCall {
  uint8_t operation;  // ExchangeOperation
  uint8_t element;    // Element
  uint8_t reduce;     // ReduceKind
  int32_t root;       // or the peer
  uint64_t channel;   // calls of different channels are matched independently (tags)
  uint64_t sequence;
  uint64_t count;
  const void* send;
  void* recv;
};

inline constexpr uint64_t kCpuMessageBytes = 320;

// Of a note for prism check: a call stands behind the program's line.
enum class CpuNote : uint8_t {
  kCall,
  kOther,
};

struct CpuExchangeGroup;  // opaque; lives until the process ends

}  // namespace prism::shim

extern "C" {
prism::shim::CpuExchangeGroup* prism_shim_cpu_group(const prism::shim::CpuGroupSpec* spec);
// The calling thread begins such an operation (ExchangeOperation), which takes it host time;
// `bytes`: of the larger of its buffers.
void prism_shim_cpu_spend(const prism::shim::CpuExchangeGroup* group,
                          uint8_t operation,
                          uint64_t bytes);
int prism_shim_cpu_present_count(const prism::shim::CpuExchangeGroup* group);
// Runs one collective, or `count` sends and receives at once. Blocks until everything is complete
// on this member. Returns 0, or 1 with the reason in `message`, which has kCpuMessageBytes.
int prism_shim_cpu_run(prism::shim::CpuExchangeGroup* group,
                       const prism::shim::CpuCall* calls,
                       uint64_t count,
                       char* message);
// For prism check. False: it was not told.
bool prism_shim_cpu_tell(const char* note, prism::shim::CpuNote kind);
// Of Python's, other than the main one, for which those of autograd work.
bool prism_shim_is_on_side_thread();
// Whether a rank of the job runs in the sandbox together with this one.
int prism_shim_rank_is_present(int32_t global_rank);
}
