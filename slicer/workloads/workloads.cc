#include "slicer/workloads/workloads.h"

#include <array>
#include <functional>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/job/rank_grid.h"
#include "slicer/plan.h"
#include "slicer/stitch/stitch.h"
#include "slicer/workloads/gpt3.h"
#include "slicer/workloads/kernel_time.h"
#include "slicer/workloads/program_builder.h"

namespace prism::slicer {
namespace {

using graph::CollectiveKind;
using graph::RankGrid;
using graph::ReduceOp;

constexpr uint16_t kCompute = 0;
constexpr uint16_t kCommunication = 1;
constexpr uint16_t kStreams = 2;

std::vector<Rank> World(const RankGrid& grid) {
  std::vector<Rank> all;
  for (uint32_t rank = 0; rank < grid.world_size(); ++rank) {
    all.push_back(Rank(rank));
  }
  return all;
}

// Rank 0's program, instantiated over all ranks of a job with one role.
Result<graph::Graph> OneRole(const std::string& name,
                             const graph::ParallelSizes& sizes,
                             const std::function<void(ProgramBuilder&, const RankGrid&)>& emit) {
  graph::JobSpec job;
  job.name = name;
  job.user_program = true;
  job.parallel = sizes;
  job.global_batch_size = sizes.dp;
  PRISM_ASSIGN_OR_RETURN(SlicePlan plan, MakePlan(job, {.max_roles = 1, .spot_checks = 0}));
  ProgramBuilder builder(Rank(0), kStreams);
  builder.MarkerBegin("iteration");
  emit(builder, RankGrid::Of(job));
  builder.DeviceSync();
  builder.MarkerEnd("iteration");
  StitchInput input;
  input.job = std::move(job);
  input.plan = std::move(plan);
  input.fragments.push_back(builder.Finish());
  return Stitch(std::move(input));
}

graph::ParallelSizes OnlyDp(int32_t ranks) {
  graph::ParallelSizes sizes;
  sizes.dp = ranks;
  return sizes;
}

Result<graph::Graph> MakeRing(int32_t ranks) {
  constexpr int kSteps = 16;
  constexpr int64_t kMessage = int64_t{1} << 20;
  return OneRole("ring", OnlyDp(ranks), [](ProgramBuilder& builder, const RankGrid& grid) {
    const uint16_t comm = builder.CommSlot("world", World(grid));
    const uint16_t next = builder.PeerSlot(Rank(1));
    const uint16_t previous = builder.PeerSlot(Rank(grid.world_size() - 1));
    for (int step = 0; step < kSteps; ++step) {
      builder.Kernel(kCompute, "work", MemoryTime(8 * kMessage));
      builder.PeerGroup(kCompute,
                        {{{true, comm, next, kMessage}, {false, comm, previous, kMessage}}});
    }
  });
}

// Three factors as equal as possible, ascending.
std::array<int32_t, 3> Torus(int32_t ranks) {
  std::array<int32_t, 3> best = {1, 1, ranks};
  for (int32_t a = 1; int64_t{a} * a * a <= ranks; ++a) {
    if (ranks % a != 0) {
      continue;
    }
    for (int32_t b = a; int64_t{a} * b * b <= ranks; ++b) {
      if (ranks / a % b == 0 && ranks / a / b - a < best[2] - best[0]) {
        best = {a, b, ranks / a / b};
      }
    }
  }
  return best;
}

// Messages to and from both neighbours along each axis that has any.
graph::PeerGroup HaloExchange(ProgramBuilder& builder,
                              const RankGrid& grid,
                              uint16_t comm,
                              int64_t bytes) {
  graph::PeerGroup halo;
  for (size_t axis = 0; axis < grid.axes().size(); ++axis) {
    const int32_t size = grid.axes()[axis].size;
    if (size == 1) {
      continue;
    }
    const uint16_t above = builder.PeerSlot(grid.Moved(Rank(0), axis, 1));
    const uint16_t below = builder.PeerSlot(grid.Moved(Rank(0), axis, size - 1));
    halo.transfers.push_back({true, comm, above, bytes});
    halo.transfers.push_back({false, comm, below, bytes});
    halo.transfers.push_back({true, comm, below, bytes});
    halo.transfers.push_back({false, comm, above, bytes});
  }
  return halo;
}

Result<graph::Graph> MakeStencil(int32_t ranks) {
  constexpr int kSteps = 8;
  constexpr int64_t kFace = 256 * 256 * 8;  // one face of 256³ doubles
  const std::array<int32_t, 3> torus = Torus(ranks);
  graph::ParallelSizes sizes;
  sizes.tp = torus[0];
  sizes.cp = torus[1];
  sizes.dp = torus[2];
  return OneRole("stencil", sizes, [](ProgramBuilder& builder, const RankGrid& grid) {
    const uint16_t comm = builder.CommSlot("world", World(grid));
    const graph::PeerGroup halo = HaloExchange(builder, grid, comm, kFace);
    for (int step = 0; step < kSteps; ++step) {
      builder.PeerGroup(kCompute, halo);
      builder.Kernel(kCompute, "stencil", MemoryTime(2 * 256 * kFace));
      builder.Collective(kCompute, comm,
                         {CollectiveKind::kAllReduce, DataType::kFloat64, ReduceOp::kMax, -1, 8});
    }
  });
}

// Gradients of one layer over a ring, as messages: every step passes a part on and adds or copies
// what arrived.
void RingReduce(ProgramBuilder& builder, const graph::PeerGroup& step, int32_t ring) {
  for (int32_t i = 0; i < 2 * (ring - 1); ++i) {
    builder.PeerGroup(kCommunication, step);
    builder.Kernel(kCommunication, i < ring - 1 ? "reduce" : "copy",
                   MemoryTime(3 * step.transfers.front().bytes));
  }
}

Result<graph::Graph> MakeLlm(int32_t ranks) {
  constexpr int kPlainLayers = 32;
  constexpr double kTokens = 8192;
  constexpr double kLayerParameters = 218e6;  // of an 8B model
  constexpr int32_t kRing = 16;
  graph::ParallelSizes sizes;
  sizes.tp = std::gcd(ranks, kRing);  // neighbours of the ring are adjacent ranks
  sizes.dp = ranks / sizes.tp;
  return OneRole("llm", sizes, [](ProgramBuilder& builder, const RankGrid& grid) {
    constexpr size_t kTensorAxis = 0;
    const int32_t ring = grid.axes()[kTensorAxis].size;
    graph::PeerGroup step;
    if (ring > 1) {
      const Rank up = grid.Moved(Rank(0), kTensorAxis, 1);
      const Rank down = grid.Moved(Rank(0), kTensorAxis, ring - 1);
      const uint16_t comm = builder.CommSlot("world", World(grid));
      const auto part = static_cast<int64_t>(2 * kLayerParameters / ring);
      step.transfers.push_back({true, comm, builder.PeerSlot(up), part});
      step.transfers.push_back({false, comm, builder.PeerSlot(down), part});
    }
    for (int layer = 0; layer < kPlainLayers; ++layer) {
      builder.Kernel(kCompute, "forward", MatmulTime(2 * kLayerParameters * kTokens));
    }
    for (int layer = 0; layer < kPlainLayers; ++layer) {
      builder.Kernel(kCompute, "backward", MatmulTime(4 * kLayerParameters * kTokens));
      builder.Order(kCompute, kCommunication);
      RingReduce(builder, step, ring);
    }
    builder.Order(kCommunication, kCompute);
    builder.Kernel(kCompute, "adam",
                   MemoryTime(static_cast<int64_t>(28 * kPlainLayers * kLayerParameters)));
  });
}

Result<graph::Graph> MakeAstra(int32_t ranks) {
  constexpr int kPlainLayers = 70;
  constexpr DurationNs kForward = 100 * kNsPerUs;
  constexpr int64_t kGradients = int64_t{4} << 20U;
  return OneRole("astra", OnlyDp(ranks), [](ProgramBuilder& builder, const RankGrid& grid) {
    const uint16_t all = builder.CommSlot("all", World(grid));
    for (int layer = 0; layer < kPlainLayers; ++layer) {
      builder.Kernel(kCompute, "forward", kForward);
    }
    for (int layer = 0; layer < kPlainLayers; ++layer) {
      builder.Kernel(kCompute, "backward", 2 * kForward);
      builder.Order(kCompute, kCommunication);
      builder.Collective(
          kCommunication, all,
          {CollectiveKind::kAllReduce, DataType::kFloat32, ReduceOp::kSum, -1, kGradients});
    }
  });
}

Result<graph::Graph> MakeDlrm(int32_t ranks) {
  constexpr int kMlpLayers = 8;
  constexpr int64_t kBatch = 4096;                    // samples a rank
  constexpr int64_t kPooled = kBatch * 64 * 128 * 2;  // 64 tables of 128 columns in half precision
  constexpr int64_t kDense = 40'000'000;              // bytes of dense gradients
  return OneRole("dlrm", OnlyDp(ranks), [](ProgramBuilder& builder, const RankGrid& grid) {
    const uint16_t comm = builder.CommSlot("world", World(grid));
    const graph::CollectiveShape exchange = {CollectiveKind::kAllToAll, DataType::kFloat16,
                                             ReduceOp::kNone, -1, kPooled};
    const graph::MatmulShape mlp = {1024, kBatch, 1024, 1, DataType::kFloat16, DataType::kFloat16,
                                    true, false};
    const auto dense = [&](int64_t repeat) {
      for (int64_t i = 0; i < repeat * kMlpLayers; ++i) {
        builder.Kernel(kCompute, "gemm", MatmulTime(mlp), mlp);
      }
    };
    builder.Kernel(kCompute, "embedding_lookup", MemoryTime(kPooled * 4));
    builder.Order(kCompute, kCommunication);
    builder.Collective(kCommunication, comm, exchange);
    dense(1);  // the bottom network beside the exchange
    builder.Order(kCommunication, kCompute);
    builder.Kernel(kCompute, "interaction", MemoryTime(3 * kPooled));
    dense(3);  // the top network, both ways
    builder.Kernel(kCompute, "interaction_backward", MemoryTime(3 * kPooled));
    builder.Order(kCompute, kCommunication);
    builder.Collective(kCommunication, comm, exchange);
    dense(2);
    builder.Order(kCompute, kCommunication);
    builder.Collective(
        kCommunication, comm,
        {CollectiveKind::kAllReduce, DataType::kFloat32, ReduceOp::kSum, -1, kDense});
    builder.Order(kCommunication, kCompute);
    builder.Kernel(kCompute, "embedding_update", MemoryTime(kPooled * 8));
  });
}

}  // namespace

const std::vector<std::string>& WorkloadNames() {
  static const std::vector<std::string> kNames = {"ring",  "stencil",    "llm",        "dlrm",
                                                  "astra", "gpt3-layer", "gpt3-kernel"};
  return kNames;
}

Result<graph::Graph> MakeWorkload(std::string_view name, int32_t ranks) {
  if (ranks < 2) {
    return InvalidArgument(fmt::format("workload {} needs at least 2 ranks, not {}", name, ranks));
  }
  if (name == "ring") {
    return MakeRing(ranks);
  }
  if (name == "stencil") {
    return MakeStencil(ranks);
  }
  if (name == "llm") {
    return MakeLlm(ranks);
  }
  if (name == "dlrm") {
    return MakeDlrm(ranks);
  }
  if (name == "astra") {
    return MakeAstra(ranks);
  }
  if (name == "gpt3-layer") {
    return MakeGpt3(Gpt3Detail::kLayer, ranks);
  }
  if (name == "gpt3-kernel") {
    return MakeGpt3(Gpt3Detail::kKernel, ranks);
  }
  return InvalidArgument(
      fmt::format("unknown workload {}; choose one of {}", name, fmt::join(WorkloadNames(), ", ")));
}

}  // namespace prism::slicer
