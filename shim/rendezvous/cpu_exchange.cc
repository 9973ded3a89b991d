#include "shim/rendezvous/cpu_exchange.h"

#include <stdlib.h>

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/divide.h"
#include "graph/base/fnv.h"
#include "shim/clock/spend.h"
#include "shim/counters.h"
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

// Between hosts, through the kernel's sockets (launch/emulate/run/run_context.cc).
struct HostNetwork {
  int64_t message_ns = 0;
  int64_t bytes_per_s = 0;  // 0: messages take only their latency
};

const HostNetwork& GetHostNetwork() {
  static const HostNetwork network = [] {
    HostNetwork given;
    if (const char* const text = getenv("PRISM_HOST_NETWORK"); text != nullptr) {
      sscanf(text, "%" SCNd64 " %" SCNd64, &given.message_ns, &given.bytes_per_s);
    }
    return given;
  }();
  return network;
}

// What gloo's algorithms send one after the other: messages, and how many times the bytes pass a
// connection. Rings for reductions and gatherings (its default), a dissemination for the barrier, a
// binomial tree for broadcasts; the root of a gathering takes one message of each other member.
struct Steps {
  double messages;
  double passes;
};

Steps StepsOf(ExchangeOperation operation, int32_t size) {
  const double others = size - 1;
  const double share = others / size;
  const auto doublings = static_cast<double>(std::bit_width(static_cast<uint32_t>(size - 1)));
  switch (operation) {
    case ExchangeOperation::kBarrier:
      return {doublings, 0};
    case ExchangeOperation::kBroadcast:
      return {doublings, doublings};
    case ExchangeOperation::kAllReduce:
    case ExchangeOperation::kReduce:
      return {2 * others, 2 * share};
    case ExchangeOperation::kAllGather:
    case ExchangeOperation::kReduceScatter:
    case ExchangeOperation::kAllToAll:
      return {others, share};
    case ExchangeOperation::kGather:
    case ExchangeOperation::kScatter:
      return {1, share};
    case ExchangeOperation::kSend:
    case ExchangeOperation::kRecv:
      return {1, 1};
  }
  return {0, 0};
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

void prism_shim_cpu_spend(const CpuExchangeGroup* group, uint8_t operation, uint64_t bytes) {
  if (group->size < 2 || !prism::shim::ThreadIssuesOps()) {
    return;
  }
  const auto kind = static_cast<prism::shim::ExchangeOperation>(operation);
  const prism::shim::Steps steps = prism::shim::StepsOf(kind, group->size);
  const prism::shim::HostNetwork& network = prism::shim::GetHostNetwork();
  // Pickled objects vary by a few bytes from one iteration to the next.
  constexpr uint64_t kPageBytes = 4096;
  const double moved = steps.passes * static_cast<double>(prism::RoundUp(bytes, kPageBytes));
  const double rate = static_cast<double>(network.bytes_per_s);
  const double ns = steps.messages * static_cast<double>(network.message_ns) +
                    (rate > 0 ? moved / rate * 1e9 : 0);
  prism::shim::Count(std::string("cpu_collectives:") + ExchangeOperationName(kind));
  prism::shim::EmitCounters();
  prism::shim::Spend(static_cast<int64_t>(ns));
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
