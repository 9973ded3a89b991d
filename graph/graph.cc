#include "graph/graph.h"

#include "graph/base/check.h"

namespace prism::graph {
namespace {

std::span<const uint32_t> Row(const std::vector<uint32_t>& begin,
                              const std::vector<uint32_t>& values,
                              uint32_t row) {
  PRISM_DCHECK(size_t{row} + 1 < begin.size());
  return std::span(values).subspan(begin[row], begin[row + 1] - begin[row]);
}

}  // namespace

int64_t MemoryProfile::outside_bytes() const {
  int64_t sum = 0;
  for (const MemoryClass& part : outside) {
    sum += part.bytes;
  }
  return sum;
}

std::span<const uint32_t> RankTable::comms(Rank rank) const {
  return Row(comm_begin, comm_ids, rank.value());
}

std::span<const uint32_t> RankTable::peers(Rank rank) const {
  return Row(peer_begin, peer_ids, rank.value());
}

std::span<const uint32_t> CommunicatorTable::members_of(CommId comm) const {
  return Row(begin, members, comm.value());
}

bool Graph::WasRecorded(const Role& role) const {
  const RankSource source = ranks.source[role.representative.value()];
  return source == RankSource::kRecorded || source == RankSource::kSandbox;
}

int64_t Graph::OpsPerIteration() const {
  int64_t count = 0;
  for (const uint32_t role : ranks.role) {
    count += roles[role].program.size();
  }
  return count;
}

}  // namespace prism::graph
