// The emulation as process 0 runs it: sandbox ranks against the graph, restarted when a role adopts
// what a rank does.
#include <numeric>
#include <sstream>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "graph/base/units.h"
#include "graph/file.h"
#include "graph/validate/valid_graph.h"
#include "launch/emulate/run/master.h"
#include "launch/emulate/run/messages.h"
#include "launch/inputs/perturbation.h"
#include "launch/process/wire.h"
#include "slicer/stitch/adopt.h"

namespace prism::launch {
namespace {

// Whether the device, not the graph, determines when sandbox ranks arrive.
bool MeasuresArrivals(const RunContext& context) {
  return context.gpu && !context.shares_gpu;
}

void AddWarnings(const Coordinator& coordinator, std::vector<graph::Warning>* warnings) {
  if (coordinator.extra_host_ns() > 0) {
    warnings->push_back({"host_time_beyond_graph", 1, coordinator.extra_host_example()});
  }
  if (coordinator.extra_waits() > 0) {
    warnings->push_back({"host_waits_beyond_graph", coordinator.extra_waits(), ""});
  }
  if (const HoldAccuracy holds = coordinator.hold_accuracy(); holds.late > 0) {
    warnings->push_back({"holds_released_late", holds.late,
                         fmt::format("of {} holds; the latest by {}", holds.holds,
                                     FormatDuration(holds.latest_ns))});
  }
}

}  // namespace

// Warns of a report line by line, and of its consequence.
void Master::WarnOf(const std::string& trouble, const std::string& consequence) {
  std::istringstream lines(trouble);
  for (std::string line; std::getline(lines, line);) {
    context_.logger.Warning("{}", line);
  }
  context_.logger.Warning("{}", consequence);
}

Status Master::EmulateUntilDone(Coordinator& coordinator, StoreServer* store) {
  bool reported = false;
  std::string reported_trouble;
  while (!coordinator.finished()) {
    Status pumped = Pump(&coordinator);
    if (pumped.ok()) {
      pumped = CheckStore(context_, store);
    }
    if (!pumped.ok()) {
      // An earlier departure explains why the program failed.
      const std::string& departure = coordinator.departure();
      return departure.empty()
                 ? pumped
                 : Status(pumped.code(), fmt::format("{}\n{}", departure, pumped.message()));
    }
    progress_.Update(coordinator.progress());
    std::string trouble = coordinator.departure();
    if (trouble.empty()) {
      const std::vector<std::string> stall = coordinator.Deadlock();
      if (!stall.empty()) {
        trouble = fmt::format("the sandbox ranks wait for something that never comes:\n  {}",
                              fmt::join(stall, "\n  "));
      }
    }
    if (reported && coordinator.all_left() && !coordinator.finished()) {
      return RunFailed(reported_trouble);  // no rank is left for a watchdog to end
    }
    if (trouble.empty() || reported) {
      continue;
    }
    if (MayAdopt(coordinator)) {
      progress_.Clear();
      WarnOf(trouble,
             "--on-mismatch adopt: its whole role does the same from now on; recording it again");
      return OkStatus();
    }
    if (context_.options.on_mismatch != OnMismatch::kHang) {
      return RunFailed(trouble);
    }
    progress_.Clear();
    WarnOf(
        trouble,
        "--on-mismatch hang: the ranks hang as on the cluster, and time passes, no faster than on "
        "a clock, until their own watchdogs fire (torch's after 10 minutes, unless "
        "init_process_group has a timeout); interrupt to end the run");
    progress_.StopEstimating("hangs");
    reported = true;
    reported_trouble = trouble;
    for (int worker = 0; worker < session_.size() && !context_.options.interactive; ++worker) {
      session_.Send(worker, WireWriter().Put(MessageKind::kHung).Take());
    }
  }
  return OkStatus();
}

// A role is adopted once: a rank that departs again departs from its own behaviour.
bool Master::MayAdopt(const Coordinator& coordinator) const {
  const std::optional<Rank> departed = coordinator.departed();
  return context_.options.on_mismatch == OnMismatch::kAdopt && departed.has_value() &&
         !adopted_.contains(*departed);
}

// Records the rank again, gives its role the new program, and replays.
Status Master::Adopt(Rank rank, RunOutcome* outcome) {
  adopted_.insert(rank);
  rounds_left_out_ = 0;
  PRISM_RETURN_IF_ERROR(Record({rank}));
  for (graph::Fragment& fragment : slice_.TakeFragments()) {
    if (fragment.rank == rank) {
      PRISM_ASSIGN_OR_RETURN(outcome->graph,
                             slicer::AdoptFragment(outcome->graph, std::move(fragment)));
    }
  }
  context_.job = outcome->graph.job;
  PRISM_RETURN_IF_ERROR(
      graph::RefuseInvalid(&outcome->graph)
          .WithContext(fmt::format("the role of rank {} cannot adopt what it does", rank.value())));
  outcome->graph_bytes = graph::EncodeGraph(outcome->graph);
  return ReplayAll(outcome);
}

Status Master::Emulate(RunOutcome* outcome) {
  std::optional<Rank> departed;
  do {
    PRISM_ASSIGN_OR_RETURN(departed, EmulateOnce(outcome));
    if (departed) {
      PRISM_RETURN_IF_ERROR(Adopt(*departed, outcome));
    }
  } while (departed);
  if (context_.shares_gpu) {
    outcome->warnings.push_back(
        {"gpu_shared", static_cast<int64_t>(context_.sandbox_ranks.size()),
         fmt::format("ranks on {}: values are right, times come from the replay",
                     FormatCounted(std::reduce(hosts_.gpus.begin(), hosts_.gpus.end()), "GPU"))});
  }
  return OkStatus();
}

Result<Coordinator> Master::MakeCoordinator(const RunOutcome& outcome) const {
  PRISM_ASSIGN_OR_RETURN(replayer::ReplayOptions options,
                         MakeReplayOptions(context_.options, context_.job, context_.cluster));
  options.traced = context_.traced_ranks;
  options.frozen = outcome.result.transfers;
  PRISM_ASSIGN_OR_RETURN(Coordinator coordinator,
                         Coordinator::Create(outcome.graph, options, context_.sandbox_ranks));
  if (MeasuresArrivals(context_)) {
    coordinator.MeasureArrivals(context_.options.device_scale);
  }
  return coordinator;
}

Status Master::FindHosts() {
  if (!hosts_.names.empty()) {
    return OkStatus();
  }
  std::vector<WorkerHost> workers;
  while (workers.size() < said_hello_.size()) {
    if (const auto& host = said_hello_[workers.size()]) {
      workers.push_back(*host);
    } else {
      PRISM_RETURN_IF_ERROR(Pump(nullptr));
    }
  }
  hosts_ = GroupWorkers(workers, context_.gpu.has_value());
  return OkStatus();
}

Status Master::Meet(const RunOutcome& outcome, const StoreServer* store) {
  PRISM_RETURN_IF_ERROR(FindHosts());
  worker_of_ = PlaceRanks(outcome.graph, hosts_, MostWorkersOfHost());
  context_.places_on_host = PlacesOnHosts(worker_of_, hosts_);
  context_.shares_gpu = SharesGpu(worker_of_, hosts_);
  if (hosts_.several()) {
    progress_.Clear();
    context_.logger.Info("sandbox ranks: {}",
                         PlacesText(context_.sandbox_ranks, worker_of_, hosts_));
  }
  meetings_.clear();
  MeetMessage meet;
  meet.number = emulations_;
  meet.leaders = hosts_.leaders;
  meet.store_port = store == nullptr ? uint16_t{0} : store->port();
  for (const int leader : hosts_.leaders) {
    session_.Send(leader, Encode(meet));
    ++meet.host;
  }
  while (meetings_.size() < hosts_.leaders.size()) {
    PRISM_RETURN_IF_ERROR(Pump(nullptr));
  }
  return OkStatus();
}

EmulateMessage Master::MakeEmulateMessage(const RunOutcome& outcome,
                                          const MeetingMessage& meeting) const {
  EmulateMessage message;
  message.number = emulations_;
  message.graph_bytes = outcome.graph_bytes;
  message.exchange = context_.sandbox_ranks.size() > 1 ? meeting.exchange : std::string();
  message.store_port = meeting.store_port;
  message.worker_of = worker_of_;
  message.places_on_host = context_.places_on_host;
  message.on_gpus = context_.gpu.has_value();
  message.shares_gpu = context_.shares_gpu;
  message.log_ranks = context_.log_ranks;
  message.snapshot_ranks = context_.snapshot_ranks;
  message.iterations = context_.options.iterations;
  message.rounds_left_out = context_.snapshot_ranks.empty() ? rounds_left_out_ : 0;
  message.values = slice_.book();
  for (const Rank rank : context_.sandbox_ranks) {
    message.value_bytes.push_back(slice_.ValueBytes(rank));
  }
  return message;
}

Result<std::optional<Rank>> Master::EmulateOnce(RunOutcome* outcome) {
  if (context_.sandbox_ranks.empty()) {
    return std::optional<Rank>();  // the replay is the result
  }
  ++emulations_;
  progress_.BeginStage(
      "emulate", fmt::format("{}, {}",
                             FormatCounted(static_cast<int64_t>(context_.sandbox_ranks.size()),
                                           "sandbox rank"),
                             FormatCounted(context_.options.iterations, "iteration")));
  PRISM_ASSIGN_OR_RETURN(const auto store, StartStore(context_, context_.sandbox_ranks.size()));
  PRISM_RETURN_IF_ERROR(Meet(*outcome, store.get()));
  PRISM_ASSIGN_OR_RETURN(Coordinator coordinator, MakeCoordinator(*outcome));
  for (const MeetingMessage& meeting : meetings_) {
    const std::string message = Encode(MakeEmulateMessage(*outcome, meeting));
    for (int worker = 0; worker < session_.size(); ++worker) {
      if (hosts_.of_worker[static_cast<size_t>(worker)] == meeting.host) {
        session_.Send(worker, message);
      }
    }
  }
  PRISM_RETURN_IF_ERROR(EmulateUntilDone(coordinator, store.get()));
  if (MayAdopt(coordinator)) {
    return coordinator.departed();
  }
  outcome->result = coordinator.Summarise();
  const DurationNs emulated = outcome->result.steady_iteration_ns();
  // Host time beyond the graph is added to both ends of the range.
  outcome->low_ns += emulated - outcome->replayed_ns;
  outcome->high_ns += emulated - outcome->replayed_ns;
  AddWarnings(coordinator, &outcome->warnings);
  const bool may_differ = MeasuresArrivals(context_) || coordinator.extra_host_ns() > 0;
  if (!may_differ && outcome->replayed_ns != emulated) {
    return RunFailed(
        fmt::format("the emulation took {} ns per iteration but the replay {} ns, though no rank "
                    "departed from the graph; this is a bug in Prism, please report it",
                    emulated, outcome->replayed_ns));
  }
  return std::optional<Rank>();
}

}  // namespace prism::launch
