#include "tests/support/tiny_graph.h"

#include <fmt/format.h>

#include "tests/support/test_parameters.h"

namespace prism::testing {

using graph::OpKind;

TinyOp Kernel(uint16_t stream, DurationNs duration) {
  TinyOp op;
  op.stream = stream;
  op.value = duration;
  return op;
}

TinyOp Collective(uint16_t stream, uint16_t comm_slot, DurationNs duration) {
  TinyOp op = Kernel(stream, duration);
  op.kind = OpKind::kCollective;
  op.comm_slot = comm_slot;
  return op;
}

TinyOp Record(uint16_t stream) {
  TinyOp op = Kernel(stream, 0);
  op.kind = OpKind::kEventRecord;
  return op;
}

TinyOp Wait(uint16_t stream, uint32_t record_op) {
  TinyOp op = Kernel(stream, 0);
  op.kind = OpKind::kEventWait;
  op.dep = record_op;
  return op;
}

TinyOp EventSync(uint32_t record_op) {
  TinyOp op = Wait(0, record_op);
  op.kind = OpKind::kEventSync;
  return op;
}

TinyOp Sync() {
  TinyOp op;
  op.kind = OpKind::kDeviceSync;
  return op;
}

TinyOp Gap(DurationNs duration) {
  TinyOp op = Kernel(0, duration);
  op.kind = OpKind::kHostGap;
  return op;
}

namespace {

TinyOp Transfer(uint16_t stream, DurationNs duration, const graph::PeerTransfer& transfer) {
  TinyOp op = Kernel(stream, duration);
  op.kind = OpKind::kPeerGroup;
  op.transfers = {transfer};
  return op;
}

graph::Program MakeProgram(const std::vector<TinyOp>& ops, uint16_t streams, size_t world) {
  graph::Program program;
  program.stream_count = streams;
  program.comm_slot_count = 1;
  program.peer_slot_count = static_cast<uint16_t>(world);
  for (const TinyOp& op : ops) {
    bool timed = op.kind == OpKind::kKernel || op.kind == OpKind::kCollective ||
                 op.kind == OpKind::kPeerGroup;
    uint32_t signature = 0;
    if (op.kind == OpKind::kCollective) {
      program.collectives.resize(1);
      program.collectives[0].bytes = 1024;
    } else if (op.kind == OpKind::kPeerGroup) {
      signature = static_cast<uint32_t>(program.peer_groups.size());
      program.peer_groups.push_back({op.transfers});
    }
    program.Append({.kind = op.kind,
                    .flags = static_cast<uint8_t>(
                        op.flags | (timed ? uint8_t{graph::kDurationFixed} : uint8_t{0})),
                    .stream = op.stream,
                    .comm_slot = op.comm_slot,
                    .signature = signature,
                    .dep = op.dep,
                    .value = op.value});
  }
  return program;
}

}  // namespace

TinyOp Send(uint16_t stream, uint16_t peer_slot, DurationNs duration, int64_t bytes) {
  return Transfer(stream, duration, {true, 0, peer_slot, bytes});
}

TinyOp Receive(uint16_t stream, uint16_t peer_slot, DurationNs duration, int64_t bytes) {
  return Transfer(stream, duration, {false, 0, peer_slot, bytes});
}

graph::Graph TinyGraph(const std::vector<std::vector<TinyOp>>& ranks, uint16_t streams) {
  graph::Graph graph;
  graph.cluster = TestCluster();
  MakeFree(&graph.cluster);
  graph.strings = {"", "kernel", "world"};
  graph.signatures.resize(1);
  graph.signatures[0].name = StringId(1);
  graph.signatures[0].framework_op = StringId(0);
  graph.communicators.name = {2};
  graph.ranks.comm_begin = {0};
  graph.ranks.peer_begin = {0};
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    graph::Role role;
    role.name = fmt::format("stage {}", rank);
    role.stage = static_cast<int32_t>(rank);
    role.representative = Rank(rank);
    role.program = MakeProgram(ranks[rank], streams, ranks.size());
    graph.roles.push_back(std::move(role));
    graph.communicators.members.push_back(rank);
    graph.ranks.role.push_back(rank);
    graph.ranks.source.push_back(graph::RankSource::kRecorded);
    graph.ranks.comm_ids.push_back(0);
    graph.ranks.comm_begin.push_back(rank + 1);
    for (uint32_t peer = 0; peer < ranks.size(); ++peer) {
      graph.ranks.peer_ids.push_back(peer);
    }
    graph.ranks.peer_begin.push_back(static_cast<uint32_t>(graph.ranks.peer_ids.size()));
  }
  graph.communicators.begin.push_back(static_cast<uint32_t>(ranks.size()));
  return graph;
}

}  // namespace prism::testing
