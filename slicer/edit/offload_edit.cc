// OffloadOptimizer and OffloadActivations (slicer/edit/edit_steps.h): which pieces of a role's
// program live in host memory, and how much device memory that frees. When pieces move is
// graph/job/offload.h's rule, the copies themselves are slicer/edit/offload_parts.h's, both shared
// with synthesised jobs. Two offload edits of one role share its pair of copy streams, because they
// share the link.
#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "graph/base/units.h"
#include "slicer/edit/edit_steps.h"
#include "slicer/edit/offload_parts.h"
#include "slicer/edit/program_rewriter.h"

namespace prism::slicer {
namespace {

// Streams that the program did not have before it was offloaded.
CopyStreams StreamsOf(uint32_t role, uint16_t compute, EditedGraph* edited) {
  const uint16_t next = edited->graph.roles[role].program.stream_count;
  const OffloadStreams streams =
      edited->offload_streams
          .try_emplace(role, OffloadStreams{next, static_cast<uint16_t>(next + 1)})
          .first->second;
  return {.compute = compute, .in = streams.in, .out = streams.out};
}

int64_t ActivationBytes(const graph::MemoryProfile& memory) {
  for (const graph::MemoryClass& part : memory.at_peak) {
    if (part.name == "activations") {
      return part.bytes;
    }
  }
  return 0;
}

}  // namespace

Status OffloadOptimizer(const OffloadEdit& edit, EditedGraph* edited) {
  int64_t most = 0;
  std::string memory;
  for (uint32_t r = 0; r < edited->graph.roles.size(); ++r) {
    graph::Role& role = edited->graph.roles[r];
    const OffloadParts pieces = StateParts(KernelTables(edited->graph), role.program);
    if (pieces.empty()) {
      continue;
    }
    const int64_t all = pieces.TotalBytes();
    if (all > most) {
      most = all;
      memory = fmt::format(
          "offload of optimizer states: {} of a rank of role '{}' in host memory, {} of them on "
          "the device at a time",
          FormatBytes(all), role.name, FormatBytes(pieces.LargestBytes(edit.prefetch)));
    }
    const CopyStreams streams =
        StreamsOf(r, role.program.stream[pieces.ranges.front().begin], edited);
    role.program = WithCopies(role.program, pieces, edit.prefetch, streams);
  }
  if (most == 0) {
    return InvalidArgument(
        "no optimizer states to offload were recognised; supported are fused Adam, AdamW, SGD with "
        "momentum, Adagrad and Lion, and Adam over lists of tensors (foreach), if the graph has "
        "their tensors or grids");
  }
  edited->assumptions.push_back(StatesRule(edit.prefetch));
  edited->memory.push_back(std::move(memory));
  return OkStatus();
}

Status OffloadActivations(const OffloadEdit& edit, EditedGraph* edited) {
  int64_t most = 0;
  std::string memory;
  int64_t layer = 0;
  for (uint32_t r = 0; r < edited->graph.roles.size(); ++r) {
    graph::Role& role = edited->graph.roles[r];
    const ProgramPasses passes = PassesOf(edited->graph, role.program);
    OffloadParts layers = ActivationParts(passes.spans, 0);
    if (layers.empty()) {
      continue;
    }
    const int64_t alive = layers.alive;
    const int64_t bytes =
        edit.layer_bytes > 0 ? edit.layer_bytes : ActivationBytes(role.memory) / alive;
    if (bytes == 0) {
      return InvalidArgument(
          "offload of activations: the graph does not say how large they are; add bytes = N, per "
          "layer and micro-batch");
    }
    const int64_t left = std::min(alive, edit.prefetch + 2);
    if ((alive - left) * bytes >= most) {
      most = (alive - left) * bytes;
      layer = bytes;
      memory = fmt::format(
          "offload of activations: of {} layers and micro-batches kept at once on a rank of role "
          "'{}', {} stay on the device: {} instead of {}",
          alive, role.name, left, FormatBytes(left * bytes), FormatBytes(alive * bytes));
    }
    std::ranges::fill(layers.bytes, bytes);
    const CopyStreams streams = StreamsOf(r, ComputeStream(role.program), edited);
    role.program = WithCopies(role.program, layers, edit.prefetch, streams);
  }
  if (memory.empty()) {
    return InvalidArgument(
        "offload of activations needs a program that marks its layers in forward and backward "
        "passes, which this one does not");
  }
  const std::string what = fmt::format("{} of a layer and micro-batch {}", FormatBytes(layer),
                                       edit.layer_bytes > 0 ? fmt::format("({})", edit.layer_source)
                                                            : "(its share of those at the peak)");
  edited->assumptions.push_back(ActivationsRule(what, edit.prefetch));
  edited->memory.push_back(std::move(memory));
  return OkStatus();
}

}  // namespace prism::slicer
