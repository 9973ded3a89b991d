// The step of Adam over this rank's flat pieces of parameters, and what comes before and after.
#include <algorithm>
#include <utility>

#include "graph/base/divide.h"
#include "slicer/synthesize/blocks/blocks.h"
#include "slicer/synthesize/blocks/linear.h"

namespace prism::slicer {
namespace {

using graph::GroupAxis;

// Limits of one launch over lists of tensors, of ATen/native/cuda/MultiTensorApply.cuh: elements
// per chunk, chunks per launch, tensors per launch by the number of lists.
constexpr int64_t kChunkElements = 65536;
constexpr uint32_t kLaunchChunks = 320;
constexpr uint32_t kLaunchTensors[] = {0, 110, 64, 48, 36, 30};

// Launches of one call, one after the other, that work on equally many chunks.
struct Launches {
  uint32_t chunks = 0;
  uint32_t times = 0;
};

// The launches of one call over `lists` lists of tensors of these sizes.
std::vector<Launches> LaunchesOver(const std::vector<int64_t>& sizes, size_t lists) {
  std::vector<Launches> launches;
  uint32_t chunks = 0;
  uint32_t tensors = 0;
  const auto launch = [&](uint32_t of_chunks, uint32_t times) {
    if (launches.empty() || launches.back().chunks != of_chunks) {
      launches.push_back({of_chunks, 0});
    }
    launches.back().times += times;
  };
  for (const int64_t size : sizes) {
    ++tensors;
    int64_t left = DivideUp(size, kChunkElements);
    while (left > 0) {
      if (chunks == 0 && left > kLaunchChunks) {  // whole launches inside the tensor
        const int64_t whole = (left - 1) / kLaunchChunks;
        launch(kLaunchChunks, static_cast<uint32_t>(whole));
        left -= whole * kLaunchChunks;
        tensors = 1;
      }
      const auto taken =
          static_cast<uint32_t>(std::min<int64_t>(left, int64_t{kLaunchChunks} - chunks));
      chunks += taken;
      left -= taken;
      const bool ends = left == 0;
      if (chunks == kLaunchChunks || (ends && tensors == kLaunchTensors[lists])) {
        launch(chunks, 1);
        chunks = 0;
        tensors = ends ? 0 : 1;
      }
    }
  }
  if (chunks > 0) {
    launch(chunks, 1);
  }
  return launches;
}

// One list of tensors of these sizes for each type, one after the other.
Tensors Lists(const std::vector<DataType>& types, const std::vector<int64_t>& sizes) {
  Tensors tensors;
  tensors.reserve(types.size() * sizes.size());
  for (const DataType type : types) {
    for (const int64_t size : sizes) {
      tensors.emplace_back().dtype = type;
      tensors.back().dims.push_back(size);
    }
  }
  return tensors;
}

// A call over lists of tensors, one for each type.
struct ListCall {
  const char* op;
  const char* kernel;
  std::vector<DataType> types;
  bool steps = false;  // also reads the step count of every tensor: one number each
};

class OptimizerWriter {
 public:
  OptimizerWriter(const RankShape& rank, const OptimizerPieces& pieces, BlockTables* tables)
      : rank_(rank), pieces_(pieces), writer_(tables), all_(pieces.decay) {
    all_.insert(all_.end(), pieces.no_decay.begin(), pieces.no_decay.end());
  }

  Block Step() {
    if (rank_.style.loss_scaling) {
      Unscale();
    }
    if (CopiesGradients()) {
      MultiTensor({"aten::_foreach_copy_",
                   "multi_tensor_apply_kernel<CopyFunctor>",
                   {DataType::kFloat32, rank_.gradient}},
                  all_);
    }
    if (rank_.style.gradient_norm) {
      if (!all_.empty()) {
        NormOfPieces();
      }
      AgreeOnNorm();
      MultiTensor({"aten::_foreach_mul_",
                   "multi_tensor_apply_kernel<BinaryOpScalarFunctor>",
                   {DataType::kFloat32}},
                  all_);
    }
    writer_.Pointwise("aten::add_", {Tensor(DataType::kFloat32, {}), Tensor(DataType::kInt64, {})});
    for (const std::vector<int64_t>* group : {&pieces_.decay, &pieces_.no_decay}) {
      if (!group->empty()) {
        Update(*group);
      }
    }
    if (rank_.matmul == DataType::kFloat8) {
      Float8Weights();
    }
    return writer_.Finish();
  }

 private:
  void MultiTensor(const ListCall& call, const std::vector<int64_t>& sizes) {
    std::vector<std::pair<uint32_t, uint32_t>> written;  // chunks and op
    for (auto [chunks, times] : LaunchesOver(sizes, call.types.size())) {
      const auto known =
          std::ranges::find_if(written, [&](const auto& op) { return op.first == chunks; });
      uint32_t op = known == written.end() ? writer_.size() : known->second;
      if (known == written.end()) {
        written.emplace_back(chunks, op);
        writer_.Kernel(call.op, call.kernel, InputsOf(call, sizes), chunks);
        --times;
      }
      if (times > 0) {
        writer_.KernelAgain(op, times);
      }
    }
  }

  static Tensors InputsOf(const ListCall& call, const std::vector<int64_t>& sizes) {
    Tensors inputs = Lists(call.types, sizes);
    inputs.resize(inputs.size() + (call.steps ? sizes.size() : 0), Tensor(DataType::kFloat32, {}));
    return inputs;
  }

  // The step works on fp32; gradients that were accumulated in 16 bit are copied. FSDP keeps the
  // gradients of its shards in the type of the shards.
  [[nodiscard]] bool CopiesGradients() const {
    return rank_.gradient != DataType::kFloat32 &&
           rank_.style.data_parallel != graph::DataParallelKind::kFsdp;
  }

  // fp16: one pass over the gradients, and a flag that all ranks must agree on.
  void Unscale() {
    MultiTensor({"aten::_amp_foreach_non_finite_check_and_unscale_",
                 "multi_tensor_apply_kernel<UnaryOpFunctor>",
                 {rank_.gradient}},
                all_);
    Reduce(graph::ReduceOp::kMax);
    writer_.Copy(DataTypeBytes(DataType::kFloat32), graph::kDeviceToHost);
    writer_.StreamSync();
  }

  // The norm of every piece and their sum of squares.
  void NormOfPieces() {
    const auto count = static_cast<int64_t>(all_.size());
    const graph::TensorShape norms = Tensor(DataType::kFloat32, {count});
    const int64_t longest = *std::ranges::max_element(all_);
    const int64_t chunks = DivideUp(longest, kChunkElements);
    writer_.Pointwise("aten::fill_", {Tensor(DataType::kFloat32, {count * chunks})});
    MultiTensor(
        {"aten::_foreach_norm", "multi_tensor_apply_kernel<LpNormFunctor>", {DataType::kFloat32}},
        all_);
    writer_.Kernel("aten::_foreach_norm", "lpnorm_cleanup", Lists({DataType::kFloat32}, all_),
                   static_cast<uint32_t>(count));
    writer_.Kernel("aten::cat", "CatArrayBatchedCopy",
                   Lists({DataType::kFloat32}, std::vector<int64_t>(all_.size(), 1)));
    writer_.Pointwise("aten::pow", {norms});
    writer_.Kernel("aten::dot", "cublasSdot", {norms, norms});
  }

  // The sum over all ranks, including stages without parameters, and its root on the host.
  void AgreeOnNorm() {
    Reduce(graph::ReduceOp::kSum);
    writer_.Pointwise("aten::sqrt", {Tensor(DataType::kFloat32, {})});
    writer_.Copy(DataTypeBytes(DataType::kFloat32), graph::kDeviceToHost);
    writer_.StreamSync();
  }

  // Reduces one number over all ranks that hold different parameters.
  void Reduce(graph::ReduceOp op) {
    graph::CollectiveShape shape = AllReduceOf(DataType::kFloat32, 1);
    shape.reduce = op;
    const graph::ParallelSizes& sizes = rank_.job.parallel;
    const bool sharded =
        rank_.job.zero_stage > 0 || rank_.style.data_parallel != graph::DataParallelKind::kMegatron;
    if (sharded && sizes.world_size() > 1) {
      writer_.Collective(GroupAxis::kWorld, shape);
      return;
    }
    if (sizes.tp > 1) {
      writer_.Collective(GroupAxis::kTensor, shape);
    }
    if (rank_.built_in && sizes.ep > 1) {
      writer_.Collective(GroupAxis::kExpert, shape);
    }
    if (sizes.pp > 1) {
      writer_.Collective(GroupAxis::kPipeline, shape);
    }
  }

  // Parameters under FSDP are fp32 themselves; elsewhere the step works on fp32 copies.
  void Update(const std::vector<int64_t>& sizes) {
    constexpr DataType kMaster = DataType::kFloat32;
    if (rank_.style.fused_optimizer) {
      MultiTensor({"aten::_fused_adamw_",
                   "multi_tensor_apply_kernel<FusedAdamMathFunctor>",
                   {kMaster, kMaster, kMaster, kMaster},
                   /*steps=*/true},
                  sizes);
    } else {
      ForeachUpdate(sizes);
    }
    if (rank_.style.data_parallel == graph::DataParallelKind::kFsdp) {
      return;
    }
    MultiTensor(
        {"aten::_foreach_copy_", "multi_tensor_apply_kernel<CopyFunctor>", {rank_.dtype, kMaster}},
        sizes);
  }

  // torch.optim.AdamW with foreach=True.
  void ForeachUpdate(const std::vector<int64_t>& sizes) {
    struct Call {
      const char* op;
      size_t lists;
    };
    constexpr Call kCalls[] = {{"aten::_foreach_mul_", 1}, {"aten::_foreach_lerp_", 2},
                               {"aten::_foreach_mul_", 1}, {"aten::_foreach_addcmul_", 3},
                               {"aten::_foreach_sqrt", 2}, {"aten::_foreach_div_", 1},
                               {"aten::_foreach_add_", 1}, {"aten::_foreach_addcdiv_", 3}};
    for (const Call& call : kCalls) {
      MultiTensor({call.op, "multi_tensor_apply_kernel<ForeachFunctor>",
                   std::vector<DataType>(call.lists, DataType::kFloat32)},
                  sizes);
    }
  }

  // Weights are cast once an iteration; the scales of delayed scaling follow from the largest
  // values of all ranks that share a tensor.
  void Float8Weights() {
    CastToFloat8(Tensor(rank_.dtype, {pieces_.weights}), &writer_);
    const graph::ParallelSizes& sizes = rank_.job.parallel;
    if (rank_.style.precision == graph::Precision::kFloat8 && sizes.tp > 1) {
      graph::CollectiveShape shape = AllReduceOf(DataType::kFloat32, 1024);
      shape.reduce = graph::ReduceOp::kMax;
      writer_.Collective(GroupAxis::kTensor, shape);
    }
  }

  const RankShape& rank_;
  const OptimizerPieces& pieces_;
  BlockWriter writer_;
  std::vector<int64_t> all_;  // pieces with and without decay
};

}  // namespace

Block ZeroGradients(const RankShape& rank,
                    const std::vector<int64_t>& elements,
                    BlockTables* tables) {
  BlockWriter writer(tables);
  for (const int64_t count : elements) {
    writer.Pointwise("aten::fill_", {Tensor(rank.gradient, {count})});
  }
  return writer.Finish();
}

Block OptimizerStep(const RankShape& rank, const OptimizerPieces& pieces, BlockTables* tables) {
  return OptimizerWriter(rank, pieces, tables).Step();
}

}  // namespace prism::slicer
