#include "replayer/network/collective_flows.h"

#include <algorithm>
#include <cmath>

#include "graph/base/check.h"
#include "replayer/cost/collective_cost.h"

namespace prism::replayer {

using graph::CollectiveKind;

namespace {

constexpr int32_t kNobody = -1;

// A node of the communicator.
struct Member {
  int32_t node = 0;
  int32_t ranks = 0;
  std::vector<int32_t> nics;  // of its ranks, ascending
};

std::vector<Member> NodesOf(std::span<const uint32_t> members, const NicPlaces& places) {
  std::vector<uint32_t> ranks(members.begin(), members.end());
  std::ranges::sort(ranks,
                    [&](uint32_t a, uint32_t b) { return places.GpuOf(a) < places.GpuOf(b); });
  std::vector<Member> nodes;
  for (const uint32_t rank : ranks) {
    if (nodes.empty() || nodes.back().node != places.NodeOf(rank)) {
      nodes.push_back({places.NodeOf(rank), 0, {}});
    }
    Member& node = nodes.back();
    ++node.ranks;
    const int32_t nic = places.NicOf(rank);
    if (node.nics.empty() || node.nics.back() != nic) {
      node.nics.push_back(nic);
    }
  }
  return nodes;
}

double WireFactor(NcclProtocol protocol) {
  switch (protocol) {
    case NcclProtocol::kLl:
      return 2;
    case NcclProtocol::kLl128:
      return 128.0 / 120;
    case NcclProtocol::kSimple:
      return 1;
  }
  return 1;
}

// The parent of `node` in the binary tree over nodes 0 .. count - 1 in which odd ones are leaves.
int32_t ParentOf(int32_t node, int32_t count) {
  if (node == 0) {
    return kNobody;
  }
  const int32_t bit = node & -node;
  const int32_t up = (node ^ bit) | (bit << 1);
  return up >= count ? node ^ bit : up;
}

class EdgeWriter {
 public:
  EdgeWriter(std::vector<Member> nodes, const NicPlaces& places)
      : nodes_(std::move(nodes)), places_(places) {}

  [[nodiscard]] int32_t size() const { return static_cast<int32_t>(nodes_.size()); }
  [[nodiscard]] const Member& node(int32_t i) const { return nodes_[static_cast<size_t>(i)]; }

  void Add(int32_t from, int32_t to, double bytes) {
    const Member& source = node(from);
    const Member& target = node(to);
    const size_t lines = std::max(source.nics.size(), target.nics.size());
    for (size_t line = 0; line < lines; ++line) {
      const int32_t to_nic = target.nics[line % target.nics.size()];
      const int32_t from_nic = places_.keeps_rail ? to_nic : source.nics[line % source.nics.size()];
      result.edges.push_back(
          {source.node, from_nic, target.node, to_nic, bytes / static_cast<double>(lines)});
    }
  }

  void AddRing(double bytes) {
    for (int32_t i = 0; i < size(); ++i) {
      Add(i, (i + 1) % size(), bytes);
    }
    result.in_series = true;
  }

  // A chain from the root's node, or to it.
  void AddChain(int32_t root, bool to_root, double bytes) {
    for (int32_t i = 0; i + 1 < size(); ++i) {
      const int32_t near = (root + i) % size();
      const int32_t far = (root + i + 1) % size();
      to_root ? Add(far, near, bytes) : Add(near, far, bytes);
    }
    result.in_series = true;
  }

  // NCCL's second tree mirrors the first if the number of nodes is even, else it is shifted.
  void AddTrees(double bytes) {
    for (int32_t i = 1; i < size(); ++i) {
      const int32_t parent = ParentOf(i, size());
      AddBothWays(i, parent, bytes / 2);
      if (size() % 2 == 0) {
        AddBothWays(size() - 1 - i, size() - 1 - parent, bytes / 2);
      } else {
        AddBothWays((i + 1) % size(), (parent + 1) % size(), bytes / 2);
      }
    }
    result.rounds = 2;
  }

  // `per_pair`: bytes from one rank to another.
  void AddAllToAll(double per_pair) {
    const int32_t shifts = std::min(size() - 1, kMaxShifts);
    const double stands_for = static_cast<double>(size() - 1) / shifts;
    for (int32_t i = 0; i < shifts; ++i) {
      const auto shift = 1 + static_cast<int32_t>(std::lround(i * stands_for));
      for (int32_t from = 0; from < size(); ++from) {
        const int32_t to = (from + std::min(shift, size() - 1)) % size();
        Add(from, to, per_pair * node(from).ranks * node(to).ranks * stands_for);
      }
    }
  }

  void AddStar(int32_t root, bool to_root, double per_rank) {
    for (int32_t i = 0; i < size(); ++i) {
      if (i != root) {
        to_root ? Add(i, root, per_rank * node(i).ranks) : Add(root, i, per_rank * node(i).ranks);
      }
    }
  }

  CollectiveFlows result;

 private:
  void AddBothWays(int32_t a, int32_t b, double bytes) {
    Add(a, b, bytes);
    Add(b, a, bytes);
  }

  std::vector<Member> nodes_;
  const NicPlaces& places_;
};

}  // namespace

CollectiveFlows FlowsOfCollective(const graph::CollectiveShape& shape,
                                  std::optional<NcclChoice> choice,
                                  std::span<const uint32_t> members,
                                  const NicPlaces& places) {
  EdgeWriter edges(NodesOf(members, places), places);
  PRISM_CHECK(edges.size() > 1);
  const auto size = static_cast<int32_t>(members.size());
  const uint32_t root_rank = members[static_cast<size_t>(std::max(shape.root, 0))];
  int32_t root = 0;
  while (edges.node(root).node != places.NodeOf(root_rank)) {
    ++root;
  }
  const auto bytes = static_cast<double>(shape.bytes);
  if (!choice.has_value()) {
    if (shape.kind == CollectiveKind::kAllToAll) {
      edges.AddAllToAll(bytes / size);
    } else {
      edges.AddStar(root, shape.kind == CollectiveKind::kGather, bytes / size);
    }
    return std::move(edges.result);
  }
  const double factor = WireFactor(choice->protocol);
  switch (choice->algorithm) {
    case NcclAlgorithm::kRing:
      if (shape.kind == CollectiveKind::kBroadcast || shape.kind == CollectiveKind::kReduce) {
        edges.AddChain(root, shape.kind == CollectiveKind::kReduce, bytes * factor);
      } else {
        edges.AddRing(RingTraffic(shape, size) * factor);
        edges.result.rounds = shape.kind == CollectiveKind::kAllReduce ? 2 : 1;
      }
      break;
    case NcclAlgorithm::kTree:
    case NcclAlgorithm::kNvlsTree:
      edges.AddTrees(bytes * factor);
      break;
    case NcclAlgorithm::kCollNet:
      edges.AddRing(bytes * factor);
      break;
    case NcclAlgorithm::kNvls:
      break;  // inside a node
  }
  return std::move(edges.result);
}

EdgeFlow FlowOfPeer(uint32_t sender, uint32_t receiver, int64_t bytes, const NicPlaces& places) {
  const int32_t to_nic = places.NicOf(receiver);
  return {places.NodeOf(sender), places.keeps_rail ? to_nic : places.NicOf(sender),
          places.NodeOf(receiver), to_nic, static_cast<double>(bytes)};
}

}  // namespace prism::replayer
