#include "shim/rendezvous/cpu_exchange.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "graph/base/fnv.h"
#include "shim/nccl/absent_members.h"
#include "shim/nccl/communicator.h"
#include "shim/nccl/exchange.h"
#include "shim/session.h"

namespace prism::shim {

struct CpuExchangeGroup {
  uint64_t identity = 0;
  int32_t size = 1;
  int32_t rank = 0;
  std::vector<int32_t> present;
  AbsentMembers absent;
};

namespace {

// Objects are pickled into slots of any size, all bytes of which count: an absent member's slot is
// always filled with the lowest present one's.
class HostMemory : public Memory {
 public:
  [[nodiscard]] bool KeepsLargeSlots() const override { return false; }
};

// A group can be created several times under one name, by all members in the same order.
uint64_t DistinctIdentity(uint64_t identity) {
  static std::mutex mutex;
  static auto* const instances = new std::map<uint64_t, uint32_t>();  // used until the very end
  const std::lock_guard<std::mutex> lock(mutex);
  const uint32_t instance = (*instances)[identity]++;
  return FnvBytes(&instance, sizeof(instance), identity);
}

bool IsTransfer(ExchangeOperation operation) {
  return operation == ExchangeOperation::kSend || operation == ExchangeOperation::kRecv;
}

ExchangeCall CallOf(const CpuExchangeGroup& group, const CpuCall& asked) {
  ExchangeCall call;
  call.group = {FnvBytes(&asked.channel, sizeof(asked.channel), group.identity), group.size,
                group.rank, group.present};
  call.sequence = asked.sequence;
  call.count = asked.count;
  call.element = static_cast<Element>(asked.element);
  call.reduction.kind = static_cast<ReduceKind>(asked.reduce);
  call.root = asked.root;
  return call;
}

ExchangeStatus RunAll(CpuExchangeGroup* group, std::span<const CpuCall> calls) {
  HostMemory memory;
  Exchange exchange(SharedArena(), &memory);
  std::vector<MemberTransfer> transfers;
  for (CpuCall asked : calls) {
    const auto operation = static_cast<ExchangeOperation>(asked.operation);
    ExchangeCall call = CallOf(*group, asked);
    if (IsTransfer(operation)) {
      transfers.push_back(
          {&group->absent, operation == ExchangeOperation::kSend, {call, asked.send, asked.recv}});
      continue;
    }
    group->absent.BeforeCollective(operation, &call, &asked.send, asked.recv, &memory);
    const ExchangeStatus status = exchange.Collective(operation, call, asked.send, asked.recv);
    if (!status.ok()) {
      return status;
    }
  }
  return RunTransfers(transfers, &exchange, &memory);
}

}  // namespace
}  // namespace prism::shim

using prism::shim::CpuExchangeGroup;

extern "C" {

CpuExchangeGroup* prism_shim_cpu_group(const prism::shim::CpuGroupSpec* spec) {
  std::vector<int32_t> ranks;
  for (int32_t i = 0; spec->global_ranks != nullptr && i < spec->size; ++i) {
    ranks.push_back(static_cast<int32_t>(spec->global_ranks[i]));
  }
  const auto members = prism::shim::Membership::Of(std::move(ranks));
  auto* const group = new CpuExchangeGroup();
  group->identity = prism::shim::DistinctIdentity(spec->identity);
  group->size = spec->size;
  group->rank = spec->rank;
  group->present = prism::shim::PresentRanks(members, spec->size, spec->rank);
  group->absent.Describe(members, spec->size);
  return group;
}

int prism_shim_cpu_present_count(const CpuExchangeGroup* group) {
  return static_cast<int>(group->present.size());
}

int prism_shim_cpu_run(CpuExchangeGroup* group,
                       const prism::shim::CpuCall* calls,
                       uint64_t count,
                       char* message) {
  const prism::shim::ExchangeStatus status = prism::shim::RunAll(group, {calls, count});
  if (!status.ok()) {
    std::snprintf(message, prism::shim::kCpuMessageBytes, "%s", status.message);
  }
  return status.ok() ? 0 : 1;
}

int prism_shim_rank_is_present(int32_t global_rank) {
  const prism::channel::Config& config = prism::shim::SessionConfig();
  const int32_t* const first = config.sandbox_ranks;
  return std::binary_search(first, first + config.sandbox_rank_count, global_rank) ? 1 : 0;
}
}
