#include "launch/trainer/parallel_groups.h"

#include <utility>

#include "shim/observer/torch_versions.h"

namespace prism::launch {
namespace {

Group MakeGroup(GroupSpec spec, const BackendFactory& factory) {
  Group group;
  group.spec = std::move(spec);
  if (group.spec.size > 1) {
    group.backend = factory(group.spec);
  }
  return group;
}

// Calls on libtorch's backend take lists; here of one tensor.
Handle AllReduceImpl(const Group& group,
                     at::Tensor tensor,
                     c10d::ReduceOp::RedOpType op,
                     bool async) {
  if (group.alone()) {
    return nullptr;
  }
  c10d::AllreduceOptions options;
  options.reduceOp = op;
#if PRISM_TORCH_SAYS_ASYNC
  options.asyncOp = async;
#else
  static_cast<void>(async);
#endif
  std::vector<at::Tensor> tensors = {std::move(tensor)};
  return group.backend->allreduce(tensors, options);
}

Handle AllGatherImpl(const Group& group, at::Tensor output, at::Tensor input, bool async) {
  if (group.alone()) {
    return nullptr;
  }
  c10d::AllgatherOptions options;
  options.asyncOp = async;
  return group.backend->_allgather_base(output, input, options);
}

Handle ReduceScatterImpl(const Group& group, at::Tensor output, at::Tensor input, bool async) {
  if (group.alone()) {
    return nullptr;
  }
  c10d::ReduceScatterOptions options;
  options.asyncOp = async;
  return group.backend->_reduce_scatter_base(output, input, options);
}

}  // namespace

ParallelGroups MakeParallelGroups(const WorkloadConfig& config, const BackendFactory& factory) {
  const graph::ParallelSizes& sizes = config.job.parallel;
  const auto rank = static_cast<int32_t>(config.rank.value());
  const int32_t replicas = sizes.cp * sizes.dp;
  const int32_t stage_ranks = sizes.tp * replicas;
  const int32_t tp_rank = config.tp_rank();
  const int32_t cp_rank = config.cp_rank();
  const int32_t replica = config.dp_rank() * sizes.cp + cp_rank;
  const int32_t pp_rank = config.pp_rank();

  ParallelGroups groups;
  groups.tp = MakeGroup({"tp", rank - tp_rank, 1, sizes.tp, tp_rank}, factory);
  groups.cp = MakeGroup({"cp", rank - cp_rank * sizes.tp, sizes.tp, sizes.cp, cp_rank}, factory);
  groups.dp = MakeGroup(
      {sizes.cp > 1 ? "dp-cp" : "dp", rank - replica * sizes.tp, sizes.tp, replicas, replica},
      factory);
  if (config.job.model.moe.experts > 0) {
    const int32_t ep_rank = config.ep_rank();
    const int32_t copy = config.dp_rank() / sizes.ep;
    groups.ep = MakeGroup({"ep", rank - ep_rank * sizes.tp, sizes.tp, sizes.ep, ep_rank}, factory);
    groups.expert_dp = MakeGroup({"expert-dp", rank - copy * sizes.tp * sizes.ep,
                                  sizes.tp * sizes.ep, sizes.dp / sizes.ep, copy},
                                 factory);
  }
  groups.pp =
      MakeGroup({"pp", rank - pp_rank * stage_ranks, stage_ranks, sizes.pp, pp_rank}, factory);
  const bool at_an_end = pp_rank == 0 || pp_rank == sizes.pp - 1;
  if (config.job.model.tied_embeddings && sizes.pp > 1 && at_an_end) {
    groups.embedding = MakeGroup({"embedding", rank - pp_rank * stage_ranks,
                                  (sizes.pp - 1) * stage_ranks, 2, pp_rank == 0 ? 0 : 1},
                                 factory);
  }
  if (config.job.zero_stage >= 1) {
    groups.world =
        MakeGroup({"world", 0, 1, static_cast<int32_t>(sizes.world_size()), rank}, factory);
  }
  return groups;
}

void ShutDown(const ParallelGroups& groups) {
  for (const Group* group : {&groups.world, &groups.embedding, &groups.pp, &groups.expert_dp,
                             &groups.ep, &groups.dp, &groups.cp, &groups.tp}) {
#if PRISM_TORCH_SHUTS_DOWN
    if (!group->alone()) {
      group->backend->shutdown();
    }
#else
    static_cast<void>(group);
#endif
  }
}

void AllReduce(const Group& group, at::Tensor tensor, c10d::ReduceOp::RedOpType op) {
  Wait(AllReduceImpl(group, std::move(tensor), op, false));
}

void AllGather(const Group& group, at::Tensor output, at::Tensor input) {
  Wait(AllGatherImpl(group, std::move(output), std::move(input), false));
}

void ReduceScatter(const Group& group, at::Tensor output, at::Tensor input) {
  Wait(ReduceScatterImpl(group, std::move(output), std::move(input), false));
}

void AllToAll(const Group& group, at::Tensor output, at::Tensor input) {
  if (!group.alone()) {
    c10d::AllToAllOptions options;
#if PRISM_TORCH_SAYS_ASYNC
    options.asyncOp = false;
#endif
    std::vector<int64_t> even;  // parts of equal size
    Wait(group.backend->alltoall_base(output, input, even, even, options));
  }
}

Handle StartAllReduce(const Group& group, at::Tensor tensor) {
  return AllReduceImpl(group, std::move(tensor), c10d::ReduceOp::SUM, true);
}

Handle StartAllGather(const Group& group, at::Tensor output, at::Tensor input) {
  return AllGatherImpl(group, std::move(output), std::move(input), true);
}

Handle StartReduceScatter(const Group& group, at::Tensor output, at::Tensor input) {
  return ReduceScatterImpl(group, std::move(output), std::move(input), true);
}

void Wait(const Handle& handle) {
  if (handle) {
    handle->wait();
  }
}

}  // namespace prism::launch
