// Neither the order in which classes run nor the number of threads changes a result. A class reads
// only times that are final: its own, and those of a hold all of whose transfers are settled
// (Hold::open is 0), which then stay until the class itself goes on. Running a class too early
// therefore finds less to do, never something else, and no queue by time is needed. No wake-up is
// lost: whoever settles the last transfer of a hold wakes its class, and a class that is woken
// while it runs is run once more (replayer/engine/work_queue.h). When nothing is left to run, a
// class that has not finished waits for a gate, for the network, for a killed rank, or for another
// such class (replayer/engine/engine_stall.cc).
#include "replayer/engine/engine.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "graph/base/parallel.h"
#include "replayer/cost/cluster_check.h"
#include "replayer/cost/compute_cost.h"
#include "replayer/engine/engine_impl.h"
#include "replayer/perturb/rank_effects.h"

namespace prism::replayer {
namespace {

uint32_t CountStreams(const Partition& partition) {
  uint32_t count = 0;
  for (const RankClass& rank_class : partition.classes) {
    count += static_cast<uint32_t>(partition.plans[rank_class.groups.front().plan].streams.size());
  }
  return count;
}

}  // namespace

Engine::Impl::Impl(const graph::Graph& graph, const ReplayOptions& options, Partition partition)
    : graph_(graph),
      options_(options),
      partition_(std::move(partition)),
      collective_cost_(graph.cluster),
      meetings_(partition_, CountStreams(partition_)),
      queue_(partition_.classes.size()) {
  if (options_.network == NetworkModel::kFlow && options_.frozen != nullptr) {
    meetings_.Freeze(options_.frozen.get());
  } else if (options_.network == NetworkModel::kFlow) {
    transfers_ = std::make_shared<TransferTimes>();
    meetings_.LeaveToNetwork(transfers_.get());
  }
}

void Engine::Impl::Start(const std::vector<Rank>& gated) {
  std::vector<bool> is_gated(partition_.classes.size());
  std::vector<std::set<uint32_t>> traced(partition_.classes.size());  // lanes
  for (Rank rank : gated) {
    is_gated[partition_.class_of[rank.value()]] = true;
    traced[partition_.class_of[rank.value()]].insert(0);
  }
  if (!options_.traced.empty()) {
    meetings_.KeepCauses();
  }
  for (Rank rank : options_.traced) {
    traced[partition_.class_of[rank.value()]].insert(partition_.lane_of[rank.value()]);
  }
  RankTimeline::Config config;
  config.partition = &partition_;
  config.collective_cost = &collective_cost_;
  config.options = &options_;
  config.overlap_slowdown = graph_.cluster.parameters.Value("overlap.compute_slowdown");
  for (uint32_t c = 0; c < partition_.classes.size(); ++c) {
    config.class_index = c;
    config.gated = is_gated[c];
    config.traced.assign(traced[c].begin(), traced[c].end());
    timelines_.push_back(std::make_unique<RankTimeline>(config));
    for (const uint32_t most : timelines_.back()->plan().most_transfers) {
      meetings_.hold(config.first_hold).owner = c;
      meetings_.Reserve(config.first_hold++, timelines_.back()->lane_count(), most);
    }
    queue_.Wake(c);
  }
}

RankTimeline& Engine::Impl::TimelineOf(Rank rank) {
  return *timelines_[partition_.class_of[rank.value()]];
}

void Engine::Impl::Wake(Rank rank) {
  queue_.Wake(partition_.class_of[rank.value()]);
}

int Engine::Impl::UsefulThreads() const {
  constexpr size_t kLanesOfClass = 16;  // with fewer, threads would wait for each other
  size_t lanes = 0;
  for (const RankClass& rank_class : partition_.classes) {
    lanes += rank_class.lanes.size();
  }
  return lanes < kLanesOfClass * partition_.classes.size() ? 1 : options_.threads;
}

void Engine::Impl::WakeSettled(std::vector<HoldId>* settled) {
  meetings_.TakeSettled(settled);
  for (const HoldId hold : *settled) {
    const uint32_t owner = meetings_.hold(hold).owner;
    timelines_[owner]->NoteSettled(hold);
    queue_.Wake(owner);
  }
}

void Engine::Impl::Advance() {
  const int threads = UsefulThreads();
  ParallelFor(threads, threads, [this](int64_t) {
    std::vector<HoldId> settled;
    uint32_t c = 0;
    while (queue_.Take(&c)) {
      timelines_[c]->Advance(&meetings_);
      WakeSettled(&settled);
      queue_.Done(c);
    }
  });
}

void Engine::Impl::Complete(TransferId transfer, TimeNs end) {
  meetings_.Complete(transfer, end);
  std::vector<HoldId> settled;
  WakeSettled(&settled);
}

bool Engine::Impl::finished() const {
  return std::ranges::all_of(timelines_, [](const auto& timeline) { return timeline->finished(); });
}

int64_t Engine::Impl::stream_looks() const {
  int64_t looks = 0;
  for (const auto& timeline : timelines_) {
    looks += timeline->stream_looks();
  }
  return looks;
}

ReplayResult Engine::Impl::Summarise() {
  ReplayResult result;
  result.iteration_ns.assign(static_cast<size_t>(options_.iterations), 0);
  result.period = PeriodOf(options_.perturbations, options_.iterations);
  std::vector<std::vector<RankTimes>> times(timelines_.size());  // by class and lane
  ParallelFor(UsefulThreads(), static_cast<int64_t>(timelines_.size()), [&](int64_t c) {
    RankTimeline& timeline = *timelines_[static_cast<size_t>(c)];
    timeline.RunAhead(&meetings_);
    times[static_cast<size_t>(c)] = timeline.Times();
  });
  for (const auto& timeline : timelines_) {
    for (uint32_t lane = 0; lane < timeline->lane_count(); ++lane) {
      DurationNs period_ns = 0;
      for (int32_t i = 0; i < options_.iterations; ++i) {
        const DurationNs iteration_ns = timeline->IterationNs(i, lane);
        DurationNs& slowest = result.iteration_ns[static_cast<size_t>(i)];
        slowest = std::max(slowest, iteration_ns);
        period_ns += i + result.period >= options_.iterations ? iteration_ns : 0;
      }
      result.period_ns = std::max(result.period_ns, period_ns);
    }
    result.classes += timeline->lane_count();
    result.folded_ops += timeline->folded_ops();
    result.rank_ops +=
        int64_t{timeline->plan().size()} * options_.iterations * timeline->lane_count() -
        timeline->folded_ops();
  }
  result.ranks.reserve(partition_.class_of.size());
  for (size_t rank = 0; rank < partition_.class_of.size(); ++rank) {
    result.ranks.push_back(times[partition_.class_of[rank]][partition_.lane_of[rank]]);
    result.alike.push_back(
        partition_.classes[partition_.class_of[rank]].lanes[partition_.lane_of[rank]]);
  }
  result.communicators = SummariseCommunicators();
  if (options_.breakdown) {
    result.waits_ns = SummariseWaits();
  }
  result.transfers = transfers_ == nullptr ? options_.frozen : transfers_;
  for (Rank rank : options_.traced) {
    const RankTimeline& timeline = TimelineOf(rank);
    const uint32_t lane = partition_.lane_of[rank.value()];
    result.timelines.push_back(timeline.TraceOf(lane));
    result.timelines.back().rank = rank;
    result.timelines.back().steady_begin = timeline.SteadyBegin(lane);
  }
  return result;
}

std::vector<DurationNs> Engine::Impl::SummariseWaits() const {
  std::vector<DurationNs> waits;
  waits.reserve(graph_.ranks.comm_ids.size());
  for (uint32_t rank = 0; rank < graph_.ranks.size(); ++rank) {
    for (const SlotTraffic& traffic : timelines_[partition_.class_of[rank]]->traffic()) {
      waits.push_back(traffic.wait_ns[partition_.lane_of[rank]]);
    }
  }
  return waits;
}

std::vector<CommunicatorTimes> Engine::Impl::SummariseCommunicators() const {
  std::vector<CommunicatorTimes> result(graph_.communicators.size());
  for (uint32_t rank = 0; rank < graph_.ranks.size(); ++rank) {
    const std::vector<SlotTraffic>& of_class = timelines_[partition_.class_of[rank]]->traffic();
    const uint32_t lane = partition_.lane_of[rank];
    auto held = graph_.ranks.comms(Rank(rank));
    for (size_t slot = 0; slot < held.size(); ++slot) {
      const SlotTraffic& traffic = of_class[slot];
      CommunicatorTimes& times = result[held[slot]];
      times.calls = std::max(times.calls, traffic.calls);
      times.bytes = std::max(times.bytes, traffic.bytes);
      times.transfer_ns = std::max(times.transfer_ns, traffic.transfer_ns[lane]);
      times.wait_ns_max = std::max(times.wait_ns_max, traffic.wait_ns[lane]);
    }
  }
  return result;
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
}

Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

Result<Engine> Engine::Create(const graph::Graph& graph,
                              const ReplayOptions& options,
                              const std::vector<Rank>& gated) {
  if (options.iterations < 1) {
    return InvalidArgument(fmt::format("{} iterations: at least 1", options.iterations));
  }
  for (const std::vector<Rank>& ranks : {gated, options.traced}) {
    for (Rank rank : ranks) {
      if (rank.value() >= graph.ranks.size()) {
        return InvalidArgument(
            fmt::format("rank {}: the job has {} ranks", rank.value(), graph.ranks.size()));
      }
    }
  }
  PRISM_RETURN_IF_ERROR(CheckCluster(graph.cluster));
  const ComputeCost compute(graph.cluster);
  const OpCosts costs = OpCostsOf(graph, graph.cluster, &compute);
  PRISM_ASSIGN_OR_RETURN(Partition partition, MakePartition(graph, options, gated, costs));
  auto impl = std::make_unique<Impl>(graph, options, std::move(partition));
  impl->Start(gated);
  return Engine(std::move(impl));
}

bool Engine::Run() {
  impl_->Advance();
  return impl_->finished();
}

void Engine::Advance(std::vector<ReadyTransfer>* ready) {
  impl_->Advance();
  impl_->meetings().TakeReady(ready);
}

void Engine::Complete(TransferId transfer, TimeNs end) {
  impl_->Complete(transfer, end);
}

const graph::Graph& Engine::graph() const {
  return impl_->graph();
}

const ReplayOptions& Engine::options() const {
  return impl_->options();
}

const CollectiveCost& Engine::collective_cost() const {
  return impl_->collective_cost();
}

void Engine::Issue(Rank gated, OpPosition position) {
  impl_->TimelineOf(gated).Issue(position);
  impl_->Wake(gated);
}

void Engine::InsertHostGap(Rank gated, DurationNs duration_ns) {
  impl_->TimelineOf(gated).InsertHostGap(duration_ns);
  impl_->Wake(gated);
}

void Engine::MeasureArrivals(Rank gated) {
  impl_->TimelineOf(gated).MeasureArrivals();
}

void Engine::Arrive(Rank gated, OpPosition position, TimeNs time) {
  impl_->TimelineOf(gated).Arrive(position, time);
  impl_->Wake(gated);
}

std::optional<TimeNs> Engine::ComputedArrival(Rank gated, OpPosition position) const {
  return impl_->TimelineOf(gated).ComputedArrival(position);
}

std::optional<TimeNs> Engine::HostTime(Rank gated) const {
  return impl_->TimelineOf(gated).HostTime();
}

std::optional<TimeNs> Engine::EndTime(Rank gated, OpPosition position) const {
  return impl_->TimelineOf(gated).EndTime(position);
}

std::optional<TimeNs> Engine::IdleTime(Rank gated) const {
  return impl_->TimelineOf(gated).IdleTime();
}

std::vector<std::string> Engine::DescribeStall() const {
  return impl_->DescribeStall();
}

int64_t Engine::stream_looks() const {
  return impl_->stream_looks();
}

ReplayResult Engine::Summarise() {
  return impl_->Summarise();
}

}  // namespace prism::replayer
