#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "graph/base/check.h"
#include "graph/base/units.h"
#include "slicer/edit/edit_steps.h"
#include "slicer/edit/optimizer_calls.h"
#include "slicer/edit/program_passes.h"
#include "slicer/edit/program_rewriter.h"

namespace prism::slicer {
namespace {

using graph::OpKind;
using graph::Program;

constexpr uint32_t kNone = graph::kNoDep;
constexpr const char* kCopiesAssumed =
    "copies run on two streams of their own, one a direction, out of pinned memory at the "
    "cluster's "
    "gpu.copy_bytes_per_s";

// Pieces that live in host memory, in the order in which they are needed on the device: copied in
// before, at most `prefetch` ahead of the one in use, and out again behind it.
class PieceCopies {
 public:
  PieceCopies(int64_t prefetch, uint16_t compute, ProgramRewriter* rewriter)
      : prefetch_(static_cast<size_t>(prefetch)),
        compute_(compute),
        rewriter_(rewriter),
        in_(rewriter->NewStream()),
        out_(rewriter->NewStream()) {}

  // From device to host, behind what the compute stream holds; returns the event of its end.
  uint32_t Out(int64_t bytes) {
    const uint32_t produced = rewriter_->Record(compute_);
    rewriter_->Wait(out_, produced);
    Copy(out_, bytes, graph::kDeviceToHost);
    return rewriter_->Record(out_);
  }

  // The other way, once the host has it (`there`) and a buffer is free, which it is when the use of
  // the piece `prefetch` + 1 before has ended.
  void Fetch(int64_t bytes, uint32_t there) {
    if (there != kNone) {
      rewriter_->Wait(in_, there);
    }
    const size_t piece = fetched_.size();
    if (piece > prefetch_) {
      rewriter_->Wait(in_, freed_[piece - prefetch_ - 1]);
    }
    Copy(in_, bytes, graph::kHostToDevice);
    fetched_.push_back(rewriter_->Record(in_));
  }

  // Around the use of the next piece.
  void BeginUse() { rewriter_->Wait(compute_, fetched_[freed_.size()]); }
  void EndUse(uint32_t freed) { freed_.push_back(freed); }

  // Pieces whose buffers are free, or become so, by the time the next piece is used.
  [[nodiscard]] size_t Reach() const { return freed_.size() + prefetch_ + 1; }
  [[nodiscard]] size_t fetched() const { return fetched_.size(); }

 private:
  void Copy(uint16_t stream, int64_t bytes, uint8_t direction) {
    rewriter_->Add({.kind = OpKind::kMemcpy, .flags = direction, .stream = stream, .value = bytes});
  }

  size_t prefetch_;
  uint16_t compute_;
  ProgramRewriter* rewriter_;
  uint16_t in_;
  uint16_t out_;
  std::vector<uint32_t> fetched_;  // events by piece
  std::vector<uint32_t> freed_;
};

// States of one launch of an update.
struct StatePiece {
  uint32_t begin = 0;
  uint32_t end = 0;
  int64_t bytes = 0;
};

std::vector<StatePiece> StatePieces(const graph::Graph& graph, const Program& program) {
  std::vector<StatePiece> pieces;
  for (const OptimizerCall& call : FindOptimizerCalls(graph, program)) {
    if (call.moments == 0) {
      continue;
    }
    const auto bytes = static_cast<double>(call.StateBytes());
    for (size_t i = 0; i < call.launches.size(); ++i) {
      const uint32_t end = i + 1 < call.launches.size() ? call.launches[i + 1] : call.end;
      pieces.push_back({call.launches[i], end, static_cast<int64_t>(bytes * call.shares[i])});
    }
  }
  return pieces;
}

int64_t SumOf(const std::vector<StatePiece>& pieces) {
  return std::accumulate(pieces.begin(), pieces.end(), int64_t{0},
                         [](int64_t sum, const StatePiece& piece) { return sum + piece.bytes; });
}

// Bytes of the largest pieces that are on the device at once.
int64_t LargestOf(const std::vector<StatePiece>& pieces, int64_t prefetch) {
  int64_t most = 0;
  for (size_t first = 0; first < pieces.size(); ++first) {
    int64_t bytes = 0;
    for (size_t i = first; i < pieces.size() && i <= first + static_cast<size_t>(prefetch); ++i) {
      bytes += pieces[i].bytes;
    }
    most = std::max(most, bytes);
  }
  return most;
}

Program WithStatesOnHost(const Program& old,
                         const std::vector<StatePiece>& pieces,
                         int64_t prefetch) {
  ProgramRewriter rewriter(old);
  const uint16_t compute = old.stream[pieces.front().begin];
  PieceCopies copies(prefetch, compute, &rewriter);
  for (const StatePiece& piece : pieces) {
    while (rewriter.next() < piece.begin) {
      rewriter.Keep();
    }
    while (copies.fetched() < std::min(copies.Reach(), pieces.size())) {
      copies.Fetch(pieces[copies.fetched()].bytes, kNone);
    }
    copies.BeginUse();
    while (rewriter.next() < piece.end) {
      rewriter.Keep();
    }
    copies.EndUse(copies.Out(piece.bytes));
  }
  while (rewriter.next() < old.size()) {
    rewriter.Keep();
  }
  return rewriter.Finish();
}

// Layers of a program whose activations leave the device between forward and backward pass.
class RoleActivations {
 public:
  RoleActivations(const graph::Graph& graph, const Program& program)
      : program_(program), passes_(PassesOf(graph, program)) {
    std::map<std::string, uint32_t> forward;
    for (uint32_t s = 0; s < passes_.spans.size(); ++s) {
      const LayerSpan& span = passes_.spans[s];
      if (span.pass == Pass::kForward) {
        forward[span.key] = s;
        alive_ = std::max(alive_, ++now_);
      } else if (const auto found = forward.find(span.key); found != forward.end()) {
        backward_.push_back({s, found->second});
        --now_;
        forward.erase(found);
      }
    }
  }

  [[nodiscard]] bool empty() const { return backward_.empty(); }
  // Layers times micro-batches that wait for their backward pass at once, at most.
  [[nodiscard]] int64_t alive() const { return alive_; }

  Program Offload(int64_t bytes, int64_t prefetch) const {
    ProgramRewriter rewriter(program_);
    const uint16_t compute = ComputeStream(program_);
    PieceCopies copies(prefetch, compute, &rewriter);
    std::vector<bool> offloaded(passes_.spans.size());
    for (const Use& use : backward_) {
      offloaded[use.forward] = true;
    }
    std::map<uint32_t, uint32_t> there;  // by forward span: event of its copy out
    size_t used = 0;                     // of backward_
    for (uint32_t s = 0; s < passes_.spans.size(); ++s) {
      const LayerSpan& span = passes_.spans[s];
      const bool backward = used < backward_.size() && backward_[used].backward == s;
      KeepUntil(span.begin, &rewriter);
      if (backward) {
        FetchFor(used, bytes, there, &copies);
        copies.BeginUse();
      }
      if (!backward && !offloaded[s]) {
        continue;
      }
      KeepUntil(span.end, &rewriter);
      if (backward) {
        copies.EndUse(rewriter.Record(compute));
        ++used;
      } else {
        there[s] = copies.Out(bytes);
      }
    }
    KeepUntil(program_.size(), &rewriter);
    return rewriter.Finish();
  }

 private:
  struct Use {
    uint32_t backward = 0;  // spans
    uint32_t forward = 0;
  };

  static void KeepUntil(uint32_t op, ProgramRewriter* rewriter) {
    while (rewriter->next() < op) {
      rewriter->Keep();
    }
  }

  // Ahead of use `used`, as far as forward passes have been issued.
  void FetchFor(size_t used,
                int64_t bytes,
                const std::map<uint32_t, uint32_t>& there,
                PieceCopies* copies) const {
    while (copies->fetched() < std::min(copies->Reach(), backward_.size())) {
      const auto found = there.find(backward_[copies->fetched()].forward);
      if (found == there.end()) {
        PRISM_CHECK(copies->fetched() > used);
        return;
      }
      copies->Fetch(bytes, found->second);
    }
  }

  const Program& program_;
  ProgramPasses passes_;
  std::vector<Use> backward_;  // by where they begin
  int64_t now_ = 0;
  int64_t alive_ = 0;
};

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
  for (graph::Role& role : edited->graph.roles) {
    const std::vector<StatePiece> pieces = StatePieces(edited->graph, role.program);
    if (pieces.empty()) {
      continue;
    }
    const int64_t all = SumOf(pieces);
    if (all > most) {
      most = all;
      memory = fmt::format(
          "offload of optimizer states: {} of a rank of role '{}' in host memory, {} of them on "
          "the "
          "device at a time",
          FormatBytes(all), role.name, FormatBytes(LargestOf(pieces, edit.prefetch)));
    }
    role.program = WithStatesOnHost(role.program, pieces, edit.prefetch);
  }
  if (most == 0) {
    return InvalidArgument(
        "no optimizer states to offload are recognised: known are those of fused Adam, AdamW, SGD "
        "with momentum and Adagrad, and of Adam by lists of tensors (foreach)");
  }
  edited->assumptions.push_back(
      fmt::format("offload of optimizer states: each piece comes in front of its update, {} ahead, "
                  "and leaves behind it; {}",
                  edit.prefetch, kCopiesAssumed));
  edited->memory.push_back(std::move(memory));
  return OkStatus();
}

Status OffloadActivations(const OffloadEdit& edit, EditedGraph* edited) {
  int64_t most = 0;
  std::string memory;
  int64_t layer = 0;
  for (graph::Role& role : edited->graph.roles) {
    const RoleActivations activations(edited->graph, role.program);
    if (activations.empty()) {
      continue;
    }
    const int64_t alive = activations.alive();
    const int64_t bytes =
        edit.layer_bytes > 0 ? edit.layer_bytes : ActivationBytes(role.memory) / alive;
    if (bytes == 0) {
      return InvalidArgument(
          "offload of activations: the graph does not say how large they are: bytes = N, of a "
          "layer "
          "and micro-batch");
    }
    const int64_t left = std::min(alive, edit.prefetch + 2);
    if ((alive - left) * bytes >= most) {
      most = (alive - left) * bytes;
      layer = bytes;
      memory = fmt::format(
          "offload of activations: of {} layers and micro-batches that wait at once on a rank of "
          "role '{}', {} stay on the device: {} instead of {}",
          alive, role.name, left, FormatBytes(left * bytes), FormatBytes(alive * bytes));
    }
    role.program = activations.Offload(bytes, edit.prefetch);
  }
  if (memory.empty()) {
    return InvalidArgument(
        "offload of activations needs a program that marks its layers in forward and backward "
        "passes; this one does not");
  }
  edited->assumptions.push_back(fmt::format(
      "offload of activations: {} of a layer and micro-batch {}, out behind its forward pass, back "
      "in front of its backward pass, {} ahead; {}",
      FormatBytes(layer), edit.layer_bytes > 0 ? "(stated)" : "(its share of those at the peak)",
      edit.prefetch, kCopiesAssumed));
  edited->memory.push_back(std::move(memory));
  return OkStatus();
}

}  // namespace prism::slicer
