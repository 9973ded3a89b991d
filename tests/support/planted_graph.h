// Graphs written by hand in a few lines, for tests that plant faults or count classes.
//
//   PlantedGraph planted(2);                         // two ranks, one role each
//   planted.Communicator("dp", {0, 1});
//   planted.Collective(0, 0, 64).Collective(1, 0, 64);
//   Validate(planted.Build());
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace prism::testing {

class PlantedGraph {
 public:
  // One role per rank, or one for all.
  explicit PlantedGraph(uint32_t ranks, bool one_role = false) {
    graph_.strings = {"", "iteration"};
    graph_.job.parallel.dp = static_cast<int32_t>(ranks);
    comms_.resize(ranks);
    peers_.resize(ranks);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      graph_.ranks.role.push_back(one_role ? 0 : rank);
      graph_.ranks.source.push_back(graph::RankSource::kRole);
    }
    for (uint32_t role = 0; role < (one_role ? 1 : ranks); ++role) {
      graph_.roles.push_back({"role " + std::to_string(role), 0, Rank(role), {}, {}});
      graph_.roles.back().program.stream_count = 2;
    }
  }

  // Gives every member its next communicator slot.
  PlantedGraph& Communicator(const std::string& name, const std::vector<uint32_t>& members) {
    graph_.strings.push_back(name);
    graph_.communicators.name.push_back(static_cast<uint32_t>(graph_.strings.size() - 1));
    graph::CommunicatorTable& table = graph_.communicators;
    table.members.insert(table.members.end(), members.begin(), members.end());
    table.begin.push_back(static_cast<uint32_t>(table.members.size()));
    for (const uint32_t member : members) {
      comms_[member].push_back(table.size() - 1);
    }
    return *this;
  }

  // Gives the rank its next peer slot.
  PlantedGraph& Peer(uint32_t rank, uint32_t peer) {
    peers_[rank].push_back(peer);
    return *this;
  }

  PlantedGraph& Kernel(uint32_t role, uint16_t stream = 0) {
    if (graph_.signatures.empty()) {
      graph_.signatures.emplace_back();
      graph_.signatures.back().name = StringId(0);
      graph_.signatures.back().framework_op = StringId(0);
    }
    return Op(role, graph::OpKind::kKernel, stream);
  }

  PlantedGraph& Collective(uint32_t role, uint16_t slot, int64_t bytes, uint16_t stream = 0) {
    graph::Program& program = graph_.roles[role].program;
    program.Append({.kind = graph::OpKind::kCollective,
                    .stream = stream,
                    .comm_slot = slot,
                    .signature = static_cast<uint32_t>(program.collectives.size())});
    program.collectives.push_back(
        {graph::CollectiveKind::kAllReduce, DataType::kFloat32, graph::ReduceOp::kSum, -1, bytes});
    return *this;
  }

  PlantedGraph& Send(uint32_t role, uint16_t comm, uint16_t peer, int64_t bytes) {
    return Transfers(role, {{true, comm, peer, bytes}});
  }

  PlantedGraph& Receive(uint32_t role, uint16_t comm, uint16_t peer, int64_t bytes) {
    return Transfers(role, {{false, comm, peer, bytes}});
  }

  PlantedGraph& Transfers(uint32_t role,
                          std::vector<graph::PeerTransfer> transfers,
                          uint16_t stream = 0) {
    graph::Program& program = graph_.roles[role].program;
    program.Append({.kind = graph::OpKind::kPeerGroup,
                    .stream = stream,
                    .signature = static_cast<uint32_t>(program.peer_groups.size())});
    program.peer_groups.push_back({std::move(transfers)});
    return *this;
  }

  // An op of any other kind.
  PlantedGraph& Op(uint32_t role,
                   graph::OpKind kind,
                   uint16_t stream = 0,
                   uint32_t dep = graph::kNoDep) {
    graph_.roles[role].program.Append({.kind = kind, .stream = stream, .dep = dep});
    return *this;
  }

  PlantedGraph& IterationMarker(uint32_t role, bool begin) {
    graph_.roles[role].program.Append({.kind = graph::OpKind::kMarker,
                                       .flags = begin ? graph::kMarkerBegin : graph::kMarkerEnd,
                                       .signature = 1});
    return *this;
  }

  [[nodiscard]] graph::Graph Build() const {
    graph::Graph graph = graph_;
    graph.ranks.comm_begin = {0};
    graph.ranks.peer_begin = {0};
    for (uint32_t rank = 0; rank < graph.ranks.size(); ++rank) {
      graph::RankTable& table = graph.ranks;
      table.comm_ids.insert(table.comm_ids.end(), comms_[rank].begin(), comms_[rank].end());
      table.comm_begin.push_back(static_cast<uint32_t>(table.comm_ids.size()));
      table.peer_ids.insert(table.peer_ids.end(), peers_[rank].begin(), peers_[rank].end());
      table.peer_begin.push_back(static_cast<uint32_t>(table.peer_ids.size()));
      graph::Program& program = graph.roles[table.role[rank]].program;
      program.comm_slot_count = static_cast<uint16_t>(comms_[rank].size());
      program.peer_slot_count = static_cast<uint16_t>(peers_[rank].size());
    }
    return graph;
  }

 private:
  graph::Graph graph_;
  std::vector<std::vector<uint32_t>> comms_;  // by rank
  std::vector<std::vector<uint32_t>> peers_;  // by rank
};

}  // namespace prism::testing
