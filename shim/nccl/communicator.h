// Communicators of this process: what NCCL's handles refer to.
//
// NCCL does not identify members: ncclCommInitRank has a size and a rank, ncclCommSplit only the
// caller's own colour. Their global ranks come from the framework (GroupProvider, session.h), from
// the size if it is that of the whole job or 1, or from the parent. If they are not known,
// global_stride is 0 and this rank counts as the only present member.
//
// Handles are never freed, only marked as destroyed, so that a late call of a watchdog thread with
// a stale handle gets an error instead of crashing.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "shim/nccl/absent_members.h"
#include "shim/nccl/ballast.h"
#include "shim/nccl/exchange.h"
#include "shim/nccl/membership.h"

namespace prism::shim {

// A sum of scaled contributions that the program defined (ncclRedOpCreatePreMulSum).
struct ScaledSum {
  bool live = false;
  Element element = Element::kFloat32;
  bool on_device = false;
  double scale = 1;              // host scalars, read at creation
  const void* device = nullptr;  // device scalars, read when used
};

struct Communicator {
  uint32_t id = 0;  // dense, from 1
  uint64_t identity = 0;
  int32_t size = 1;
  int32_t rank = 0;
  int32_t device = 0;
  Membership members;
  std::vector<int32_t> present;  // ranks in the communicator that run in the sandbox
  std::atomic<bool> destroyed{false};
  std::atomic<bool> aborted{false};  // its current collective, which holds the mutex, ends soon
  std::atomic<int> async_error{0};   // ncclResult_t
  std::atomic<bool> named{false};    // or the framework was asked for the name during a call

  std::mutex mutex;  // calls for this communicator, one after the other
  uint32_t next_sequence = 0;
  uint32_t splits = 0;
  CommunicatorMemory memory;
  AbsentMembers absent;
  std::vector<ScaledSum> scaled_sums;  // ncclRedOp_t minus ncclNumOps is the index

  [[nodiscard]] ExchangeGroup Group() const { return {identity, size, rank, present}; }
  [[nodiscard]] bool IsPresent(int32_t member) const;
  // Also false if membership is not known and the communicator does not fit on a node.
  [[nodiscard]] bool OnSameNode(int32_t member) const;
};

// Ranks of a group that run in the sandbox, ascending, as ranks in the group; only `rank` itself if
// members are not known or nothing is shared with the others.
std::vector<int32_t> PresentRanks(const Membership& members, int32_t size, int32_t rank);

struct CommunicatorSpec {
  int32_t size = 1;
  int32_t rank = 0;
  uint64_t identity = 0;  // before the number among equal ones is mixed in
  std::string group_name;
  uint32_t group_number = 0;  // in the order in which this process created its groups; 0: not known
  Membership members;
  uint64_t place = 0;      // GroupInfo::place
  bool of_parent = false;  // GroupInfo::of_parent
  const Communicator* parent = nullptr;
};

// Registers it, emits kCommInit and takes the set-up memory. nullptr: device memory exhausted.
Communicator* CreateCommunicator(const CommunicatorSpec& spec);
// The communicator of a handle; nullptr for invalid or destroyed handles.
Communicator* FindCommunicator(const void* handle);
// For a call on a communicator that had no name when it was created: a split process group is
// described after its communicator exists. Emits kCommName if the framework names it now.
void NameLate(Communicator* communicator);
// Emits kCommDestroy, frees memory. May be called twice.
void DestroyCommunicator(Communicator* communicator);

// A communicator of that size and rank, with name, members and identity from the framework if it is
// working for a matching group; otherwise unnamed, with `unnamed_identity`.
CommunicatorSpec DescribeGroup(int32_t size, int32_t rank, uint64_t unnamed_identity);
// The group that the framework is working for on this thread; size 0 if it names none.
CommunicatorSpec DescribeFrameworkGroup(uint64_t unnamed_identity);

// The memory shared with other sandbox processes (environment PRISM_EXCHANGE, a path); nullptr if
// there is none.
ExchangeArena* SharedArena();

}  // namespace prism::shim
