#include "launch/plan/plan_space.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/base/divide.h"
#include "launch/plan/frameworks/framework.h"
#include "launch/plan/job_limits.h"

namespace prism::launch {
namespace {

template <typename T>
std::vector<T> DivisorsOf(int64_t number, int64_t most) {
  std::vector<T> divisors;
  for (int64_t d = 1; d <= std::min(number, most); ++d) {
    if (number % d == 0) {
      divisors.push_back(static_cast<T>(d));
    }
  }
  return divisors;
}

template <typename T>
bool MayBe(const std::vector<T>& allowed, T value) {
  return allowed.empty() || std::ranges::find(allowed, value) != allowed.end();
}

// What is given, else what `otherwise` returns, which is called only if needed.
template <typename T, typename List>
std::vector<T> Or(const std::vector<T>& given, const List& otherwise) {
  return given.empty() ? otherwise() : given;
}

class Enumeration {
 public:
  Enumeration(const SearchProblem& problem, const PlanChoices& choices)
      : problem_(problem),
        choices_(choices),
        framework_(*FrameworkNamed(problem.framework)),
        always_shards_(AlwaysShards(framework_)) {
    constexpr int64_t kAny = int64_t{1} << 40;
    const graph::ModelSpec& model = problem.model;
    vpp_ = Or(choices.vpp, [&] { return Interleavings(); });
    micro_batches_ = Or(choices.micro_batch_sizes,
                        [&] { return DivisorsOf<int64_t>(problem.global_batch_size, kAny); });
    recompute_ = Or(choices.recompute, [] {
      return std::vector{graph::Recompute::kNone, graph::Recompute::kSelective,
                         graph::Recompute::kFull};
    });
    zero_ = Or(choices.zero, [] { return std::vector{0, 1, 2, 3}; });
    sequence_parallel_ =
        Or(choices.sequence_parallel, [] { return std::vector<bool>{false, true}; });
    offload_ = Or(choices.offload, [] { return std::vector{graph::Offload::kNone}; });
    ep_ = Or(choices.ep,
             [&] { return DivisorsOf<int32_t>(std::max<int64_t>(1, model.moe.experts), kAny); });
    of_layout_ = static_cast<int64_t>(vpp_.size() * ep_.size()) * of_stages();
  }

  PlanSpace Run() {
    if (choices_.gpus.empty()) {
      AnyNumber();
    }
    for (const int64_t gpus : choices_.gpus) {
      ThisNumber(gpus);
    }
    std::sort(space_.plans.begin(), space_.plans.end());
    return std::move(space_);
  }

  // Only the candidates with that (tp, cp, pp, dp).
  PlanSpace Run(const graph::ParallelSizes& sizes) {
    Layout(sizes);
    return std::move(space_);
  }

 private:
  [[nodiscard]] int64_t of_schedule() const {
    return static_cast<int64_t>(recompute_.size() * zero_.size() * sequence_parallel_.size() *
                                offload_.size());
  }
  [[nodiscard]] int64_t of_stages() const {
    return static_cast<int64_t>(micro_batches_.size()) * of_schedule();
  }

  void ThisNumber(int64_t gpus) {
    for (const auto tp : DivisorsOf<int32_t>(gpus, gpus)) {
      for (const auto cp : DivisorsOf<int32_t>(gpus / tp, gpus)) {
        for (const auto pp : DivisorsOf<int32_t>(gpus / tp / cp, gpus)) {
          const auto dp = static_cast<int32_t>(gpus / tp / cp / pp);
          if (MayBe(choices_.tp, tp) && MayBe(choices_.cp, cp) && MayBe(choices_.pp, pp) &&
              MayBe(choices_.dp, dp)) {
            Layout({.tp = tp, .cp = cp, .dp = dp, .pp = pp});
          }
        }
      }
    }
  }

  void AnyNumber() {
    constexpr int64_t kTokensOfRank = 4096;
    const graph::ModelSpec& model = problem_.model;
    std::vector<int32_t> cps;
    for (int32_t cp = 1; cp == 1 || problem_.seq_len / cp >= kTokensOfRank; cp *= 2) {
      cps.push_back(cp);
    }
    std::vector<int32_t> pps;
    for (int32_t pp = 1; pp <= model.layers; ++pp) {
      if (DealsOut({.pp = pp})) {
        pps.push_back(pp);
      }
    }
    const std::vector<int32_t> tps =
        Or(choices_.tp, [&] { return DivisorsOf<int32_t>(model.heads, choices_.max_gpus); });
    const std::vector<int32_t> dps = Or(choices_.dp, [&] {
      return DivisorsOf<int32_t>(problem_.global_batch_size, choices_.max_gpus);
    });
    for (const int32_t tp : tps) {
      for (const int32_t cp : choices_.cp.empty() ? cps : choices_.cp) {
        for (const int32_t pp : choices_.pp.empty() ? pps : choices_.pp) {
          AnyReplicas({.tp = tp, .cp = cp, .pp = pp}, dps);
        }
      }
    }
  }

  void AnyReplicas(graph::ParallelSizes sizes, const std::vector<int32_t>& dps) {
    const int64_t node = problem_.cluster.gpus_per_node;
    for (const int32_t dp : dps) {
      sizes.dp = dp;
      if (IsTooLarge(sizes) || sizes.world_size() > choices_.max_gpus) {
        continue;
      }
      const int64_t gpus = sizes.world_size();
      if (gpus <= node || gpus % node == 0) {
        Layout(sizes);
      }
    }
  }

  void Reject(const std::string& reason, int64_t count) { space_.rejected[reason] += count; }

  // Experts are whole on a rank; the shared expert is divided like dense layers.
  [[nodiscard]] bool DividesAmong(int32_t tp) const {
    const graph::ModelSpec& model = problem_.model;
    const bool has_dense_layers = model.moe.experts == 0 || model.moe.dense_layers > 0;
    return model.heads % tp == 0 && (tp % model.kv_heads == 0 || model.kv_heads % tp == 0) &&
           (!has_dense_layers || model.ffn % tp == 0) && model.moe.shared_expert_ffn % tp == 0;
  }

  void Layout(const graph::ParallelSizes& sizes) {
    space_.candidates += of_layout_;
    if (!DividesAmong(sizes.tp)) {
      Reject("attention heads or feed-forward do not divide among tp", of_layout_);
    } else if (sizes.cp > 1 && !framework_.context_parallelism) {
      Reject(fmt::format("{} has no context parallelism", problem_.framework), of_layout_);
    } else if (sizes.cp > 1 && problem_.seq_len % (int64_t{2} * sizes.cp) != 0) {
      Reject("the sequence does not divide among cp", of_layout_);
    } else {
      for (const int32_t vpp : vpp_) {
        Chunks(sizes, vpp);
      }
    }
  }

  // Whether the framework can distribute the layers over the model chunks.
  [[nodiscard]] bool DealsOut(const graph::ParallelSizes& sizes) const {
    Plan plan;
    plan.parallel = sizes;
    const int64_t layers = problem_.model.layers;
    const int64_t chunks = int64_t{sizes.pp} * sizes.vpp;
    if (framework_.style(JobOf(problem_, plan)).layers_from_front) {
      return DivideUp(layers, chunks) * (chunks - 1) < layers;
    }
    return graph::LayersDivide(layers, chunks);
  }

  // Numbers of chunks that a stage may have: divisors of the layers and, for an odd number of
  // layers, the powers of two over which a framework can distribute them.
  [[nodiscard]] std::vector<int32_t> Interleavings() const {
    const int64_t layers = problem_.model.layers;
    std::vector<int32_t> numbers = DivisorsOf<int32_t>(layers, layers);
    if (layers % 2 == 1) {
      for (int32_t chunks = 2; DealsOut({.pp = 2, .vpp = chunks}); chunks *= 2) {
        numbers.push_back(chunks);
      }
      std::ranges::sort(numbers);
    }
    return numbers;
  }

  void Chunks(graph::ParallelSizes sizes, int32_t vpp) {
    sizes.vpp = vpp;
    const int64_t count = of_stages() * static_cast<int64_t>(ep_.size());
    if (vpp > 1 && sizes.pp == 1) {
      Reject("interleaving needs several stages", count);
      return;
    }
    if (vpp > 1 && !framework_.interleaving) {
      Reject(fmt::format("{} does not interleave stages", problem_.framework), count);
      return;
    }
    if (!DealsOut(sizes)) {
      Reject("layers do not divide among pp x vpp", count);
      return;
    }
    for (const int32_t ep : ep_) {
      sizes.ep = ep;
      Experts(sizes);
    }
  }

  void Experts(const graph::ParallelSizes& sizes) {
    const int64_t experts = problem_.model.moe.experts;
    if (sizes.ep > 1 && experts == 0) {
      Reject("ep without experts is the plan without it", of_stages());
    } else if (experts % sizes.ep != 0) {
      Reject("experts do not divide among ep", of_stages());
    } else if (int64_t{sizes.tp} * sizes.cp * sizes.dp % sizes.ep != 0) {
      Reject("ep does not divide the ranks of a stage", of_stages());
    } else {
      for (const int64_t micro_batch : micro_batches_) {
        Batch(sizes, micro_batch);
      }
    }
  }

  void Batch(const graph::ParallelSizes& sizes, int64_t micro_batch) {
    const int64_t together = micro_batch * sizes.dp;
    if (problem_.global_batch_size % together != 0) {
      Reject("the batch does not divide among dp x micro-batch", of_schedule());
      return;
    }
    if (sizes.vpp > 1 && problem_.global_batch_size / together % sizes.pp != 0) {
      Reject("interleaving needs micro-batches in multiples of pp", of_schedule());
      return;
    }
    Plan plan;
    plan.parallel = sizes;
    plan.micro_batch_size = micro_batch;
    if (const auto beyond = BeyondLimits(JobOf(problem_, plan))) {
      Reject(
          fmt::format("{} is more than the {} that can be predicted", beyond->name, beyond->most),
          of_schedule());
      return;
    }
    for (const graph::Recompute recompute : recompute_) {
      plan.recompute = recompute;
      for (const int32_t zero : zero_) {
        plan.zero_stage = zero;
        for (const bool sequence_parallel : sequence_parallel_) {
          plan.sequence_parallel = sequence_parallel;
          AddOffloads(plan);
        }
      }
    }
  }

  void AddOffloads(Plan plan) {
    for (const graph::Offload offload : offload_) {
      plan.offload = offload;
      Add(plan);
    }
  }

  void Add(const Plan& plan) {
    const graph::ParallelSizes& sizes = plan.parallel;
    const bool replicas = sizes.dp * sizes.cp > 1;
    if (plan.sequence_parallel && sizes.tp == 1) {
      Reject("sequence parallelism without tp is the plan without it", 1);
    } else if (plan.sequence_parallel && problem_.seq_len / sizes.cp % sizes.tp != 0) {
      Reject("the sequence does not divide among tp", 1);
    } else if (problem_.model.moe.experts > 0 && sizes.tp > 1 && !plan.sequence_parallel) {
      Reject("experts under tp need sequence parallelism: Megatron-Core refuses them without it",
             1);
    } else if (plan.zero_stage > 0 && !replicas) {
      Reject("ZeRO without replicas is the plan without it", 1);
    } else if (plan.zero_stage > (sizes.pp > 1 ? framework_.zero_in_pipeline : framework_.zero)) {
      Reject(fmt::format("{} has no ZeRO {}{}", problem_.framework, plan.zero_stage,
                         plan.zero_stage <= framework_.zero ? " in a pipeline" : ""),
             1);
    } else if (plan.zero_stage < 2 && replicas && always_shards_) {
      Reject("the framework always shards: ZeRO 0 and 1 are ZeRO 2 by other names", 1);
    } else if (plan.zero_stage == 3 && sizes.pp > 1 && framework_.keeps_gathered_in_pipeline) {
      Reject(
          fmt::format("{} keeps what a pipeline stage gathered: ZeRO 3 is ZeRO 2 by another name",
                      problem_.framework),
          1);
    } else if (plan.zero_stage == 2 && sizes.pp > 1 && !always_shards_) {
      Reject("ZeRO 2 in a pipeline reduces gradients in every micro-batch: not searched", 1);
    } else {
      space_.plans.push_back(plan);
    }
  }

  const SearchProblem& problem_;
  const PlanChoices& choices_;
  const Framework& framework_;
  bool always_shards_;
  std::vector<int32_t> vpp_;
  std::vector<int64_t> micro_batches_;
  std::vector<graph::Recompute> recompute_;
  std::vector<int32_t> zero_;
  std::vector<bool> sequence_parallel_;
  std::vector<graph::Offload> offload_;
  std::vector<int32_t> ep_;
  int64_t of_layout_ = 0;  // combinations with one (tp, cp, pp, dp)
  PlanSpace space_;
};

}  // namespace

PlanSpace EnumeratePlans(const SearchProblem& problem, const PlanChoices& choices) {
  return Enumeration(problem, choices).Run();
}

std::string WhyNoPlan(const SearchProblem& problem, const Plan& plan) {
  PlanChoices choices;
  choices.ep = {plan.parallel.ep};
  choices.vpp = {plan.parallel.vpp};
  choices.micro_batch_sizes = {plan.micro_batch_size};
  choices.recompute = {plan.recompute};
  choices.zero = {plan.zero_stage};
  choices.sequence_parallel = {plan.sequence_parallel};
  choices.offload = {plan.offload};
  const PlanSpace space = Enumeration(problem, choices).Run(plan.parallel);
  return space.plans.empty() ? space.rejected.begin()->first : "";
}

}  // namespace prism::launch
