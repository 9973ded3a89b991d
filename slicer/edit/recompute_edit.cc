// RemoveRecompute (slicer/edit/edit_steps.h): kernels of backward passes that repeat a forward pass
// are dropped, as if their results had been kept. A graph does not say which kernels those are:
// runs of ops in the backward pass that also occur in the forward pass, in the same order, are
// taken to be recomputation if they are too long, or too specific, to be chance (kLongRun). What
// other streams do for recomputation stays.
#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "graph/base/glob.h"
#include "graph/base/units.h"
#include "slicer/edit/edit_steps.h"
#include "slicer/edit/offload_parts.h"
#include "slicer/edit/program_passes.h"
#include "slicer/edit/program_rewriter.h"

namespace prism::slicer {
namespace {

using graph::OpKind;
using graph::Program;

// A run of kernels in the backward pass that the forward pass has too may be chance (sums of
// gradients are additions as well). It is taken for recomputation if it has at least kLongRun
// kernels, or kRunWithProduct with a matrix product among them, or contains a kernel that only
// forward passes have.
constexpr int64_t kLongRun = 4;
constexpr int64_t kRunWithProduct = 3;

bool NameContains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Attention and normalisation have other kernels in backward passes.
bool IsForwardOnly(const graph::Graph& graph, const graph::KernelSignature& signature) {
  const std::string& op = graph.string(signature.framework_op);
  const bool backward =
      NameContains(op, "backward") || NameContains(op, "bwd") || NameContains(op, "_norm_");
  const bool norm = NameContains(op, "layer_norm") || NameContains(op, "rms_norm");
  return !backward && (norm || NameContains(op, "attention") || NameContains(op, "attn"));
}

// What an op of the compute stream does, comparable within a role.
struct Token {
  OpKind kind = OpKind::kKernel;
  uint16_t comm_slot = 0;
  uint32_t signature = 0;
  int64_t value = 0;

  auto operator<=>(const Token&) const = default;
};

class RoleRecompute {
 public:
  RoleRecompute(const graph::Graph& graph, const Program& program, const std::string& layer)
      : graph_(graph),
        program_(program),
        layer_(layer),
        passes_(PassesOf(graph, program)),
        compute_(ComputeStream(program)),
        waited_(WaitedFor(program)),
        dropped_(program.size()) {}

  Program Remove() {
    ReadForward();
    std::vector<uint32_t> ops;
    for (uint32_t op = 0; op < program_.size(); ++op) {
      if (Works(op) && passes_.pass[op] == Pass::kBackward) {
        ops.push_back(op);
      }
    }
    for (size_t at = 0; at < ops.size();) {
      const size_t length = LongestRun(ops, at);
      const std::span<const uint32_t> run(&ops[at], length);
      if (const std::span<const uint32_t> again = Recomputed(run); !again.empty()) {
        DropBetween(again.front(), again.back());
      }
      at += std::max<size_t>(length, 1);
    }
    return Without(program_, dropped_);
  }

  [[nodiscard]] bool has_passes() const {
    return std::ranges::find(passes_.pass, Pass::kForward) != passes_.pass.end();
  }
  [[nodiscard]] int64_t kernels() const { return kernels_; }

  // The most matching layers, times micro-batches, that wait for their backward pass at the same
  // time.
  [[nodiscard]] int64_t alive() const {
    std::vector<LayerSpan> spans;
    for (const LayerSpan& span : passes_.spans) {
      if (FitsPattern(passes_.names[passes_.layer[span.begin]], layer_)) {
        spans.push_back(span);
      }
    }
    return ActivationParts(spans, 0).alive;
  }

 private:
  [[nodiscard]] bool Works(uint32_t op) const {
    const OpKind kind = program_.kind[op];
    return program_.stream[op] == compute_ &&
           (kind == OpKind::kKernel || kind == OpKind::kMemcpy || kind == OpKind::kMemset ||
            kind == OpKind::kCollective);
  }

  [[nodiscard]] Token TokenOf(uint32_t op) const {
    return {program_.kind[op], program_.comm_slot[op], program_.signature[op], program_.value[op]};
  }

  // Forward passes of micro-batches are alike, so each is read once.
  void ReadForward() {
    std::set<std::vector<Token>> seen;
    std::vector<Token> pass;
    for (uint32_t op = 0; op <= program_.size(); ++op) {
      if (op < program_.size() && passes_.pass[op] == Pass::kForward) {
        if (Works(op)) {
          pass.push_back(TokenOf(op));
        }
        continue;
      }
      if (!pass.empty() && seen.insert(pass).second) {
        for (const Token& token : pass) {
          places_[token].push_back(forward_.size());
          forward_.push_back(token);
        }
        forward_.push_back({.kind = OpKind::kMarker});  // no run extends beyond the end of a pass
      }
      pass.clear();
    }
  }

  [[nodiscard]] size_t LongestRun(const std::vector<uint32_t>& ops, size_t at) const {
    const auto found = places_.find(TokenOf(ops[at]));
    size_t longest = 0;
    if (found == places_.end()) {
      return 0;
    }
    for (const size_t place : found->second) {
      size_t length = 0;
      while (at + length < ops.size() && place + length < forward_.size() &&
             forward_[place + length] == TokenOf(ops[at + length]) &&
             passes_.layer[ops[at + length]] == passes_.layer[ops[at]]) {
        ++length;
      }
      longest = std::max(longest, length);
    }
    return longest;
  }

  // The part of a run that is recomputation: all of a long one; a short one without additions at
  // its ends, which may be sums of gradients.
  [[nodiscard]] std::span<const uint32_t> Recomputed(std::span<const uint32_t> run) const {
    if (run.empty()) {
      return {};
    }
    const uint32_t layer = passes_.layer[run.front()];
    if (!FitsPattern(layer == kNoLayer ? "" : passes_.names[layer], layer_)) {
      return {};
    }
    int64_t kernels = 0;
    bool product = false;
    size_t first = run.size();  // kernels that only forward passes have
    size_t last = 0;
    for (size_t i = 0; i < run.size(); ++i) {
      if (program_.kind[run[i]] != OpKind::kKernel) {
        continue;
      }
      const graph::KernelSignature& signature = graph_.signatures[program_.signature[run[i]]];
      if (IsForwardOnly(graph_, signature)) {
        first = std::min(first, i);
        last = i;
      }
      ++kernels;
      product = product || signature.matmul.m > 0;
    }
    if (kernels >= (product ? kRunWithProduct : kLongRun)) {
      return run;
    }
    return first < run.size() ? run.subspan(first, last + 1 - first) : std::span<const uint32_t>();
  }

  // Events between them that nothing waits for are dropped as well.
  void DropBetween(uint32_t first, uint32_t last) {
    for (uint32_t op = first; op <= last; ++op) {
      const bool idle = program_.kind[op] == OpKind::kEventRecord && !waited_[op] &&
                        program_.stream[op] == compute_;
      if (idle || (Works(op) && passes_.pass[op] == Pass::kBackward)) {
        dropped_[op] = true;
        kernels_ += program_.kind[op] == OpKind::kKernel ? 1 : 0;
      }
    }
  }

  const graph::Graph& graph_;
  const Program& program_;
  const std::string& layer_;
  ProgramPasses passes_;
  uint16_t compute_;
  std::vector<bool> waited_;
  std::vector<bool> dropped_;
  std::vector<Token> forward_;
  std::map<Token, std::vector<size_t>> places_;  // in forward_
  int64_t kernels_ = 0;
};

// Where most more is kept.
struct KeptActivations {
  int64_t layers = 0;  // times micro-batches
  std::string role;
};

std::string MemoryLine(const RecomputeEdit& edit,
                       const graph::Graph& graph,
                       const KeptActivations& most) {
  if (most.layers == 0) {
    return "recompute: memory not known, because the program does not mark its layers, so nothing "
           "shows how many keep their activations at once";
  }
  if (edit.layer_bytes == 0) {
    return fmt::format(
        "recompute: memory not known, because the size of what is kept does not follow from {}; "
        "add bytes = N, per layer and micro-batch",
        graph.job.user_program ? "a user's program" : "the graph's job");
  }
  return fmt::format(
      "recompute: {} more for activations on a rank of role '{}': {} per layer and micro-batch, at "
      "most {} of which are kept at once",
      FormatBytes(most.layers * edit.layer_bytes), most.role, FormatBytes(edit.layer_bytes),
      most.layers);
}

}  // namespace

Status RemoveRecompute(const RecomputeEdit& edit, EditedGraph* edited) {
  graph::Graph& graph = edited->graph;
  KeptActivations most;
  int64_t kernels = 0;
  bool any_passes = false;
  for (graph::Role& role : graph.roles) {
    RoleRecompute recompute(graph, role.program, edit.layer);
    Program program = recompute.Remove();
    kernels += recompute.kernels();
    any_passes = any_passes || recompute.has_passes();
    if (const int64_t alive = recompute.alive(); alive > most.layers) {
      most = {alive, role.name};
    }
    role.program = std::move(program);
  }
  if (!any_passes) {
    return InvalidArgument(
        "the program marks no forward passes, so recomputation cannot be recognised");
  }
  if (kernels == 0) {
    return InvalidArgument(fmt::format(
        "no kernels in backward passes{} repeat a forward pass",
        edit.layer == "*" ? "" : fmt::format(" of layers that match '{}'", edit.layer)));
  }
  if (graph.job.recompute != graph::Recompute::kNone && edit.layer == "*") {
    graph.job.recompute = graph::Recompute::kNone;
  }
  edited->assumptions.push_back(fmt::format(
      "recompute of '{}' removed: {} kernels of backward passes (in the programs of all roles) "
      "repeat runs of a forward pass; what other streams do for them is unchanged",
      edit.layer, kernels));
  edited->memory.push_back(MemoryLine(edit, graph, most));
  return OkStatus();
}

}  // namespace prism::slicer
