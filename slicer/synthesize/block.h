// What the writers of kernel content (slicer/synthesize/blocks/) pass to the writers of schedules
// and data parallelism (slicer/synthesize/): programs with the points at which gradients become
// complete, and the tables they share.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/job/unit_parameters.h"
#include "graph/program/job_program.h"
#include "graph/program/rank_shape.h"

namespace prism::slicer {

using graph::RankShape;

// Before op `op` of a backward block (which may be its size) one more contribution to the gradient
// of parameter `parameter` (index into the block's parameters) has been issued: a point at which
// data parallelism may reduce.
struct GradientReady {
  uint32_t op = 0;
  uint32_t parameter = 0;
  bool may_cut = false;  // the program may be cut there (graph/program/program_cuts.h)
};

struct Block {
  graph::Program program;            // as graph/program/job_program.h reads it
  std::vector<GradientReady> ready;  // by op, ascending; backward blocks only
};

// The three kinds of unit that a model chunk consists of, each with the parameters that it
// declares.
enum class UnitKind : uint8_t { kEmbedding, kLayer, kHead };

// One unit in both directions, without the markers and messages around it, on the streams and group
// axes of job_program.h. Its work on kStageComputeStream is ordered; other streams are waited for
// inside. Head: final norm, logits, loss up to the mean over the micro-batch's tokens; its backward
// begins with the gradient of the loss. If the first and the last chunk are the same and embeddings
// are tied, the head's tied parameter is the embedding's (not declared again).
struct UnitBlocks {
  graph::UnitParameters parameters;
  Block forward;
  Block backward;  // recomputation included
  // Zero-bubble schedules only: backward in two halves, input gradients and weight gradients.
  Block backward_input;
  Block backward_weight;
};

// Strings and kernel signatures of a JobProgram under construction. Writers of blocks intern here.
class BlockTables {
 public:
  BlockTables();

  uint32_t InternString(std::string_view text);
  uint32_t InternSignature(graph::KernelSignature signature);  // ids of InternString

  // As JobAssembly.
  void MoveInto(graph::JobProgram* program);
  void MoveFrom(graph::JobProgram* program);

  [[nodiscard]] const std::vector<std::string>& strings() const { return strings_; }
  [[nodiscard]] const std::vector<graph::KernelSignature>& signatures() const {
    return signatures_;
  }

 private:
  struct TextHash {
    using is_transparent = void;

    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  std::vector<std::string> strings_;
  std::unordered_map<std::string, uint32_t, TextHash, std::equal_to<>>
      string_ids_;  // never iterated
  std::vector<graph::KernelSignature> signatures_;
  std::unordered_multimap<uint64_t, uint32_t> signature_ids_;  // by hash of the content
};

}  // namespace prism::slicer
