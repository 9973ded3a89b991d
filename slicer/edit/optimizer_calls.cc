#include "slicer/edit/optimizer_calls.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

namespace prism::slicer {
namespace {

using graph::OpKind;

// Elements of one block of a kernel over lists of tensors (kChunkSize in
// ATen/native/cuda/MultiTensorApply.cuh; Apex and its descendants: 2048 * 32).
constexpr int64_t kChunkElements = 65536;

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// What synthesised updates and those of an edit (optimizer_edit.cc) are called: one kernel, which
// carries one tensor as often as it reads or writes it.
constexpr std::string_view kOwnPrefix = "fused::";

// A fused update: what it is, how many lists of tensors its framework op takes and how many of
// them are states.
struct FusedUpdate {
  std::string_view part;  // part of the framework op's or the kernel's name
  const char* name;
  size_t lists;
  int64_t moments;
};

constexpr FusedUpdate kFusedUpdates[] = {
    {"_fused_adam", "adam", 5, 2},        {"_fused_adagrad", "adagrad", 4, 1},
    {"_fused_sgd", "sgd_momentum", 3, 1}, {"fused::adam", "adam", 7, 2},
    {"fused::lion", "lion", 5, 1},        {"fused::sgd_momentum", "sgd_momentum", 5, 1},
    {"fused::sgd", "sgd", 3, 0},          {"AdamFunctor", "adam", 4, 2},
    {"AdamCapturable", "adam", 4, 2},     {"FusedAdam", "adam", 5, 2},
};

class CallFinder {
 public:
  CallFinder(const KernelTables& tables, const graph::Program& program)
      : tables_(tables), program_(program) {}

  std::vector<OptimizerCall> Find() && {
    for (uint32_t op = 0; op < program_.size();) {
      const uint32_t before = op;
      if (const FusedUpdate* update = Fused(op)) {
        op = AddFused(op, *update);
      } else if (IsForeach(op, "_foreach_lerp")) {
        op = AddForeach(op);
      } else if (IsForeach(op, "::lerp")) {
        op = AddLooped(op);
      }
      op = std::max(op, before + 1);
    }
    return std::move(calls_);
  }

 private:
  [[nodiscard]] const graph::KernelSignature& Signature(uint32_t op) const {
    return tables_.signatures[program_.signature[op]];
  }

  [[nodiscard]] const std::string& FrameworkOp(uint32_t op) const {
    return tables_.strings[Signature(op).framework_op.value()];
  }

  [[nodiscard]] const FusedUpdate* Fused(uint32_t op) const {
    if (program_.kind[op] != OpKind::kKernel) {
      return nullptr;
    }
    const std::string& framework_op = FrameworkOp(op);
    const std::string& kernel = tables_.strings[Signature(op).name.value()];
    for (const FusedUpdate& update : kFusedUpdates) {
      if (Contains(framework_op, update.part) || Contains(kernel, update.part)) {
        return &update;
      }
    }
    return nullptr;
  }

  [[nodiscard]] bool IsForeach(uint32_t op, std::string_view part) const {
    return op < program_.size() && program_.kind[op] == OpKind::kKernel &&
           Contains(FrameworkOp(op), part);
  }

  // The kernels of one call carry the same tensors.
  [[nodiscard]] uint32_t EndOfCall(uint32_t op) const {
    uint32_t end = op + 1;
    if (FrameworkOp(op).starts_with(kOwnPrefix)) {
      return end;
    }
    while (end < program_.size() && program_.kind[end] == OpKind::kKernel &&
           program_.stream[end] == program_.stream[op] &&
           Signature(end).framework_op == Signature(op).framework_op &&
           Signature(end).inputs == Signature(op).inputs) {
      ++end;
    }
    return end;
  }

  // The first of `lists` lists of equal length; where the op's tensors are unknown, all chunks.
  [[nodiscard]] std::vector<graph::TensorShape> FirstList(uint32_t op,
                                                          uint32_t end,
                                                          size_t lists) const {
    const std::vector<graph::TensorShape>& inputs = Signature(op).inputs;
    if (!inputs.empty() && inputs.size() % lists == 0) {
      return {inputs.begin(), inputs.begin() + static_cast<int64_t>(inputs.size() / lists)};
    }
    int64_t blocks = 0;
    for (uint32_t kernel = op; kernel < end; ++kernel) {
      blocks += Signature(kernel).grid[0];
    }
    return {{.dtype = DataType::kFloat32, .dims = {blocks * kChunkElements}}};
  }

  uint32_t AddFused(uint32_t op, const FusedUpdate& update) {
    OptimizerCall call;
    call.begin = op;
    call.end = EndOfCall(op);
    call.moments = update.moments;
    call.name = update.name;
    size_t lists = update.lists;
    // Without momentum SGD has no third list.
    if (call.name == "sgd_momentum" && lists == 3 && !HasThirdList(Signature(op).inputs)) {
      call.name = "sgd";
      call.moments = 0;
      lists = 2;
    }
    call.tensors = FirstList(op, call.end, lists);
    double blocks = 0;
    for (uint32_t kernel = call.begin; kernel < call.end; ++kernel) {
      call.launches.push_back(kernel);
      call.shares.push_back(std::max<double>(Signature(kernel).grid[0], 1));
      blocks += call.shares.back();
    }
    for (double& share : call.shares) {
      share /= blocks;
    }
    const uint32_t end = call.end;
    Add(std::move(call));
    return end;
  }

  // Kernels whose tensors and blocks are both unknown, as in a graph from another tool's trace,
  // update nothing that could be moved or replaced.
  void Add(OptimizerCall call) {
    if (call.Elements() > 0) {
      calls_.push_back(std::move(call));
    }
  }

  // Parameters, gradients, momentum: the same shapes three times.
  static bool HasThirdList(const std::vector<graph::TensorShape>& inputs) {
    const size_t third = inputs.size() / 3;
    return !inputs.empty() && inputs.size() % 3 == 0 &&
           std::equal(inputs.begin(), inputs.begin() + static_cast<int64_t>(third),
                      inputs.begin() + static_cast<int64_t>(2 * third));
  }

  uint32_t AddForeach(uint32_t op) {
    uint32_t last = 0;
    uint32_t end = op;
    while (IsForeach(end, "_foreach_") && !(last > 0 && IsForeach(end, "_foreach_lerp"))) {
      last = IsForeach(end, "_foreach_addcdiv") ? end : last;
      ++end;
    }
    if (last == 0) {
      return end;
    }
    OptimizerCall call;
    call.begin = op;
    call.end = last + 1;
    call.moments = 2;
    call.name = "adam";
    call.tensors = FirstList(op, EndOfCall(op), 2);
    call.launches = {op};
    call.shares = {1};
    Add(std::move(call));
    return last + 1;
  }

  // Adam over one parameter (foreach=False): its first moment's lerp, the second moment, and
  // addcdiv, all of one shape on one stream.
  uint32_t AddLooped(uint32_t op) {
    constexpr uint32_t kMostKernels = 12;
    const std::vector<graph::TensorShape>& inputs = Signature(op).inputs;
    if (inputs.empty()) {
      return op + 1;
    }
    for (uint32_t last = op + 1; last < op + kMostKernels; ++last) {
      if (!IsForeach(last, "::") || program_.stream[last] != program_.stream[op] ||
          IsForeach(last, "::lerp") || Signature(last).inputs.empty() ||
          Signature(last).inputs.front().dims != inputs.front().dims) {
        return op + 1;
      }
      if (IsForeach(last, "::addcdiv")) {
        OptimizerCall call;
        call.begin = op;
        call.end = last + 1;
        call.moments = 2;
        call.name = "adam";
        call.tensors = {inputs.front()};
        call.launches = {op};
        call.shares = {1};
        Add(std::move(call));
        return last + 1;
      }
    }
    return op + 1;
  }

  const KernelTables& tables_;
  const graph::Program& program_;
  std::vector<OptimizerCall> calls_;
};

}  // namespace

int64_t OptimizerCall::Elements() const {
  return std::accumulate(
      tensors.begin(), tensors.end(), int64_t{0},
      [](int64_t sum, const graph::TensorShape& tensor) { return sum + tensor.ElementCount(); });
}

int64_t OptimizerCall::StateBytes() const {
  return std::accumulate(tensors.begin(), tensors.end(), int64_t{0},
                         [&](int64_t sum, const graph::TensorShape& tensor) {
                           return sum + moments * tensor.Bytes();
                         });
}

std::vector<OptimizerCall> FindOptimizerCalls(const KernelTables& tables,
                                              const graph::Program& program) {
  return CallFinder(tables, program).Find();
}

}  // namespace prism::slicer
