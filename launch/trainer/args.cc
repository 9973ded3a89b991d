#include "launch/trainer/args.h"

#include <cstdlib>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "graph/base/parse_number.h"
#include "graph/job/names.h"
#include "launch/inputs/option_table.h"

namespace prism::launch {
namespace {

// Written by the launcher and read by the program.
std::vector<Option<WorkloadConfig>> Flags() {
  static constexpr EnumNames<graph::BlockKind, 2> kBlocks = {
      {{graph::BlockKind::kGpt, "gpt"}, {graph::BlockKind::kLlama, "llama"}}};
  static constexpr EnumNames<DataType, 2> kTypes = {
      {{DataType::kFloat32, "fp32"}, {DataType::kBfloat16, "bf16"}}};
  static constexpr EnumNames<DeviceKind, 2> kDevices = {
      {{DeviceKind::kCuda, "cuda"}, {DeviceKind::kCpu, "cpu"}}};
  using C = WorkloadConfig;
  using J = graph::JobSpec;
  using M = graph::ModelSpec;
  using E = graph::MoeShape;
  using P = graph::ParallelSizes;
  const auto number = WholeNumber(0, std::numeric_limits<int32_t>::max());
  const auto large = WholeNumber(0, std::numeric_limits<int64_t>::max());
  return {
      {"block", At(&C::job, &J::model, &M::block), OneOf(kBlocks)},
      {"layers", At(&C::job, &J::model, &M::layers), number},
      {"hidden", At(&C::job, &J::model, &M::hidden), large},
      {"heads", At(&C::job, &J::model, &M::heads), large},
      {"kv-heads", At(&C::job, &J::model, &M::kv_heads), large},
      {"head-dim", At(&C::job, &J::model, &M::head_dim), large},
      {"ffn", At(&C::job, &J::model, &M::ffn), large},
      {"experts", At(&C::job, &J::model, &M::moe, &E::experts), number},
      {"topk", At(&C::job, &J::model, &M::moe, &E::topk), number},
      {"expert-ffn", At(&C::job, &J::model, &M::moe, &E::expert_ffn), large},
      {"shared-expert-ffn", At(&C::job, &J::model, &M::moe, &E::shared_expert_ffn), large},
      {"dense-layers", At(&C::job, &J::model, &M::moe, &E::dense_layers), number},
      {"vocab", At(&C::job, &J::model, &M::vocab), large},
      {"seq-len", At(&C::job, &J::seq_len), large},
      {"tied-embeddings", At(&C::job, &J::model, &M::tied_embeddings), OnOff()},
      {"tp", At(&C::job, &J::parallel, &P::tp), number},
      {"cp", At(&C::job, &J::parallel, &P::cp), number},
      {"dp", At(&C::job, &J::parallel, &P::dp), number},
      {"pp", At(&C::job, &J::parallel, &P::pp), number},
      {"ep", At(&C::job, &J::parallel, &P::ep), number},
      {"etp", At(&C::job, &J::parallel, &P::etp), number},
      {"vpp", At(&C::job, &J::parallel, &P::vpp), number},
      {"sequence-parallel", At(&C::job, &J::sequence_parallel), OnOff()},
      {"micro-batch-size", At(&C::job, &J::micro_batch_size), large},
      {"global-batch-size", At(&C::job, &J::global_batch_size), large},
      {"recompute", At(&C::job, &J::recompute), OneOf(graph::kRecomputeNames)},
      {"zero", At(&C::job, &J::zero_stage), number},
      {"dtype", At(&C::job, &J::compute_dtype), OneOf(kTypes)},
      {"seed", At(&C::job, &J::seed), large},
      {"iterations", &C::iterations, number},
      {"device", &C::device, OneOf(kDevices)},
  };
}

Status Divides(std::string_view what, int64_t total, std::string_view by, int64_t divisor) {
  if (divisor > 0 && total > 0 && total % divisor == 0) {
    return OkStatus();
  }
  return InvalidArgument(
      fmt::format("{} {} is not a positive multiple of {} {}; choose sizes that divide", what,
                  total, by, divisor));
}

Status CheckLayout(const graph::JobSpec& job) {
  const graph::ParallelSizes& sizes = job.parallel;
  if (sizes.tp < 1 || sizes.cp < 1 || sizes.dp < 1 || sizes.pp < 1 || sizes.vpp < 1) {
    return InvalidArgument("tp, cp, dp, pp and vpp must be at least 1");
  }
  if (sizes.vpp > 1 && sizes.pp < 2) {
    return InvalidArgument("vpp > 1 needs pp > 1");
  }
  if (job.zero_stage < 0 || job.zero_stage > 3) {
    return InvalidArgument(fmt::format("zero {}: must be from 0 to 3", job.zero_stage));
  }
  return OkStatus();
}

// Megatron requires sequence parallelism with tensor parallelism if there are experts.
Status CheckExperts(const graph::JobSpec& job) {
  const graph::MoeShape& moe = job.model.moe;
  const graph::ParallelSizes& sizes = job.parallel;
  if (moe.experts == 0) {
    return sizes.ep == 1 && sizes.etp == 1
               ? OkStatus()
               : InvalidArgument(fmt::format("ep {} and etp {}: the model has no experts; use 1",
                                             sizes.ep, sizes.etp));
  }
  if (job.model.block != graph::BlockKind::kLlama || moe.biased) {
    return InvalidArgument("experts must be those of a llama block, without biases");
  }
  if (moe.shared_expert_ffn % sizes.tp != 0) {
    return Divides("shared-expert-ffn", moe.shared_expert_ffn, "tp", sizes.tp);
  }
  if (sizes.cp > 1) {
    return InvalidArgument(
        fmt::format("cp {}: experts cannot be combined with context parallelism", sizes.cp));
  }
  if (job.zero_stage == 3) {
    return InvalidArgument("zero 3: experts cannot be combined with sharded parameters");
  }
  if (sizes.etp != sizes.tp) {
    return InvalidArgument(
        fmt::format("etp {}: experts are divided over tp {}", sizes.etp, sizes.tp));
  }
  if (sizes.tp > 1 && !job.sequence_parallel) {
    return InvalidArgument("experts with tensor parallelism need sequence parallelism");
  }
  if (moe.topk < 1 || moe.topk > moe.experts) {
    return InvalidArgument(
        fmt::format("topk {} is more than the {} experts, or below 1", moe.topk, moe.experts));
  }
  PRISM_RETURN_IF_ERROR(Divides("experts", moe.experts, "ep", sizes.ep));
  PRISM_RETURN_IF_ERROR(Divides("dp", sizes.dp, "ep", sizes.ep));
  return Divides("expert-ffn", moe.expert_ffn, "tp", sizes.tp);
}

Status CheckShapes(const graph::JobSpec& job) {
  const graph::ModelSpec& model = job.model;
  const graph::ParallelSizes& sizes = job.parallel;
  if (!graph::LayersDivide(model.layers, int64_t{sizes.pp} * sizes.vpp)) {
    return Divides("layers", model.layers, "pp * vpp", int64_t{sizes.pp} * sizes.vpp);
  }
  if (model.head_dim == 0) {
    PRISM_RETURN_IF_ERROR(Divides("hidden", model.hidden, "heads", model.heads));
  }
  PRISM_RETURN_IF_ERROR(Divides("heads", model.heads, "kv-heads", model.kv_heads));
  PRISM_RETURN_IF_ERROR(
      Divides("kv-heads", model.kv_heads, "tp * cp", int64_t{sizes.tp} * sizes.cp));
  if (!model.IsMoeLayer(0)) {
    PRISM_RETURN_IF_ERROR(Divides("ffn", model.ffn, "tp", sizes.tp));
  }
  PRISM_RETURN_IF_ERROR(CheckExperts(job));
  PRISM_RETURN_IF_ERROR(Divides("vocab", model.vocab, "one", 1));
  PRISM_RETURN_IF_ERROR(Divides("seq-len", job.seq_len, job.sequence_parallel ? "cp * tp" : "cp",
                                int64_t{sizes.cp} * (job.sequence_parallel ? sizes.tp : 1)));
  PRISM_RETURN_IF_ERROR(Divides("global-batch-size", job.global_batch_size, "micro-batch-size * dp",
                                job.micro_batch_size * sizes.dp));
  if (sizes.vpp > 1) {
    return Divides("micro-batches of a rank", job.microbatches(), "pp", sizes.pp);
  }
  return OkStatus();
}

}  // namespace

int32_t WorkloadConfig::tp_rank() const {
  return static_cast<int32_t>(rank.value()) % job.parallel.tp;
}

int32_t WorkloadConfig::cp_rank() const {
  return static_cast<int32_t>(rank.value()) / job.parallel.tp % job.parallel.cp;
}

int32_t WorkloadConfig::dp_rank() const {
  return static_cast<int32_t>(rank.value()) / (job.parallel.tp * job.parallel.cp) % job.parallel.dp;
}

int32_t WorkloadConfig::ep_rank() const {
  return dp_rank() % job.parallel.ep;
}

int32_t WorkloadConfig::pp_rank() const {
  return static_cast<int32_t>(rank.value()) / (job.parallel.tp * job.parallel.cp * job.parallel.dp);
}

int64_t WorkloadConfig::sequence() const {
  return job.seq_len / job.parallel.cp;
}

bool WorkloadConfig::sequence_parallel() const {
  return job.sequence_parallel && job.parallel.tp > 1;
}

std::vector<std::string> WorkloadArgs(const graph::JobSpec& job, int iterations) {
  WorkloadConfig config;
  config.job = job;
  config.iterations = iterations;
  std::vector<std::string> args;
  for (const Option<WorkloadConfig>& option : Flags()) {
    args.push_back(option.dashed());
    args.push_back(option.write(config).front());
  }
  return args;
}

Result<WorkloadConfig> ParseWorkloadArgs(const std::vector<std::string>& args) {
  const std::vector<Option<WorkloadConfig>> flags = Flags();
  PRISM_ASSIGN_OR_RETURN(const SplitCommandLine split,
                         SplitArguments(RowsOf(flags), args, "prism-emulate starts this program"));
  WorkloadConfig config;
  PRISM_RETURN_IF_ERROR(ReadOptions(flags, split.given, &config));
  PRISM_RETURN_IF_ERROR(CheckLayout(config.job));
  PRISM_RETURN_IF_ERROR(CheckShapes(config.job));
  return config;
}

Status ReadRankFromEnvironment(WorkloadConfig* config) {
  const char* rank_text = std::getenv("RANK");
  const char* world_text = std::getenv("WORLD_SIZE");
  int64_t rank = 0;
  int64_t world = 0;
  if (rank_text == nullptr || world_text == nullptr || !ParseNumber(rank_text, &rank) ||
      !ParseNumber(world_text, &world)) {
    return InvalidArgument("RANK and WORLD_SIZE must be set to numbers");
  }
  if (world != config->job.parallel.world_size()) {
    return InvalidArgument(fmt::format("WORLD_SIZE is {} but the layout has {} ranks", world,
                                       config->job.parallel.world_size()));
  }
  if (rank < 0 || rank >= world) {
    return InvalidArgument(fmt::format("RANK {} is not below WORLD_SIZE {}", rank, world));
  }
  config->rank = Rank(static_cast<uint32_t>(rank));
  return OkStatus();
}

}  // namespace prism::launch
