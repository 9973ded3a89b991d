#include "replayer/engine/role_plan.h"

#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "replayer/cost/compute_cost.h"
#include "replayer/cost/parameters.h"
#include "replayer/engine/speedup.h"

namespace prism::replayer {
namespace {

using graph::OpKind;

// Walks a program once, in issue order.
class Builder {
 public:
  Builder(const graph::Program& program, const OpCosts& costs, double compute_scale)
      : program_(program), costs_(costs), compute_scale_(compute_scale) {
    plan_.program = &program;
    plan_.streams.resize(program.stream_count);
    plan_.most_transfers.resize(program.stream_count);
    plan_.host_ns.reserve(program.size());
    plan_.calls_per_slot.resize(program.comm_slot_count);
    compute_before_.resize(program.stream_count);
    kernels_before_.resize(program.stream_count);
    kernel_ns_.resize(program.stream_count);
    outstanding_.resize(program.stream_count);
  }

  RolePlan Build() && {
    NumberEvents();
    for (uint32_t op = 0; op < program_.size(); ++op) {
      host_ns_ += HostCost(op);
      plan_.host_ns.push_back(host_ns_);
      AddOp(op);
    }
    CountTransfers();
    plan_.folds = FoldRuns(plan_);
    ChooseFirst();
    return std::move(plan_);
  }

 private:
  // A collective that no wait has covered yet, and how much compute each stream had before it.
  struct Outstanding {
    uint32_t op;
    uint32_t transfer;
    std::vector<DurationNs> compute_before;  // by stream
    std::vector<uint32_t> kernels_before;    // by stream
  };

  // Chooses the stream on which the rank issues its first op, unless nothing holds that stream
  // back: one that only copies the next batch, and waits neither for other streams nor for other
  // ranks, runs ahead of the iterations. Then the stream with the most kernel time is chosen, by
  // durations that no perturbation scales, so that all ranks of a role choose the same.
  void ChooseFirst() {
    if (plan_.first_op == kNone) {
      return;
    }
    uint16_t chosen = plan_.first_stream;
    if (!IsHeldBack(chosen)) {
      for (uint16_t stream = 0; stream < plan_.streams.size(); ++stream) {
        if (kernels_before_[stream] == 0 || !CanBeReachedAlone(stream)) {
          continue;
        }
        const bool more = kernel_ns_[stream] > kernel_ns_[chosen];
        chosen = more || kernels_before_[chosen] == 0 ? stream : chosen;
      }
    }
    plan_.first_stream = chosen;
    plan_.first_op = FirstOf(chosen);
    plan_.ahead = HostWaitsUntil(plan_.first_op);
  }

  // A group's last.
  [[nodiscard]] uint32_t FirstOf(uint16_t stream) const { return plan_.streams[stream].front().op; }

  // Number of ops up to the last host wait before `op`.
  [[nodiscard]] uint32_t HostWaitsUntil(uint32_t op) const {
    uint32_t until = 0;
    for (const HostWait& wait : plan_.host_waits) {
      until = wait.op < op ? wait.op + 1 : until;
    }
    return until;
  }

  // Whether the host reaches the first op of the stream without waiting for other ranks.
  [[nodiscard]] bool CanBeReachedAlone(uint16_t stream) const {
    const uint32_t until = HostWaitsUntil(FirstOf(stream));
    return std::none_of(program_.kind.begin(), program_.kind.begin() + until, [](OpKind kind) {
      return kind == OpKind::kCollective || kind == OpKind::kPeerGroup;
    });
  }

  [[nodiscard]] bool IsHeldBack(uint16_t stream) const {
    const std::vector<Step>& steps = plan_.streams[stream];
    return std::ranges::any_of(steps, [](const Step& step) {
      return step.kind == StepKind::kCollective || step.kind == StepKind::kPeerGroup ||
             (step.kind == StepKind::kWait && step.aux != kNone);
    });
  }

  void CountTransfers() {
    for (size_t stream = 0; stream < plan_.streams.size(); ++stream) {
      for (const Step& step : plan_.streams[stream]) {
        uint32_t transfers = 0;
        if (step.kind == StepKind::kPeerGroup) {
          transfers = plan_.groups[step.aux].end - plan_.groups[step.aux].begin;
        }
        for (uint32_t c = step.aux; step.kind == StepKind::kCollective && c != kNone;
             c = plan_.calls[c].next_in_group) {
          ++transfers;
        }
        plan_.most_transfers[stream] = std::max(plan_.most_transfers[stream], transfers);
      }
    }
  }

  void NumberEvents() {
    event_of_.assign(program_.size(), kNone);
    for (uint32_t op = 0; op < program_.size(); ++op) {
      uint32_t dep = program_.dep[op];
      if (dep != graph::kNoDep && event_of_[dep] == kNone) {
        event_of_[dep] = plan_.event_count++;
      }
    }
  }

  [[nodiscard]] DurationNs HostCost(uint32_t op) const {
    if ((program_.flags[op] & graph::kLaunchedWithPrevious) != 0) {
      return 0;
    }
    OpKind kind = program_.kind[op];
    return kind == OpKind::kHostGap ? SpedUp(op, program_.value[op])
                                    : costs_.host[static_cast<size_t>(kind)];
  }

  [[nodiscard]] DurationNs SpedUp(uint32_t op, DurationNs duration) const {
    const bool changes = costs_.sped_up != nullptr && Speedup::Has(*costs_.sped_up, op);
    return changes ? ScaledCompute(duration, costs_.factor) : duration;
  }

  [[nodiscard]] bool Fixed(uint32_t op) const {
    return (program_.flags[op] & graph::kDurationFixed) != 0;
  }

  void AddOp(uint32_t op) {
    BreakBatch(op);
    switch (program_.kind[op]) {
      case OpKind::kKernel:
      case OpKind::kMemcpy:
      case OpKind::kMemset:
        AddWork(op);
        break;
      case OpKind::kEventRecord:
        Push(op, StepKind::kRecord).aux = event_of_[op];
        break;
      case OpKind::kEventWait:
        AddEventWait(op);
        break;
      case OpKind::kCollective:
        AddCollective(op);
        break;
      case OpKind::kPeerGroup:
        AddPeerGroup(op);
        break;
      case OpKind::kEventSync:
      case OpKind::kStreamSync:
      case OpKind::kDeviceSync:
        AddHostWait(op);
        break;
      case OpKind::kHostGap:
      case OpKind::kSegmentAlloc:
      case OpKind::kSegmentFree:
      case OpKind::kMarker:
        break;
    }
  }

  Step& Push(uint32_t op, StepKind kind) {
    uint16_t stream = program_.stream[op];
    if (plan_.first_op == kNone) {
      plan_.first_op = op;
      plan_.first_stream = stream;
    }
    Step step;
    step.op = op;
    step.kind = kind;
    step.host_ns = host_ns_;
    plan_.streams[stream].push_back(step);
    return plan_.streams[stream].back();
  }

  void AddWork(uint32_t op) {
    OpKind kind = program_.kind[op];
    Step& step = Push(op, StepKind::kWork);
    uint8_t host_copy = graph::kHostToDevice | graph::kDeviceToHost;
    step.compute = kind != OpKind::kMemcpy || (program_.flags[op] & host_copy) == 0;
    DurationNs duration = 0;
    if (Fixed(op)) {
      duration = program_.value[op];
    } else if (kind == OpKind::kKernel) {
      duration = costs_.kernel[program_.signature[op]];
    } else if (kind == OpKind::kMemcpy) {
      duration = costs_.compute->Copy(program_.value[op], program_.flags[op]);
    } else {
      duration = costs_.compute->Memset(program_.value[op]);
    }
    duration = SpedUp(op, duration);
    step.duration = step.compute ? ScaledCompute(duration, compute_scale_) : duration;
    if (kind == OpKind::kKernel) {
      compute_before_[program_.stream[op]] += step.duration;
      kernel_ns_[program_.stream[op]] += duration;
      ++kernels_before_[program_.stream[op]];
    }
  }

  void AddEventWait(uint32_t op) {
    uint32_t dep = program_.dep[op];
    Step& step = Push(op, StepKind::kWait);
    if (dep != graph::kNoDep) {
      step.aux = event_of_[dep];
      uint16_t waiting = program_.stream[op];
      // Only a stream that computes pays; others pass the charge on.
      if (kernels_before_[waiting] > 0 && waiting != program_.stream[dep]) {
        step.charge = Settle(program_.stream[dep], dep, waiting);
      }
    }
  }

  void AddCollective(uint32_t op) {
    uint16_t slot = program_.comm_slot[op];
    DurationNs fixed = Fixed(op) ? program_.value[op] : -1;
    auto key = std::make_tuple(slot, program_.signature[op], fixed);
    auto [found, is_new] =
        transfer_ids_.try_emplace(key, static_cast<uint32_t>(plan_.transfers.size()));
    if (is_new) {
      plan_.transfers.push_back({slot, program_.signature[op], fixed});
    }
    auto call = static_cast<uint32_t>(plan_.calls.size());
    plan_.calls.push_back({op, slot, plan_.calls_per_slot[slot]++, found->second, kNone, kNone});
    if (!JoinGroup(call)) {
      Push(op, StepKind::kCollective).aux = call;
    }
    outstanding_[program_.stream[op]].push_back(
        {op, found->second, compute_before_, kernels_before_});
  }

  // Makes the call part of the step before it on its stream when both belong to one NCCL group.
  bool JoinGroup(uint32_t call) {
    uint32_t op = plan_.calls[call].op;
    std::vector<Step>& steps = plan_.streams[program_.stream[op]];
    if (steps.empty() || steps.back().kind != StepKind::kCollective ||
        (program_.flags[steps.back().op] & graph::kGroupedWithNext) == 0) {
      return false;
    }
    uint32_t last = steps.back().aux;
    uint32_t same_slot = kNone;
    while (true) {
      if (plan_.calls[last].comm_slot == plan_.calls[call].comm_slot) {
        same_slot = last;
      }
      if (plan_.calls[last].next_in_group == kNone) {
        break;
      }
      last = plan_.calls[last].next_in_group;
    }
    plan_.calls[last].next_in_group = call;
    plan_.calls[call].previous_on_slot = same_slot;
    steps.back().op = op;
    steps.back().host_ns = host_ns_;
    return true;
  }

  // Ends a batch of sends and receives where something may keep the next one from running beside
  // them: work, a host wait, a wait for one of them, or their stream.
  void BreakBatch(uint32_t op) {
    const OpKind kind = program_.kind[op];
    const bool goes_on =
        kind == OpKind::kEventRecord || kind == OpKind::kMarker ||
        (kind == OpKind::kEventWait &&
         (program_.dep[op] == graph::kNoDep || program_.dep[op] < batch_op_)) ||
        (kind == OpKind::kPeerGroup && !batch_streams_.contains(program_.stream[op]));
    if (!goes_on) {
      ++batch_;
      batch_op_ = op;
      batch_streams_.clear();
    }
    if (kind == OpKind::kPeerGroup) {
      batch_streams_.insert(program_.stream[op]);
    }
  }

  void AddPeerGroup(uint32_t op) {
    Push(op, StepKind::kPeerGroup).aux = static_cast<uint32_t>(plan_.groups.size());
    auto begin = static_cast<uint32_t>(plan_.posts.size());
    for (const graph::PeerTransfer& transfer :
         program_.peer_groups[program_.signature[op]].transfers) {
      uint32_t endpoint = EndpointOf(transfer);
      uint32_t sequence = plan_.endpoints[endpoint].per_iteration++;
      DurationNs fixed = Fixed(op) ? program_.value[op] : -1;
      plan_.posts.push_back({endpoint, sequence, transfer.bytes, fixed});
    }
    plan_.groups.push_back({begin, static_cast<uint32_t>(plan_.posts.size()), batch_});
  }

  uint32_t EndpointOf(const graph::PeerTransfer& transfer) {
    const auto [found, is_new] = endpoint_ids_.try_emplace(
        std::make_tuple(transfer.comm_slot, transfer.peer_slot, transfer.is_send),
        static_cast<uint32_t>(plan_.endpoints.size()));
    if (is_new) {
      plan_.endpoints.push_back({transfer.comm_slot, transfer.peer_slot, transfer.is_send, 0});
    }
    return found->second;
  }

  void AddHostWait(uint32_t op) {
    HostWait wait;
    wait.op = op;
    wait.kind = program_.kind[op];
    if (wait.kind == OpKind::kEventSync) {
      uint32_t dep = program_.dep[op];
      if (dep == graph::kNoDep) {
        return;  // complete since an earlier iteration
      }
      wait.event = event_of_[dep];
      wait.stream = program_.stream[dep];
      wait.charge = Settle(program_.stream[dep], dep, kAnyStream);
    } else if (wait.kind == OpKind::kStreamSync) {
      wait.stream = program_.stream[op];
      wait.charge = Settle(wait.stream, op, kAnyStream);
    } else {
      for (uint16_t stream = 0; stream < program_.stream_count; ++stream) {
        wait.charge = Settle(stream, op, kAnyStream, wait.charge);
      }
    }
    plan_.host_waits.push_back(wait);
  }

  // Stream `waiting` waits for the collectives that were issued on `stream` before op `until`:
  // returns their charges as one. A wait by the host sees the compute of all other streams.
  uint32_t Settle(uint16_t stream, uint32_t until, uint32_t waiting, uint32_t charge = kNone) {
    std::vector<Outstanding>& list = outstanding_[stream];
    size_t settled = 0;
    while (settled < list.size() && list[settled].op < until) {
      const Outstanding& collective = list[settled++];
      DurationNs compute = 0;
      uint32_t kernels = 0;
      for (uint16_t s = 0; s < program_.stream_count; ++s) {
        if (s != stream && (waiting == kAnyStream || waiting == s)) {
          compute += compute_before_[s] - collective.compute_before[s];
          kernels += kernels_before_[s] - collective.kernels_before[s];
        }
      }
      if (kernels > 0) {
        charge = charge == kNone ? plan_.charge_count++ : charge;
        plan_.charge_sources.push_back({charge, collective.transfer, compute});
      }
    }
    list.erase(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(settled));
    return charge;
  }

  static constexpr uint32_t kAnyStream = kNone;

  const graph::Program& program_;
  const OpCosts& costs_;
  double compute_scale_;
  RolePlan plan_;
  DurationNs host_ns_ = 0;
  uint32_t batch_ = 0;                                 // of sends and receives
  uint32_t batch_op_ = 0;                              // since this op
  std::set<uint16_t> batch_streams_;                   // that have one of them
  std::vector<uint32_t> event_of_;                     // by op: event, for records that are waited
                                                       // for
  std::vector<DurationNs> compute_before_;             // by stream: kernel time so far
  std::vector<uint32_t> kernels_before_;               // by stream
  std::vector<DurationNs> kernel_ns_;                  // by stream: the same at scale 1
  std::vector<std::vector<Outstanding>> outstanding_;  // by stream
  std::map<std::tuple<uint16_t, uint32_t, DurationNs>, uint32_t> transfer_ids_;
  std::map<std::tuple<uint16_t, uint16_t, bool>, uint32_t> endpoint_ids_;
};

}  // namespace

OpCosts OpCostsOf(const graph::Graph& graph,
                  const graph::ClusterSpec& cluster,
                  const ComputeCost* compute) {
  OpCosts costs;
  for (const graph::KernelSignature& signature : graph.signatures) {
    costs.kernel.push_back(compute->Kernel(graph, signature).duration_ns);
  }
  costs.host = HostCosts(cluster.parameters);
  costs.compute = compute;
  return costs;
}

DurationNs ScaledCompute(DurationNs duration, double scale) {
  return scale == 1 ? duration : std::llround(static_cast<double>(duration) * scale);
}

RolePlan MakeRolePlan(const graph::Program& program, const OpCosts& costs, double compute_scale) {
  return Builder(program, costs, compute_scale).Build();
}

}  // namespace prism::replayer
