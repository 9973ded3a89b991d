#include "tests/support/random_graph.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/rng.h"
#include "tests/support/chance.h"

namespace prism::testing {
namespace {

using graph::CollectiveShape;
using graph::Graph;
using graph::OpKind;
using graph::PeerGroup;
using graph::Program;

// A set of communicators: one per copy with the members `base`, or one over all copies.
struct Family {
  std::vector<int32_t> base;  // ascending
  bool across = false;
};

template <typename T>
uint32_t Intern(const T& value, std::vector<T>* table) {
  const auto found = std::find(table->begin(), table->end(), value);
  if (found != table->end()) {
    return static_cast<uint32_t>(found - table->begin());
  }
  table->push_back(value);
  return static_cast<uint32_t>(table->size() - 1);
}

// The rank of base rank `base`, `shift` copies further on.
struct Peer {
  int32_t base = 0;
  int32_t shift = 0;

  bool operator==(const Peer&) const = default;
};

// The program of one base rank while the schedule is drawn.
struct BaseRank {
  Program program;
  std::vector<int32_t> families;  // by communicator slot
  std::vector<Peer> peers;        // by peer slot
  std::vector<uint32_t> events;   // kEventRecord ops so far
  std::vector<int64_t> segments;  // allocated and not yet freed
  std::vector<uint32_t> markers;  // open ranges

  uint16_t CommSlot(int32_t family) { return static_cast<uint16_t>(Intern(family, &families)); }

  uint16_t PeerSlot(const Peer& peer) { return static_cast<uint16_t>(Intern(peer, &peers)); }

  void Append(const graph::OpRow& op) { program.Append(op); }
};

class Schedule {
 public:
  explicit Schedule(const RandomGraphOptions& options)
      : options_(options),
        rng_(options.seed, "random graph"),
        ranks_(static_cast<size_t>(options.base_ranks)) {
    graph_.strings = {"", "iteration"};
  }

  Graph Draw() {
    DrawSignatures();
    DrawFamilies();
    for (BaseRank& rank : ranks_) {
      rank.program.stream_count = static_cast<uint16_t>(options_.streams);
      rank.Append({.kind = OpKind::kMarker, .flags = graph::kMarkerBegin, .signature = 1});
      DrawFront(&rank);
    }
    for (int32_t event = 0; event < options_.events; ++event) {
      DrawEvent();
    }
    for (BaseRank& rank : ranks_) {
      if (!options_.fronts || Chance(&rng_, 0.5)) {
        rank.Append({.kind = OpKind::kDeviceSync});
      }
      while (!rank.markers.empty()) {
        CloseMarker(&rank);
      }
      rank.Append({.kind = OpKind::kMarker, .flags = graph::kMarkerEnd, .signature = 1});
    }
    Assemble();
    return std::move(graph_);
  }

 private:
  int64_t Uniform(int64_t low, int64_t high) { return rng_.UniformInt(low, high); }

  template <typename T>
  const T& Pick(const std::vector<T>& values) {
    return values[static_cast<size_t>(Uniform(0, static_cast<int64_t>(values.size()) - 1))];
  }

  // From 0 to `high`.
  int32_t UpTo(int32_t high) { return static_cast<int32_t>(Uniform(0, high)); }

  uint16_t AnyStream() { return static_cast<uint16_t>(Uniform(0, options_.streams - 1)); }

  StringId Text(std::string text) { return StringId(Intern(text, &graph_.strings)); }

  void DrawSignatures() {
    const int64_t count = Uniform(1, 12);
    for (int64_t index = 0; index < count; ++index) {
      graph::KernelSignature signature;
      signature.name = Text(fmt::format("kernel_{}", Uniform(0, 5)));
      signature.framework_op = Chance(&rng_, 0.8) ? Text("aten::mm") : StringId(0);
      for (size_t axis = 0; axis < 3; ++axis) {
        signature.grid[axis] = static_cast<uint32_t>(Uniform(1, 500));
        signature.block[axis] = static_cast<uint32_t>(Uniform(1, 64));
      }
      if (Chance(&rng_, 0.4)) {
        signature.matmul = {.m = Uniform(1, 4096),
                            .n = Uniform(1, 4096),
                            .k = Uniform(1, 4096),
                            .batch = Uniform(1, 4),
                            .input = DataType::kBfloat16,
                            .output = DataType::kFloat32,
                            .transpose_a = Chance(&rng_, 0.5),
                            .transpose_b = Chance(&rng_, 0.5)};
      }
      for (int64_t input = Uniform(0, 3); input > 0; --input) {
        graph::TensorShape shape{.dtype = DataType::kBfloat16, .dims = {}};
        for (int64_t dim = Uniform(0, 4); dim > 0; --dim) {
          shape.dims.push_back(Uniform(1, 2048));
        }
        signature.inputs.push_back(std::move(shape));
      }
      Intern(signature, &graph_.signatures);
    }
  }

  void DrawFamilies() {
    for (int32_t index = 0; index < options_.families; ++index) {
      Family family;
      for (int32_t base = 0; base < options_.base_ranks; ++base) {
        if (Chance(&rng_, 0.6)) {
          family.base.push_back(base);
        }
      }
      if (family.base.empty()) {
        family.base.push_back(static_cast<int32_t>(Uniform(0, options_.base_ranks - 1)));
      }
      family.across = Chance(&rng_, 0.4);
      families_.push_back(std::move(family));
    }
  }

  void DrawEvent() {
    const double draw = rng_.UniformReal();
    if (draw < 0.2 && !families_.empty()) {
      DrawCollective();
    } else if (draw < 0.35 && !families_.empty()) {
      DrawExchange();
    } else {
      DrawLocal(&ranks_[static_cast<size_t>(Uniform(0, options_.base_ranks - 1))]);
    }
  }

  // A batch that is loaded before everything else: work that the host waits for.
  void DrawFront(BaseRank* rank) {
    for (int64_t waits = options_.fronts ? Uniform(0, 3) : 0; waits > 0; --waits) {
      Chance(&rng_, 0.7) ? DrawKernel(rank) : DrawCopy(rank);
      if (Chance(&rng_, 0.2)) {
        rank->Append({.kind = OpKind::kDeviceSync});
      } else if (Chance(&rng_, 0.4)) {
        rank->Append({.kind = OpKind::kStreamSync, .stream = AnyStream()});
      } else {
        rank->Append({.kind = OpKind::kEventRecord, .stream = AnyStream()});
        rank->Append({.kind = OpKind::kEventSync, .dep = rank->program.size() - 1});
      }
    }
  }

  void DrawLocal(BaseRank* rank) {
    switch (Uniform(0, 11)) {
      case 0:
        rank->Append({.kind = OpKind::kHostGap, .value = Uniform(0, 50'000)});
        return;
      case 1:
        return DrawCopy(rank);
      case 2:
        return DrawSegment(rank);
      case 3:
        return DrawMarker(rank);
      case 4:
        rank->events.push_back(rank->program.size());
        rank->Append({.kind = OpKind::kEventRecord, .stream = AnyStream()});
        return;
      case 5:
        return DrawEventWait(rank);
      case 6:
        rank->Append({.kind = OpKind::kStreamSync, .stream = AnyStream()});
        return;
      case 7:
        if (Chance(&rng_, 0.3)) {
          rank->Append({.kind = OpKind::kDeviceSync});
        }
        return;
      default:
        return DrawKernel(rank);
    }
  }

  void DrawKernel(BaseRank* rank) {
    graph::OpRow op{.kind = OpKind::kKernel,
                    .stream = AnyStream(),
                    .signature = static_cast<uint32_t>(
                        Uniform(0, static_cast<int64_t>(graph_.signatures.size()) - 1))};
    if (!options_.modelled_kernels || Chance(&rng_, 0.3)) {
      op.flags = graph::kDurationFixed;
      op.value = Uniform(0, 100'000);
    }
    if (Chance(&rng_, 0.2)) {
      op.flags |= graph::kLaunchedWithPrevious;
    }
    rank->Append(op);
  }

  void DrawCopy(BaseRank* rank) {
    constexpr std::array<uint8_t, 3> kDirections = {0, graph::kHostToDevice, graph::kDeviceToHost};
    if (Chance(&rng_, 0.5)) {
      rank->Append(
          {.kind = OpKind::kMemset, .stream = AnyStream(), .value = Uniform(1, int64_t{1} << 30U)});
      return;
    }
    rank->Append({.kind = OpKind::kMemcpy,
                  .flags = kDirections.at(static_cast<size_t>(Uniform(0, 2))),
                  .stream = AnyStream(),
                  .value = Uniform(1, int64_t{1} << 30U)});
  }

  void DrawSegment(BaseRank* rank) {
    if (rank->segments.empty() || Chance(&rng_, 0.6)) {
      rank->segments.push_back(Uniform(1, 512) << 21U);
      rank->Append({.kind = OpKind::kSegmentAlloc, .value = rank->segments.back()});
      return;
    }
    rank->Append({.kind = OpKind::kSegmentFree, .value = rank->segments.back()});
    rank->segments.pop_back();
  }

  void DrawMarker(BaseRank* rank) {
    if (rank->markers.empty() || Chance(&rng_, 0.5)) {
      const StringId name = Text(fmt::format("layer {}", Uniform(0, 7)));
      rank->markers.push_back(name.value());
      rank->Append({.kind = OpKind::kMarker,
                    .flags = graph::kMarkerBegin,
                    .signature = rank->markers.back()});
      return;
    }
    CloseMarker(rank);
  }

  static void CloseMarker(BaseRank* rank) {
    rank->Append(
        {.kind = OpKind::kMarker, .flags = graph::kMarkerEnd, .signature = rank->markers.back()});
    rank->markers.pop_back();
  }

  void DrawEventWait(BaseRank* rank) {
    const bool earlier_iteration = rank->events.empty() || Chance(&rng_, 0.1);
    const uint32_t dep = earlier_iteration ? graph::kNoDep : Pick(rank->events);
    if (Chance(&rng_, 0.7)) {
      rank->Append({.kind = OpKind::kEventWait, .stream = AnyStream(), .dep = dep});
    } else {
      rank->Append({.kind = OpKind::kEventSync, .dep = dep});
    }
  }

  CollectiveShape DrawShape(const Family& family) {
    CollectiveShape shape;
    shape.kind = static_cast<graph::CollectiveKind>(Uniform(0, 7));
    shape.dtype = Chance(&rng_, 0.5) ? DataType::kBfloat16 : DataType::kFloat32;
    const auto members = static_cast<int64_t>(family.base.size()) *
                         (family.across ? int64_t{options_.copies} : int64_t{1});
    switch (shape.kind) {
      case graph::CollectiveKind::kBroadcast:
      case graph::CollectiveKind::kReduce:
      case graph::CollectiveKind::kGather:
      case graph::CollectiveKind::kScatter:
        shape.root = static_cast<int32_t>(Uniform(0, members - 1));
        break;
      default:
        shape.reduce = graph::ReduceOp::kSum;
        break;
    }
    // A whole number of elements for every member.
    shape.bytes = members * 4 * Uniform(1, int64_t{1} << Uniform(0, 22));
    return shape;
  }

  // All members issue the collective at this point of the schedule, each on a stream of its choice;
  // some are issued as a group of up to three, of the same or of different families.
  void DrawCollective() {
    std::vector<int32_t> drawn = {UpTo(options_.families - 1)};
    if (options_.grouped && Chance(&rng_, 0.15)) {
      drawn.push_back(drawn.front());
    } else if (options_.grouped && Chance(&rng_, 0.15)) {
      drawn.push_back(UpTo(options_.families - 1));
      drawn.push_back(UpTo(options_.families - 1));
    }
    std::vector<CollectiveShape> shapes;
    for (const int32_t index : drawn) {
      shapes.push_back(DrawShape(families_[static_cast<size_t>(index)]));
    }
    for (int32_t base = 0; base < options_.base_ranks; ++base) {
      IssueCollectives(base, drawn, shapes);
    }
  }

  // Those of the families that the base rank is in, on one stream.
  void IssueCollectives(int32_t base,
                        const std::vector<int32_t>& drawn,
                        const std::vector<CollectiveShape>& shapes) {
    BaseRank& rank = ranks_[static_cast<size_t>(base)];
    const uint16_t stream = AnyStream();
    uint32_t last = graph::kNoDep;
    for (size_t i = 0; i < drawn.size(); ++i) {
      const std::vector<int32_t>& members = families_[static_cast<size_t>(drawn[i])].base;
      if (std::find(members.begin(), members.end(), base) == members.end()) {
        continue;
      }
      if (last != graph::kNoDep) {
        rank.program.flags[last] |= graph::kGroupedWithNext;
      }
      last = rank.program.size();
      rank.Append({.kind = OpKind::kCollective,
                   .stream = stream,
                   .comm_slot = rank.CommSlot(drawn[i]),
                   .signature = Intern(shapes[i], &rank.program.collectives)});
    }
  }

  // Some members of a family exchange messages; each rank issues all of its own in one group.
  void DrawExchange() {
    const auto index = static_cast<int32_t>(Uniform(0, options_.families - 1));
    const Family& family = families_[static_cast<size_t>(index)];
    std::vector<PeerGroup> groups(ranks_.size());
    for (int64_t message = Uniform(1, 3); message > 0; --message) {
      const int32_t source = Pick(family.base);
      const int32_t target = Pick(family.base);
      // If the family spans the copies, messages also go from copy to copy, between ranks of one
      // role.
      const int32_t shift = family.across && Chance(&rng_, 0.7) ? UpTo(options_.copies - 1) : 0;
      if (source == target && shift == 0) {
        continue;
      }
      const int64_t bytes = Uniform(1, int64_t{1} << Uniform(0, 26));
      for (const bool is_send : {true, false}) {
        const int32_t self = is_send ? source : target;
        BaseRank& rank = ranks_[static_cast<size_t>(self)];
        groups[static_cast<size_t>(self)].transfers.push_back(
            {.is_send = is_send,
             .comm_slot = rank.CommSlot(index),
             .peer_slot =
                 rank.PeerSlot(is_send ? Peer{target, shift}
                                       : Peer{source, (options_.copies - shift) % options_.copies}),
             .bytes = bytes});
      }
    }
    for (size_t base = 0; base < ranks_.size(); ++base) {
      if (!groups[base].transfers.empty()) {
        BaseRank& rank = ranks_[base];
        rank.Append({.kind = OpKind::kPeerGroup,
                     .stream = AnyStream(),
                     .signature = Intern(groups[base], &rank.program.peer_groups)});
      }
    }
  }

  // Programs → graph of all copies.
  void Assemble() {
    graph_.job.name = "random";
    graph_.job.user_program = true;
    graph_.job.parallel = {.tp = options_.base_ranks, .dp = options_.copies};
    graph_.job.seed = options_.seed;
    graph_.cluster.name = "random";
    graph_.cluster.gpu.name = "NVIDIA Random";
    graph_.cluster.parameters = graph::ParameterTable(
        {{.key = "gpu.peak", .value = rng_.UniformReal(), .unit = "FLOP/s", .source = "drawn"}});
    AddCommunicators();
    AddRanks();
    for (size_t base = 0; base < ranks_.size(); ++base) {
      AddRole(base);
    }
    graph_.warnings.push_back({.code = "drawn", .count = Uniform(1, 9), .example = "a\xFF\n"});
    graph_.assumptions.emplace_back("durations are drawn");
    graph_.sandbox_ranks = {Rank(0)};
  }

  void AddCommunicators() {
    graph::CommunicatorTable& table = graph_.communicators;
    for (size_t index = 0; index < families_.size(); ++index) {
      const Family& family = families_[index];
      first_comm_.push_back(table.size());
      const StringId name = Text(fmt::format("family {}", index));
      for (int32_t copy = 0; copy < options_.copies; ++copy) {
        for (const int32_t base : family.base) {
          table.members.push_back(static_cast<uint32_t>(base + options_.base_ranks * copy));
        }
        if (!family.across || copy + 1 == options_.copies) {
          table.begin.push_back(static_cast<uint32_t>(table.members.size()));
          table.name.push_back(name.value());
        }
      }
    }
  }

  void AddRanks() {
    graph::RankTable& table = graph_.ranks;
    table.comm_begin = {0};
    table.peer_begin = {0};
    for (int32_t copy = 0; copy < options_.copies; ++copy) {
      for (int32_t base = 0; base < options_.base_ranks; ++base) {
        const BaseRank& rank = ranks_[static_cast<size_t>(base)];
        table.role.push_back(static_cast<uint32_t>(base));
        table.source.push_back(copy > 0    ? graph::RankSource::kRole
                               : base == 0 ? graph::RankSource::kSandbox
                                           : graph::RankSource::kRecorded);
        for (const int32_t index : rank.families) {
          const auto family = static_cast<size_t>(index);
          table.comm_ids.push_back(first_comm_[family] +
                                   (families_[family].across ? 0 : static_cast<uint32_t>(copy)));
        }
        for (const Peer& peer : rank.peers) {
          const int32_t of_copy = (copy + peer.shift) % options_.copies;
          table.peer_ids.push_back(
              static_cast<uint32_t>(peer.base + options_.base_ranks * of_copy));
        }
        table.comm_begin.push_back(static_cast<uint32_t>(table.comm_ids.size()));
        table.peer_begin.push_back(static_cast<uint32_t>(table.peer_ids.size()));
      }
    }
  }

  void AddRole(size_t base) {
    BaseRank& rank = ranks_[base];
    rank.program.comm_slot_count = static_cast<uint16_t>(rank.families.size());
    rank.program.peer_slot_count = static_cast<uint16_t>(rank.peers.size());
    graph::Role role;
    role.name = fmt::format("role {}", base);
    role.stage = static_cast<int32_t>(base % 3);
    role.representative = Rank(static_cast<uint32_t>(base));
    role.program = std::move(rank.program);
    const int64_t allocated = Uniform(1, int64_t{1} << 36U);
    role.memory = {.peak_allocated = allocated,
                   .peak_reserved = allocated + Uniform(0, int64_t{1} << 30U),
                   .steady_allocated = allocated / 2,
                   .at_peak = {{.name = "parameters", .bytes = allocated}},
                   .outside = {{.name = "context",
                                .bytes = Uniform(0, int64_t{1} << 29U),
                                .mark = graph::Mark::kAssumed}},
                   .peak_op = "aten::mm",
                   .peak_phase = "iteration/backward",
                   .layout_hash = rng_.Next()};
    graph_.roles.push_back(std::move(role));
  }

  RandomGraphOptions options_;
  Rng rng_;
  std::vector<BaseRank> ranks_;
  std::vector<Family> families_;
  std::vector<uint32_t> first_comm_;  // first communicator of each family
  Graph graph_;
};

}  // namespace

Graph RandomGraph(const RandomGraphOptions& options) {
  return Schedule(options).Draw();
}

RandomGraphOptions RandomOptions(uint64_t seed) {
  Rng rng(seed, "random graph options");
  RandomGraphOptions options;
  options.seed = seed;
  options.base_ranks = static_cast<int32_t>(rng.UniformInt(1, 6));
  options.copies = static_cast<int32_t>(rng.UniformInt(1, 4));
  options.events = static_cast<int32_t>(rng.UniformInt(0, 300));
  options.streams = static_cast<int32_t>(rng.UniformInt(1, 4));
  options.families = static_cast<int32_t>(rng.UniformInt(0, 5));
  options.modelled_kernels = Chance(&rng, 0.5);
  options.grouped = Chance(&rng, 0.5);
  options.fronts = Chance(&rng, 0.3);
  return options;
}

}  // namespace prism::testing
