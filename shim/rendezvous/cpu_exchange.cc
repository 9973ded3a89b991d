#include "shim/rendezvous/cpu_exchange.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>
#include <vector>

#include "shim/nccl/communicator.h"
#include "shim/nccl/exchange.h"
#include "shim/session.h"

namespace prism::shim {

struct CpuExchangeGroup {
  uint64_t identity = 0;
  int32_t size = 1;
  int32_t rank = 0;
  std::vector<int32_t> present;
};

namespace {

// Objects are pickled into slots of any size, of which all bytes count: an absent member's slot
// always becomes the lowest present one's.
class HostMemory : public Memory {
 public:
  [[nodiscard]] bool KeepsLargeSlots() const override { return false; }
};

// A group can be made several times under one name, by all members in the same order.
uint64_t DistinctIdentity(uint64_t identity) {
  static std::mutex mutex;
  static auto* const instances = new std::map<uint64_t, uint32_t>();  // used until the very end
  const std::lock_guard<std::mutex> lock(mutex);
  const uint32_t instance = (*instances)[identity]++;
  return HashBytes(&instance, sizeof(instance), identity);
}

ExchangeStatus Run(Exchange* exchange, const ExchangeCall& call, const CpuCall& asked) {
  switch (static_cast<ExchangeOperation>(asked.operation)) {
    case ExchangeOperation::kAllReduce:
      return exchange->AllReduce(call, asked.send, asked.recv);
    case ExchangeOperation::kReduce:
      return exchange->Reduce(call, asked.send, asked.recv);
    case ExchangeOperation::kAllGather:
      return exchange->AllGather(call, asked.send, asked.recv);
    case ExchangeOperation::kReduceScatter:
      return exchange->ReduceScatter(call, asked.send, asked.recv);
    case ExchangeOperation::kBroadcast:
      return exchange->Broadcast(call, asked.send, asked.recv);
    case ExchangeOperation::kAllToAll:
      return exchange->AllToAll(call, asked.send, asked.recv);
    case ExchangeOperation::kGather:
      return exchange->Gather(call, asked.send, asked.recv);
    case ExchangeOperation::kScatter:
      return exchange->Scatter(call, asked.send, asked.recv);
    case ExchangeOperation::kSend:
    case ExchangeOperation::kRecv:
    case ExchangeOperation::kBarrier:
      break;
  }
  return exchange->Barrier(call);
}

bool IsTransfer(const CpuCall& call) {
  const auto operation = static_cast<ExchangeOperation>(call.operation);
  return operation == ExchangeOperation::kSend || operation == ExchangeOperation::kRecv;
}

// What absent ranks would have to provide is counted. In place of an absent root of a broadcast the
// lowest present rank gives what it has, so that sandbox ranks agree.
void ReplaceAbsent(const CpuExchangeGroup& group, ExchangeOperation operation, ExchangeCall* call) {
  const bool from_root =
      operation == ExchangeOperation::kBroadcast || operation == ExchangeOperation::kScatter;
  if ((!from_root && operation != ExchangeOperation::kRecv) ||
      std::binary_search(group.present.begin(), group.present.end(), call->root)) {
    return;
  }
  Count(from_root ? "absent_root_broadcast" : "virtual_recv");
  if (operation == ExchangeOperation::kBroadcast) {
    call->root = group.present.front();
  }
}

ExchangeCall CallOf(const CpuExchangeGroup& group, const CpuCall& asked) {
  ExchangeCall call;
  call.group = {HashBytes(&asked.channel, sizeof(asked.channel), group.identity), group.size,
                group.rank, group.present};
  call.sequence = asked.sequence;
  call.count = asked.count;
  call.element = static_cast<Element>(asked.element);
  call.reduction.kind = static_cast<ReduceKind>(asked.reduce);
  call.root = asked.root;
  return call;
}

}  // namespace
}  // namespace prism::shim

using prism::shim::CpuExchangeGroup;

extern "C" {

CpuExchangeGroup* prism_shim_cpu_group(const prism::shim::CpuGroupSpec* spec) {
  prism::shim::Membership members;
  for (int32_t i = 0; spec->global_ranks != nullptr && i < spec->size; ++i) {
    members.ranks.push_back(static_cast<int32_t>(spec->global_ranks[i]));
  }
  auto* const group = new CpuExchangeGroup();
  group->identity = prism::shim::DistinctIdentity(spec->identity);
  group->size = spec->size;
  group->rank = spec->rank;
  group->present = prism::shim::PresentRanks(members, spec->size, spec->rank);
  return group;
}

int prism_shim_cpu_present_count(const CpuExchangeGroup* group) {
  return static_cast<int>(group->present.size());
}

int prism_shim_cpu_run(const CpuExchangeGroup* group,
                       const prism::shim::CpuCall* calls,
                       uint64_t count,
                       char* message) {
  prism::shim::HostMemory memory;
  prism::shim::Exchange exchange(prism::shim::SharedArena(), &memory);
  prism::shim::ExchangeStatus status;
  std::vector<prism::shim::ExchangeTransfer> transfers;
  for (uint64_t i = 0; i < count && status.ok(); ++i) {
    prism::shim::ExchangeCall call = prism::shim::CallOf(*group, calls[i]);
    prism::shim::ReplaceAbsent(
        *group, static_cast<prism::shim::ExchangeOperation>(calls[i].operation), &call);
    if (prism::shim::IsTransfer(calls[i])) {
      transfers.push_back({call, calls[i].send, calls[i].recv});
    } else {
      status = prism::shim::Run(&exchange, call, calls[i]);
    }
  }
  if (status.ok() && !transfers.empty()) {
    status = exchange.Transfers(transfers);
  }
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
