#include "launch/trainer/args.h"

#include <cstdlib>
#include <functional>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "graph/base/parse_number.h"

namespace prism::launch {
namespace {

// How one flag is written and read. Both sides of the command line come from this table.
struct Flag {
  const char* name;
  std::function<std::string(const WorkloadConfig&)> write;
  std::function<bool(std::string_view, WorkloadConfig*)> read;
};

template <typename Access>
Flag IntFlag(const char* name, Access access) {
  return {name,
          [access](const WorkloadConfig& config) {
            WorkloadConfig copy = config;
            return fmt::format("{}", access(copy));
          },
          [access](std::string_view text, WorkloadConfig* config) {
            return ParseNumber(text, &access(*config));
          }};
}

// A flag with a fixed set of values; `words` is indexed by the value.
template <typename Access>
Flag WordFlag(const char* name, std::vector<std::string> words, Access access) {
  return {name,
          [access, words](const WorkloadConfig& config) {
            WorkloadConfig copy = config;
            return words.at(static_cast<size_t>(access(copy)));
          },
          [access, words](std::string_view text, WorkloadConfig* config) {
            for (size_t i = 0; i < words.size(); ++i) {
              if (words[i] == text) {
                auto& field = access(*config);
                field = static_cast<std::remove_reference_t<decltype(field)>>(i);
                return true;
              }
            }
            return false;
          }};
}

Flag DtypeFlag() {
  return {"dtype",
          [](const WorkloadConfig& config) {
            return std::string(config.job.compute_dtype == DataType::kFloat32 ? "fp32" : "bf16");
          },
          [](std::string_view text, WorkloadConfig* config) {
            config->job.compute_dtype = text == "fp32" ? DataType::kFloat32 : DataType::kBfloat16;
            return text == "fp32" || text == "bf16";
          }};
}

std::vector<Flag> Flags() {
  using C = WorkloadConfig;
  return {
      WordFlag("block", {"gpt", "llama"}, [](C& c) -> auto& { return c.job.model.block; }),
      IntFlag("layers", [](C& c) -> auto& { return c.job.model.layers; }),
      IntFlag("hidden", [](C& c) -> auto& { return c.job.model.hidden; }),
      IntFlag("heads", [](C& c) -> auto& { return c.job.model.heads; }),
      IntFlag("kv-heads", [](C& c) -> auto& { return c.job.model.kv_heads; }),
      IntFlag("ffn", [](C& c) -> auto& { return c.job.model.ffn; }),
      IntFlag("experts", [](C& c) -> auto& { return c.job.model.moe.experts; }),
      IntFlag("topk", [](C& c) -> auto& { return c.job.model.moe.topk; }),
      IntFlag("expert-ffn", [](C& c) -> auto& { return c.job.model.moe.expert_ffn; }),
      IntFlag("shared-expert-ffn", [](C& c) -> auto& { return c.job.model.moe.shared_expert_ffn; }),
      IntFlag("dense-layers", [](C& c) -> auto& { return c.job.model.moe.dense_layers; }),
      IntFlag("vocab", [](C& c) -> auto& { return c.job.model.vocab; }),
      IntFlag("seq-len", [](C& c) -> auto& { return c.job.seq_len; }),
      WordFlag("tied-embeddings", {"off", "on"},
               [](C& c) -> auto& { return c.job.model.tied_embeddings; }),
      IntFlag("tp", [](C& c) -> auto& { return c.job.parallel.tp; }),
      IntFlag("cp", [](C& c) -> auto& { return c.job.parallel.cp; }),
      IntFlag("dp", [](C& c) -> auto& { return c.job.parallel.dp; }),
      IntFlag("pp", [](C& c) -> auto& { return c.job.parallel.pp; }),
      IntFlag("ep", [](C& c) -> auto& { return c.job.parallel.ep; }),
      IntFlag("etp", [](C& c) -> auto& { return c.job.parallel.etp; }),
      IntFlag("vpp", [](C& c) -> auto& { return c.job.parallel.vpp; }),
      WordFlag("sequence-parallel", {"off", "on"},
               [](C& c) -> auto& { return c.job.sequence_parallel; }),
      IntFlag("micro-batch-size", [](C& c) -> auto& { return c.job.micro_batch_size; }),
      IntFlag("global-batch-size", [](C& c) -> auto& { return c.job.global_batch_size; }),
      WordFlag("recompute", {"none", "selective", "full"},
               [](C& c) -> auto& { return c.job.recompute; }),
      IntFlag("zero", [](C& c) -> auto& { return c.job.zero_stage; }),
      DtypeFlag(),
      IntFlag("seed", [](C& c) -> auto& { return c.job.seed; }),
      IntFlag("iterations", [](C& c) -> auto& { return c.iterations; }),
      WordFlag("device", {"cuda", "cpu"}, [](C& c) -> auto& { return c.device; }),
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
  PRISM_RETURN_IF_ERROR(Divides("hidden", model.hidden, "heads", model.heads));
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
  for (const Flag& flag : Flags()) {
    args.push_back(fmt::format("--{}", flag.name));
    args.push_back(flag.write(config));
  }
  return args;
}

Result<WorkloadConfig> ParseWorkloadArgs(const std::vector<std::string>& args) {
  std::map<std::string, Flag> flags;
  for (Flag& flag : Flags()) {
    flags.emplace(fmt::format("--{}", flag.name), std::move(flag));
  }
  WorkloadConfig config;
  for (size_t i = 0; i < args.size(); i += 2) {
    const auto found = flags.find(args[i]);
    if (found == flags.end()) {
      return InvalidArgument(fmt::format("unknown option {}", args[i]));
    }
    if (i + 1 == args.size()) {
      return InvalidArgument(fmt::format("{} needs a value", args[i]));
    }
    if (!found->second.read(args[i + 1], &config)) {
      return InvalidArgument(fmt::format("{} does not take \"{}\"", args[i], args[i + 1]));
    }
  }
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
