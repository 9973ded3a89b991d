// The process groups of one rank. Members of every group are an arithmetic progression of global
// ranks, because that is all that c10d passes to the NCCL replacement about them.
//
// Groups: tp, cp, pp; dp, which with context parallelism contains the ranks along cp and dp,
// because all of them have the same parameters; ep, inside dp, and expert-dp, the ranks along dp
// that have the same experts; embedding (first and last stage, for the gradient of tied
// embeddings); world (ZeRO 1 to 3: the gradient norm of flat shards is summed over all ranks). With
// ZeRO 0 the norm is summed over tp and then over pp, two small reductions instead of one over
// Megatron's model-parallel group, which is not an arithmetic progression.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "launch/trainer/args.h"

namespace prism::launch {

// Membership of a group: ranks start, start + stride, ... ; index is this rank's position among
// them.
struct GroupSpec {
  std::string name;
  int32_t start = 0;
  int32_t stride = 1;
  int32_t size = 1;
  int32_t index = 0;
};

// A group with the backend that moves its data; no backend if the group has one member or this rank
// does not belong to it.
struct Group {
  GroupSpec spec;
  c10::intrusive_ptr<c10d::Backend> backend;

  [[nodiscard]] int32_t size() const { return spec.size; }
  [[nodiscard]] int32_t index() const { return spec.index; }
  [[nodiscard]] bool alone() const { return backend == nullptr; }
};

struct ParallelGroups {
  Group tp;
  Group cp;
  Group dp;
  Group ep;         // one member without experts
  Group expert_dp;  // the same
  Group pp;
  Group embedding;
  Group world;
};

using BackendFactory = std::function<c10::intrusive_ptr<c10d::Backend>(const GroupSpec&)>;

// Makes the groups that the job needs, in the same order on all ranks.
ParallelGroups MakeParallelGroups(const WorkloadConfig& config, const BackendFactory& factory);

// Shuts the backends down in an orderly way. The device must be idle and the groups no longer in
// use.
void ShutDown(const ParallelGroups& groups);

// Collectives on one group. Blocking calls make the current stream wait, not the host; `Start...`
// calls return a handle whose wait() does. All do nothing (null handle) if the rank is alone in the
// group.
using Handle = c10::intrusive_ptr<c10d::Work>;

void AllReduce(const Group& group,
               at::Tensor tensor,
               c10d::ReduceOp::RedOpType op = c10d::ReduceOp::SUM);
void AllGather(const Group& group, at::Tensor output, at::Tensor input);
void ReduceScatter(const Group& group, at::Tensor output, at::Tensor input);
void AllToAll(const Group& group, at::Tensor output, at::Tensor input);  // parts of equal size
Handle StartAllReduce(const Group& group, at::Tensor tensor);
Handle StartAllGather(const Group& group, at::Tensor output, at::Tensor input);
Handle StartReduceScatter(const Group& group, at::Tensor output, at::Tensor input);
void Wait(const Handle& handle);  // null: nothing to wait for

}  // namespace prism::launch
