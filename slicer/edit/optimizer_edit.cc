// ReplaceOptimizer (slicer/edit/edit_steps.h): the kernels of a recognised update
// (slicer/edit/optimizer_calls.h) are replaced by those of another optimizer. An update is assumed
// to be limited by memory: a pass is costed by the numbers that it reads and writes per element.
// Only Muon's matrix products are compute. Gradient norms, clipping and casts around the update
// stay.
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/intern.h"
#include "graph/base/units.h"
#include "slicer/edit/edit_steps.h"
#include "slicer/edit/optimizer_calls.h"
#include "slicer/edit/program_rewriter.h"

namespace prism::slicer {
namespace {

using graph::TensorShape;

// One pass over all elements: what a kernel reads and writes of each, in numbers of its type.
struct UpdatePass {
  const char* op = nullptr;
  int accesses = 0;
};

struct OptimizerRule {
  OptimizerKind kind;
  const char* name;
  int moments;  // states of an element; Adafactor's are rows and columns, see StateElements
  std::array<UpdatePass, 3> passes;  // op nullptr: no more
};

// Adam reads parameter, gradient and two moments and writes three of them; SGD has one moment or
// none; Lion one (Chen et al. 2023); LAMB needs the norm of each update before it applies it (You
// et al. 2020); Adafactor means of squared gradients by row and column, the update and its root
// mean square, then the step (Shazeer and Stern 2018); Muon one moment, and Newton-Schulz steps on
// every matrix (Jordan 2024).
constexpr OptimizerRule kRules[] = {
    {OptimizerKind::kAdam, "adam", 2, {{{"fused::adam", 7}}}},
    {OptimizerKind::kSgd, "sgd", 0, {{{"fused::sgd", 3}}}},
    {OptimizerKind::kSgdMomentum, "sgd_momentum", 1, {{{"fused::sgd_momentum", 5}}}},
    {OptimizerKind::kLion, "lion", 1, {{{"fused::lion", 5}}}},
    {OptimizerKind::kLamb, "lamb", 2, {{{"fused::lamb_moments", 7}, {"fused::lamb_step", 3}}}},
    {OptimizerKind::kAdafactor,
     "adafactor",
     0,
     {{{"fused::adafactor_means", 1},
       {"fused::adafactor_update", 3},
       {"fused::adafactor_step", 3}}}},
    {OptimizerKind::kMuon, "muon", 1, {{{"fused::muon_momentum", 3}, {"fused::muon_step", 3}}}},
};

const OptimizerRule& RuleOf(OptimizerKind kind) {
  return *std::find_if(std::begin(kRules), std::end(kRules),
                       [&](const OptimizerRule& rule) { return rule.kind == kind; });
}

// For Muon's orthogonalisation, in bf16: five steps of three products (Jordan 2024).
constexpr int kNewtonSchulzSteps = 5;

bool IsMatrix(const TensorShape& tensor) {
  return tensor.dims.size() == 2 && std::min(tensor.dims[0], tensor.dims[1]) > 1;
}

int64_t StateElements(const OptimizerRule& rule, const TensorShape& tensor) {
  if (rule.kind == OptimizerKind::kAdafactor) {
    return IsMatrix(tensor) ? tensor.dims[0] + tensor.dims[1] : tensor.ElementCount();
  }
  // Muon leaves tensors that are not matrices to Adam.
  const bool adam = rule.kind == OptimizerKind::kMuon && !IsMatrix(tensor);
  return (adam ? 2 : rule.moments) * tensor.ElementCount();
}

class CallWriter {
 public:
  CallWriter(const OptimizerRule& rule, const graph::Program& old, graph::Graph* graph)
      : rule_(rule), old_(old), graph_(graph) {}

  void Write(const OptimizerCall& call, ProgramRewriter* rewriter) {
    rewriter_ = rewriter;
    stream_ = old_.stream[call.begin];
    flags_ = Launched(call.begin);
    later_flags_ = Launched(call.end - 1);
    const DataType type = call.tensors.empty() ? DataType::kFloat32 : call.tensors.front().dtype;
    bool first = true;
    for (const UpdatePass& pass : rule_.passes) {
      if (pass.op == nullptr) {
        break;
      }
      if (rule_.kind == OptimizerKind::kMuon && !first) {
        Orthogonalise(call);
      }
      WritePass(pass, call, type);
      first = false;
    }
  }

 private:
  // As many launches as the call had, each with its part of the elements.
  void WritePass(const UpdatePass& pass, const OptimizerCall& call, DataType type) {
    const auto elements = static_cast<double>(call.Elements());
    for (const double share : call.shares) {
      graph::KernelSignature signature = Named(pass.op);
      const TensorShape part = {type, {std::llround(elements * share)}};
      signature.inputs.assign(static_cast<size_t>(pass.accesses), part);
      Launch(signature);
    }
  }

  // X of m × n, m ≤ n: A = X·Xᵀ, A·A, (bA + cA²)·X.
  void Orthogonalise(const OptimizerCall& call) {
    for (const TensorShape& tensor : call.tensors) {
      if (!IsMatrix(tensor)) {
        continue;
      }
      const int64_t m = std::min(tensor.dims[0], tensor.dims[1]);
      const int64_t n = std::max(tensor.dims[0], tensor.dims[1]);
      for (int step = 0; step < kNewtonSchulzSteps; ++step) {
        Product(m, m, n);
        Product(m, m, m);
        Product(m, n, m);
      }
    }
  }

  void Product(int64_t m, int64_t n, int64_t k) {
    constexpr DataType kType = DataType::kBfloat16;
    graph::KernelSignature signature = Named("aten::mm");
    signature.name = StringId(InternValue(graph_->strings, std::string("cublasGemmEx")));
    signature.matmul = {.m = m, .n = n, .k = k, .batch = 1, .input = kType, .output = kType};
    signature.inputs = {{kType, {m, k}}, {kType, {k, n}}};
    Launch(signature);
  }

  graph::KernelSignature Named(const char* op) {
    graph::KernelSignature signature;
    signature.framework_op = StringId(InternValue(graph_->strings, std::string(op)));
    signature.name = signature.framework_op;
    return signature;
  }

  void Launch(const graph::KernelSignature& signature) {
    rewriter_->Add({.kind = graph::OpKind::kKernel,
                    .flags = flags_,
                    .stream = stream_,
                    .signature = InternValue(graph_->signatures, signature)});
    flags_ = later_flags_;
  }

  // Whether the host launches an op by itself.
  [[nodiscard]] uint8_t Launched(uint32_t op) const {
    return old_.flags[op] & graph::kLaunchedWithPrevious;
  }

  const OptimizerRule& rule_;
  const graph::Program& old_;
  graph::Graph* graph_;
  ProgramRewriter* rewriter_ = nullptr;
  uint16_t stream_ = 0;
  uint8_t flags_ = 0;        // of the next launch
  uint8_t later_flags_ = 0;  // of those after the first
};

struct Replaced {
  int64_t calls = 0;
  int64_t states_before = 0;
  int64_t states_after = 0;
  std::set<std::string> names;
  bool matrices = false;
};

Replaced ReplaceInRole(const OptimizerRule& rule, graph::Role* role, graph::Graph* graph) {
  Replaced replaced;
  const graph::Program old = std::move(role->program);
  ProgramRewriter rewriter(old);
  for (const OptimizerCall& call : FindOptimizerCalls(KernelTables(*graph), old)) {
    replaced.names.insert(call.name);
    replaced.states_before += call.StateBytes();
    for (const TensorShape& tensor : call.tensors) {
      replaced.matrices = replaced.matrices || IsMatrix(tensor);
      replaced.states_after += StateElements(rule, tensor) * DataTypeBytes(tensor.dtype);
    }
    if (call.name == rule.name) {
      continue;
    }
    ++replaced.calls;
    while (rewriter.next() < call.begin) {
      rewriter.Keep();
    }
    CallWriter(rule, old, graph).Write(call, &rewriter);
    while (rewriter.next() < call.end) {
      rewriter.Drop();
    }
  }
  while (rewriter.next() < old.size()) {
    rewriter.Keep();
  }
  role->program = rewriter.Finish();
  return replaced;
}

}  // namespace

const char* OptimizerName(OptimizerKind kind) {
  return RuleOf(kind).name;
}

Status ReplaceOptimizer(const OptimizerEdit& edit, EditedGraph* edited) {
  const OptimizerRule& rule = RuleOf(edit.kind);
  Replaced all;
  int64_t most = 0;
  std::string memory = "optimizer: memory unchanged, its states are as large as before";
  for (graph::Role& role : edited->graph.roles) {
    const Replaced replaced = ReplaceInRole(rule, &role, &edited->graph);
    all.calls += replaced.calls;
    all.names.insert(replaced.names.begin(), replaced.names.end());
    all.matrices = all.matrices || replaced.matrices;
    const int64_t change = std::abs(replaced.states_after - replaced.states_before);
    if (change > most) {
      most = change;
      memory =
          fmt::format("optimizer: states of a rank of role '{}' take {} instead of {}", role.name,
                      FormatBytes(replaced.states_after), FormatBytes(replaced.states_before));
    }
  }
  if (all.names.empty()) {
    return InvalidArgument(
        "no kernels of an optimizer's update were recognised; supported are fused Adam, AdamW, "
        "SGD, Adagrad and Lion, and Adam over lists of tensors (foreach) or tensor by tensor, if "
        "the graph has their tensors or grids");
  }
  if (all.calls == 0) {
    return InvalidArgument(fmt::format("the job's optimizer is already {}", rule.name));
  }
  if (edit.kind == OptimizerKind::kMuon && !all.matrices) {
    return InvalidArgument(
        "Muon needs whole matrices, but this job updates flat pieces of parameters, whose shapes "
        "the graph does not have");
  }
  edited->assumptions.push_back(fmt::format(
      "{} instead of {}: its passes are timed by the bytes they read and write, each with as many "
      "launches as a call of the old one had ({} calls in the programs of all roles){}; norm, "
      "clipping and casts around it are unchanged",
      rule.name, fmt::join(all.names, ", "), all.calls,
      edit.kind == OptimizerKind::kMuon
          ? "; each matrix is orthogonalised on the rank that has it, in 5 steps of 3 products"
          : ""));
  edited->memory.push_back(std::move(memory));
  return OkStatus();
}

}  // namespace prism::slicer
