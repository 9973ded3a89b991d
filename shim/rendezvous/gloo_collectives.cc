// Collectives of the replaced c10d::ProcessGroupGloo (process_group_gloo.cc).
#include <utility>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "shim/observer/torch_versions.h"
#include "shim/rendezvous/gloo_calls.h"
#include "shim/rendezvous/gloo_group.h"
#include "shim/rendezvous/host_buffer.h"
#include "shim/rendezvous/unequal_all_to_all.h"

namespace c10d {

using prism::shim::CheckOne;
using prism::shim::Collective;
using prism::shim::CpuGroup;
using prism::shim::ExchangeOperation;
using prism::shim::GroupOf;
using prism::shim::HostBuffer;
using prism::shim::HostList;
using prism::shim::Moved;
using prism::shim::Reduced;
using prism::shim::StartCollective;

namespace {

using Tensors = std::vector<at::Tensor>;
using WorkPointer = c10::intrusive_ptr<Work>;

std::vector<HostBuffer> BuffersOf(const Tensors& tensors) {
  return {tensors.begin(), tensors.end()};
}

WorkPointer AllReduce(CpuGroup& group, OpType type, const Tensors& tensors, const ReduceOp& op) {
  for (const at::Tensor& tensor : tensors) {
    Reduced(ExchangeOperation::kAllReduce, tensor, op);  // refuses before anything is in progress
  }
  return StartCollective(
      group, type, tensors, [buffers = BuffersOf(tensors), op](const Collective& collective) {
        for (const HostBuffer& buffer : buffers) {
          collective.Run(Reduced(ExchangeOperation::kAllReduce, buffer.tensor(), op), buffer.data(),
                         buffer.data());
          buffer.Publish();
        }
      });
}

// Pairs of a large tensor and a rank's part of it.
using Pairs = std::vector<std::pair<HostBuffer, HostBuffer>>;

Pairs PairsOf(const Tensors& whole, const Tensors& part, int size) {
  TORCH_CHECK(whole.size() == part.size(), "requires as many input tensors as output tensors");
  Pairs pairs;
  for (size_t i = 0; i < whole.size(); ++i) {
    TORCH_CHECK(whole[i].numel() == part[i].numel() * size,
                "the large tensor must be the size of world_size times the small one");
    pairs.emplace_back(HostBuffer(whole[i]), HostBuffer(part[i]));
  }
  return pairs;
}

WorkPointer AllGatherInto(CpuGroup& group, OpType type, const Tensors& whole, const Tensors& part) {
  return StartCollective(
      group, type, whole,
      [pairs = PairsOf(whole, part, group.size())](const Collective& collective) {
        for (const auto& [output, input] : pairs) {
          collective.Run(Moved(ExchangeOperation::kAllGather, input.bytes()), input.data(),
                         output.data());
          output.Publish();
        }
      });
}

WorkPointer ReduceScatterFrom(CpuGroup& group,
                              const Tensors& part,
                              const Tensors& whole,
                              const ReduceOp& op) {
  Pairs pairs = PairsOf(whole, part, group.size());
  return StartCollective(group, OpType::_REDUCE_SCATTER_BASE, part,
                         [pairs = std::move(pairs), op](const Collective& collective) {
                           for (const auto& [input, output] : pairs) {
                             collective.Run(
                                 Reduced(ExchangeOperation::kReduceScatter, output.tensor(), op),
                                 input.data(), output.data());
                             output.Publish();
                           }
                         });
}

void CheckList(const char* method, const Tensors& list, int size) {
  TORCH_CHECK(list.size() == static_cast<size_t>(size), "ProcessGroupGloo::", method,
              ": requires one tensor for each rank");
}

}  // namespace

WorkPointer ProcessGroupGloo::broadcast(Tensors& tensors, const BroadcastOptions& opts) {
  CheckOne("broadcast", tensors);
  return StartCollective(
      GroupOf(*this, contexts_), OpType::BROADCAST, tensors,
      [buffer = HostBuffer(tensors[0]), root = opts.rootRank](const Collective& collective) {
        collective.Run(Moved(ExchangeOperation::kBroadcast, buffer.bytes(), root), buffer.data(),
                       buffer.data());
        buffer.Publish();
      },
      opts.rootRank);
}

WorkPointer ProcessGroupGloo::allreduce(Tensors& tensors, const AllreduceOptions& opts) {
  CheckOne("allreduce", tensors);
  return AllReduce(GroupOf(*this, contexts_), OpType::ALLREDUCE, tensors, opts.reduceOp);
}

WorkPointer ProcessGroupGloo::allreduce_coalesced(Tensors& tensors,
                                                  const AllreduceCoalescedOptions& opts) {
  return AllReduce(GroupOf(*this, contexts_), OpType::ALLREDUCE_COALESCED, tensors, opts.reduceOp);
}

// Absent ranks have the same indices, so the sum is a multiple.
WorkPointer ProcessGroupGloo::allreduce_sparse(Tensors& tensors, const AllreduceOptions& opts) {
  CheckOne("allreduce", tensors);
  CpuGroup& group = GroupOf(*this, contexts_);
  TORCH_CHECK(opts.reduceOp == ReduceOp::SUM, "allreduce of sparse tensors only works with SUM");
  TORCH_CHECK(group.IsAlone(),
              "allreduce of sparse tensors is not supported between several sandbox ranks");
  at::Tensor sum = tensors[0].coalesce() * group.size();
  return StartCollective(
      group, OpType::_ALLREDUCE_SPARSE, {sum},
      [target = tensors[0], sum](const Collective&) mutable { target.copy_(sum); });
}

WorkPointer ProcessGroupGloo::reduce(Tensors& tensors, const ReduceOptions& opts) {
  CheckOne("reduce", tensors);
  return StartCollective(
      GroupOf(*this, contexts_), OpType::REDUCE, tensors,
      [buffer = HostBuffer(tensors[0]), opts](const Collective& collective) {
        collective.Run(
            Reduced(ExchangeOperation::kReduce, buffer.tensor(), opts.reduceOp, opts.rootRank),
            buffer.data(), buffer.data());
        buffer.Publish();
      },
      opts.rootRank);
}

WorkPointer ProcessGroupGloo::PRISM_TORCH_ALL_GATHER(at::Tensor& output_tensor,
                                                     at::Tensor& input_tensor,
                                                     const AllgatherOptions& /*opts*/) {
  return AllGatherInto(GroupOf(*this, contexts_), OpType::_ALLGATHER_BASE, {output_tensor},
                       {input_tensor});
}

WorkPointer ProcessGroupGloo::PRISM_TORCH_ALL_GATHERS(Tensors& outputs,
                                                      Tensors& inputs,
                                                      const AllgatherOptions& /*opts*/) {
  return AllGatherInto(GroupOf(*this, contexts_), OpType::ALLGATHER_COALESCED, outputs, inputs);
}

WorkPointer ProcessGroupGloo::allgather(std::vector<Tensors>& outputs,
                                        Tensors& inputs,
                                        const AllgatherOptions& /*opts*/) {
  CheckOne("allgather", inputs);
  TORCH_CHECK(outputs.size() == 1, "ProcessGroupGloo::allgather: requires one list of outputs");
  CheckList("allgather", outputs[0], size_);
  return StartCollective(GroupOf(*this, contexts_), OpType::ALLGATHER, outputs[0],
                         [list = HostList(outputs[0], false),
                          buffer = HostBuffer(inputs[0])](const Collective& collective) {
                           collective.Run(Moved(ExchangeOperation::kAllGather, buffer.bytes()),
                                          buffer.data(), list.data());
                           list.Publish();
                         });
}

// The outputs are one list per rank; a buffer is gathered over all of them.
WorkPointer ProcessGroupGloo::allgather_coalesced(std::vector<Tensors>& output_lists,
                                                  Tensors& input_list,
                                                  const AllgatherOptions& /*opts*/) {
  TORCH_CHECK(output_lists.size() == static_cast<size_t>(size_),
              "output lists should be equal to world size");
  std::vector<std::pair<HostList, HostBuffer>> gathers;
  Tensors all;
  for (size_t i = 0; i < input_list.size(); ++i) {
    Tensors outputs;
    for (const Tensors& list : output_lists) {
      outputs.push_back(list.at(i));
    }
    gathers.emplace_back(HostList(outputs, false), HostBuffer(input_list[i]));
    all.insert(all.end(), outputs.begin(), outputs.end());
  }
  return StartCollective(GroupOf(*this, contexts_), OpType::ALLGATHER_COALESCED, std::move(all),
                         [gathers = std::move(gathers)](const Collective& collective) {
                           for (const auto& [list, buffer] : gathers) {
                             collective.Run(Moved(ExchangeOperation::kAllGather, buffer.bytes()),
                                            buffer.data(), list.data());
                             list.Publish();
                           }
                         });
}

WorkPointer ProcessGroupGloo::gather(std::vector<Tensors>& outputs,
                                     Tensors& inputs,
                                     const GatherOptions& opts) {
  CheckOne("gather", inputs);
  const bool is_root = opts.rootRank == rank_;
  TORCH_CHECK(outputs.size() == (is_root ? 1 : 0),
              "ProcessGroupGloo::gather: requires one list of outputs on the root only");
  std::vector<HostList> lists;
  if (is_root) {
    CheckList("gather", outputs[0], size_);
    lists.emplace_back(outputs[0], false);
  }
  return StartCollective(
      GroupOf(*this, contexts_), OpType::GATHER, is_root ? outputs[0] : Tensors(),
      [lists = std::move(lists), buffer = HostBuffer(inputs[0]),
       root = opts.rootRank](const Collective& collective) {
        collective.Run(Moved(ExchangeOperation::kGather, buffer.bytes(), root), buffer.data(),
                       lists.empty() ? nullptr : lists[0].data());
        if (!lists.empty()) {
          lists[0].Publish();
        }
      },
      opts.rootRank);
}

WorkPointer ProcessGroupGloo::scatter(Tensors& outputs,
                                      std::vector<Tensors>& inputs,
                                      const ScatterOptions& opts) {
  CheckOne("scatter", outputs);
  const bool is_root = opts.rootRank == rank_;
  TORCH_CHECK(inputs.size() == (is_root ? 1 : 0),
              "ProcessGroupGloo::scatter: requires one list of inputs on the root only");
  std::vector<HostList> lists;
  if (is_root) {
    CheckList("scatter", inputs[0], size_);
    lists.emplace_back(inputs[0], true);
  }
  return StartCollective(
      GroupOf(*this, contexts_), OpType::SCATTER, outputs,
      [lists = std::move(lists), buffer = HostBuffer(outputs[0]),
       root = opts.rootRank](const Collective& collective) {
        collective.Run(Moved(ExchangeOperation::kScatter, buffer.bytes(), root),
                       lists.empty() ? nullptr : lists[0].data(), buffer.data());
        buffer.Publish();
      },
      opts.rootRank);
}

WorkPointer ProcessGroupGloo::reduce_scatter(Tensors& outputs,
                                             std::vector<Tensors>& inputs,
                                             const ReduceScatterOptions& opts) {
  CheckOne("reduce_scatter", outputs);
  TORCH_CHECK(inputs.size() == 1, "ProcessGroupGloo::reduce_scatter: requires one list of inputs");
  CheckList("reduce_scatter", inputs[0], size_);
  return StartCollective(GroupOf(*this, contexts_), OpType::REDUCE_SCATTER, outputs,
                         [list = HostList(inputs[0], true), buffer = HostBuffer(outputs[0]),
                          op = opts.reduceOp](const Collective& collective) {
                           collective.Run(
                               Reduced(ExchangeOperation::kReduceScatter, buffer.tensor(), op),
                               list.data(), buffer.data());
                           buffer.Publish();
                         });
}

WorkPointer ProcessGroupGloo::PRISM_TORCH_REDUCE_SCATTER(at::Tensor& outputTensor,
                                                         at::Tensor& inputTensor,
                                                         const ReduceScatterOptions& opts) {
  return ReduceScatterFrom(GroupOf(*this, contexts_), {outputTensor}, {inputTensor}, opts.reduceOp);
}

WorkPointer ProcessGroupGloo::PRISM_TORCH_REDUCE_SCATTERS(Tensors& outputTensors,
                                                          Tensors& inputTensors,
                                                          const ReduceScatterOptions& opts) {
  return ReduceScatterFrom(GroupOf(*this, contexts_), outputTensors, inputTensors, opts.reduceOp);
}

WorkPointer ProcessGroupGloo::PRISM_TORCH_ALL_TO_ALL(at::Tensor& outputTensor,
                                                     at::Tensor& inputTensor,
                                                     std::vector<int64_t>& outputCounts,
                                                     std::vector<int64_t>& inputCounts,
                                                     const AllToAllOptions& /*opts*/) {
  CpuGroup& group = GroupOf(*this, contexts_);
  if (!outputCounts.empty() || !inputCounts.empty()) {
    return prism::shim::StartUnequalAllToAll(group, {outputTensor, outputCounts},
                                             {inputTensor, inputCounts});
  }
  TORCH_CHECK(outputTensor.numel() == inputTensor.numel() && inputTensor.size(0) % size_ == 0,
              "alltoall_base: tensors of one size that the number of ranks divides are needed");
  return StartCollective(group, OpType::ALLTOALL_BASE, {outputTensor},
                         [output = HostBuffer(outputTensor), input = HostBuffer(inputTensor),
                          size = static_cast<size_t>(size_)](const Collective& collective) {
                           collective.Run(Moved(ExchangeOperation::kAllToAll, input.bytes() / size),
                                          input.data(), output.data());
                           output.Publish();
                         });
}

#if PRISM_TORCH_GLOO_HAS_ALL_TO_ALL
WorkPointer ProcessGroupGloo::alltoall(Tensors& outputs,
                                       Tensors& inputs,
                                       const AllToAllOptions& /*opts*/) {
  CheckList("alltoall", outputs, size_);
  CheckList("alltoall", inputs, size_);
  return prism::shim::StartListedAllToAll(GroupOf(*this, contexts_), outputs, inputs);
}
#endif

}  // namespace c10d
