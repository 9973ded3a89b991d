// Edits of a graph that need a different program: what-if questions that no change of durations
// answers. Each is a pure function of graph and edit; a list of them is applied one after the
// other, each to the result of the one before.
//
//   overlap   whether compute waits for a communicator's collectives where they are issued
//   buckets   consecutive collectives of one communicator and kind merged, or split
//   recompute what the backward pass computes again is kept instead
//   optimizer the kernels of another optimizer's update
//   offload   optimizer states or activations in host memory, with their copies
//
// The result is a graph as if recorded, except for what EditedGraph::assumptions lists. It is not
// validated here: an edit that makes ranks contradict each other or wait in a circle yields a graph
// that graph/validate/validate.h refuses.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"

namespace prism::slicer {

// Collectives of communicators of one name.
struct CollectiveChoice {
  std::string communicator;
  std::optional<graph::CollectiveKind> kind;  // nothing: all
};

// Off: the compute stream waits for every such collective where it is issued. On: such waits are
// removed if a later wait for the same call shows that the program waits for the result anyway; the
// assumptions say how many have no later wait and so remain.
struct OverlapEdit {
  CollectiveChoice of;
  bool overlap = false;
};

// Exactly one is above 0.
struct BucketEdit {
  CollectiveChoice of;
  int64_t merge = 0;  // that many consecutive ones become one
  int64_t split = 0;  // each becomes that many
  int64_t bytes = 0;  // merged up to this size, split above it
};

// Removes the kernels of the backward pass that repeat the forward pass. `layer`: pattern (* any
// text, ? one character) for the markers of the layers to change.
struct RecomputeEdit {
  std::string layer = "*";
  int64_t layer_bytes = 0;  // activations kept in addition per layer and micro-batch; 0: not known
};

enum class OptimizerKind : uint8_t { kAdam, kSgd, kSgdMomentum, kLion, kLamb, kAdafactor, kMuon };

inline constexpr OptimizerKind kOptimizerKinds[] = {
    OptimizerKind::kAdam, OptimizerKind::kSgd,  OptimizerKind::kSgdMomentum,
    OptimizerKind::kLion, OptimizerKind::kLamb, OptimizerKind::kAdafactor,
    OptimizerKind::kMuon};

const char* OptimizerName(OptimizerKind kind);  // "adam", "sgd", "sgd_momentum", ...

struct OptimizerEdit {
  OptimizerKind kind = OptimizerKind::kAdam;
};

// One of graph::Offload's at a time: an edits file has one table for each.
enum class OffloadKind : uint8_t { kOptimizer, kActivations };

// Optimizer states are copied in before the update that needs them and out after it; activations
// are copied out after the forward pass and in before the backward pass of their layer. `prefetch`:
// how many pieces ahead.
struct OffloadEdit {
  OffloadKind kind = OffloadKind::kOptimizer;
  int64_t prefetch = 1;
  int64_t layer_bytes = 0;  // activations of a layer and micro-batch; 0: from the rank's memory
  std::string layer_source = "stated";  // who says so
};

using ProgramEditStep =
    std::variant<OverlapEdit, BucketEdit, RecomputeEdit, OptimizerEdit, OffloadEdit>;

// Streams of offload edits, one per direction.
struct OffloadStreams {
  uint16_t in = 0;
  uint16_t out = 0;
};

struct EditedGraph {
  graph::Graph graph;
  std::map<uint32_t, OffloadStreams> offload_streams;  // by role: all offloads share the link
  std::set<OffloadKind> offloaded;
  std::vector<std::string> assumptions;  // one line each: what the edits assume
  std::vector<std::string> memory;       // one line per edit: what it does to device memory
};

// kInvalidArgument if an edit finds nothing to change, or cannot be shown to be legal.
Result<EditedGraph> ApplyProgramEdits(const graph::Graph& graph,
                                      const std::vector<ProgramEditStep>& steps);

}  // namespace prism::slicer
