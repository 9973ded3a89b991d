#include "shim/nccl/communicator.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <unordered_map>

#include <cuda_runtime_api.h>

#include "graph/base/divide.h"
#include "graph/base/fnv.h"
#include "shim/nccl/deferred_moves.h"
#include "shim/observer/observer_calls.h"
#include "shim/session.h"
#include "shim/source_line.h"

namespace prism::shim {

namespace {

struct Table {
  std::mutex mutex;
  std::unordered_map<const void*, std::unique_ptr<Communicator>> by_handle;
  std::map<uint64_t, uint32_t> instances;  // communicators so far, by identity
  uint32_t next_id = 1;
  std::atomic<GroupProvider> provider{nullptr};
};

// Never destroyed: watchdog threads call in until the process ends.
Table& GetTable() {
  alignas(Table) static std::byte storage[sizeof(Table)];
  static Table* const table = new (storage) Table();
  return *table;
}

// Without members, ranks are assumed to fill nodes one after the other.
graph::CommunicatorShape ShapeOf(const CommunicatorSpec& spec) {
  const int32_t per_node = std::max(1, SessionConfig().device.device_count);
  graph::CommunicatorShape shape = {spec.size, std::min(spec.size, per_node),
                                    DivideUp(spec.size, per_node)};
  if (!spec.members.known()) {
    Count("nccl_memory_without_members");
    return shape;
  }
  const int32_t own_node = spec.members.GlobalRank(spec.rank) / per_node;
  shape.local_ranks = 0;
  std::vector<int32_t> nodes;
  for (int32_t rank = 0; rank < spec.size; ++rank) {
    nodes.push_back(spec.members.GlobalRank(rank) / per_node);
    shape.local_ranks += nodes.back() == own_node ? 1 : 0;
  }
  std::sort(nodes.begin(), nodes.end());
  shape.node_count = static_cast<int32_t>(std::unique(nodes.begin(), nodes.end()) - nodes.begin());
  return shape;
}

void EmitInit(const Communicator& communicator, const CommunicatorSpec& spec) {
  ReportSourceLine();
  ReportDevice();
  channel::Record record = {};
  record.kind = channel::RecordKind::kCommInit;
  channel::CommInitBody& body = record.comm_init;
  body.comm = communicator.id;
  body.size = communicator.size;
  body.rank = communicator.rank;
  body.group_name =
      spec.group_name.empty() ? 0 : DefineOnce(channel::Table::kGroupName, spec.group_name);
  body.global_start = spec.members.global_start;
  body.global_stride = spec.members.global_stride;
  body.identity = communicator.identity;
  body.parent = spec.parent == nullptr ? 0 : spec.parent->id;
  body.payload_bytes = static_cast<uint32_t>(spec.members.ranks.size() * sizeof(int32_t));
  body.group_number = spec.group_number;
  Emit(record, spec.members.ranks.data(), body.payload_bytes);
}

}  // namespace

std::vector<int32_t> PresentRanks(const Membership& members, int32_t size, int32_t rank) {
  const channel::Config& config = SessionConfig();
  std::vector<int32_t> present;
  if (members.known() && SharedArena() != nullptr) {
    const int32_t* first = config.sandbox_ranks;
    const int32_t* last = first + config.sandbox_rank_count;
    for (int32_t member = 0; member < size; ++member) {
      if (std::binary_search(first, last, members.GlobalRank(member))) {
        present.push_back(member);
      }
    }
  }
  if (!std::binary_search(present.begin(), present.end(), rank)) {
    present = {rank};
  }
  return present;
}

bool Communicator::IsPresent(int32_t member) const {
  return std::binary_search(present.begin(), present.end(), member);
}

bool Communicator::OnSameNode(int32_t member) const {
  const int32_t per_node = std::max(1, SessionConfig().device.device_count);
  if (!members.known()) {
    return size <= per_node;
  }
  return members.GlobalRank(member) / per_node == members.GlobalRank(rank) / per_node;
}

ExchangeArena* SharedArena() {
  alignas(ExchangeArena) static std::byte storage[sizeof(ExchangeArena)];
  static ExchangeArena* const arena = [] {
    const char* path = std::getenv("PRISM_EXCHANGE");
    auto* mapped = new (storage) ExchangeArena();
    if (path == nullptr) {
      return mapped;
    }
    *mapped = ExchangeArena::MapPath(path);
    if (!mapped->valid()) {
      std::fprintf(stderr, "prism shim: the memory of PRISM_EXCHANGE cannot be mapped\n");
      std::abort();
    }
    mapped->set_ranks(static_cast<uint32_t>(SessionConfig().sandbox_rank_count));
    return mapped;
  }();
  return arena->valid() ? arena : nullptr;
}

CommunicatorSpec DescribeFrameworkGroup(uint64_t unnamed_identity) {
  CommunicatorSpec spec;
  spec.size = 0;
  spec.identity = unnamed_identity;
  GroupInfo info = {};
  const GroupProvider provider = GetTable().provider.load();
  if (provider == nullptr || !provider(&info) || info.size < 1 || info.rank < 0 ||
      info.rank >= info.size) {
    return spec;
  }
  spec.size = info.size;
  spec.rank = info.rank;
  spec.group_name = info.name;
  spec.group_number = info.number;
  spec.place = info.place;
  spec.of_parent = info.of_parent;
  const uint64_t seed = FnvHash(info.unique == nullptr ? "" : info.unique, FnvHash(info.name));
  const channel::Config& config = SessionConfig();
  if (info.global_stride <= 0 && info.members == nullptr && info.size == config.world_size &&
      info.rank == config.rank) {
    info.global_start = 0;
    info.global_stride = 1;
  }
  if (info.global_stride > 0) {
    spec.members.global_start = info.global_start;
    spec.members.global_stride = info.global_stride;
    const int32_t numbers[] = {info.global_start, info.global_stride, info.size};
    spec.identity = FnvBytes(numbers, sizeof(numbers), seed);
  } else if (info.members != nullptr) {
    spec.members = Membership::Of({info.members, info.members + info.size});
    spec.identity = FnvBytes(info.members, static_cast<size_t>(info.size) * sizeof(int32_t), seed);
  }
  return spec;
}

CommunicatorSpec DescribeGroup(int32_t size, int32_t rank, uint64_t unnamed_identity) {
  CommunicatorSpec spec = DescribeFrameworkGroup(unnamed_identity);
  if (spec.size == size && spec.rank == rank) {
    return spec;
  }
  const channel::Config& config = SessionConfig();
  spec = {};
  spec.size = size;
  spec.rank = rank;
  spec.identity = unnamed_identity;
  // With one rank, or all ranks in their own order, the members are known without a name.
  if (size == 1 || (size == config.world_size && rank == config.rank)) {
    spec.members.global_start = size == 1 ? config.rank : 0;
    spec.members.global_stride = 1;
  }
  return spec;
}

Communicator* CreateCommunicator(const CommunicatorSpec& spec) {
  auto made = std::make_unique<Communicator>();
  Communicator* communicator = made.get();
  communicator->size = spec.size;
  communicator->rank = spec.rank;
  communicator->members = spec.members;
  communicator->named = !spec.group_name.empty();
  communicator->present = PresentRanks(spec.members, spec.size, spec.rank);
  cudaGetDevice(&communicator->device);
  Table& table = GetTable();
  {
    // The same group can have several communicators, made in the same order by all members.
    const std::lock_guard<std::mutex> lock(table.mutex);
    const uint32_t instance = table.instances[spec.identity]++;
    communicator->identity = FnvBytes(&instance, sizeof(instance), spec.identity);
    communicator->id = table.next_id++;
    table.by_handle.emplace(communicator, std::move(made));
  }
  communicator->absent.Describe(spec.members, spec.size, spec.place);
  EmitInit(*communicator, spec);
  communicator->memory.Describe(communicator->id, ShapeOf(spec));
  if (!communicator->memory.TakeSetup()) {
    DestroyCommunicator(communicator);
    return nullptr;
  }
  return communicator;
}

Communicator* FindCommunicator(const void* handle) {
  Table& table = GetTable();
  const std::lock_guard<std::mutex> lock(table.mutex);
  const auto found = table.by_handle.find(handle);
  return found == table.by_handle.end() || found->second->destroyed.load() ? nullptr
                                                                           : found->second.get();
}

void NameLate(Communicator* communicator) {
  if (communicator->named.exchange(true)) {
    return;
  }
  const CommunicatorSpec spec = DescribeFrameworkGroup(0);
  if (spec.size != communicator->size || spec.rank != communicator->rank ||
      spec.group_name.empty()) {
    return;
  }
  channel::Record record = {};
  record.kind = channel::RecordKind::kCommName;
  record.comm_name.comm = communicator->id;
  record.comm_name.group_name = DefineOnce(channel::Table::kGroupName, spec.group_name);
  Emit(record);
}

void DestroyCommunicator(Communicator* communicator) {
  if (communicator->destroyed.exchange(true)) {
    return;
  }
  if (!communicator->aborted.load()) {
    AwaitDeferredOf(communicator->identity);
  }
  const std::lock_guard<std::mutex> lock(communicator->mutex);
  communicator->memory.GiveBack();
  channel::Record record = {};
  record.kind = channel::RecordKind::kCommDestroy;
  record.comm_destroy.comm = communicator->id;
  Emit(record);
}

}  // namespace prism::shim

extern "C" __attribute__((visibility("default"))) void prism_shim_set_group_provider(
    prism::shim::GroupProvider provider) {
  prism::shim::GetTable().provider.store(provider);
}
