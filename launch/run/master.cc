#include "launch/run/master.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "graph/base/parallel.h"
#include "graph/base/units.h"
#include "graph/file.h"
#include "graph/validate/valid_graph.h"
#include "launch/options/perturbation.h"
#include "launch/prediction/replay_range.h"
#include "launch/process/interrupt.h"
#include "launch/process/stop_watch.h"
#include "launch/process/wire.h"
#include "launch/run/host_time.h"
#include "launch/run/messages.h"
#include "launch/run/program_layout.h"
#include "launch/run/source_finder.h"
#include "replayer/ineffective_perturbations.h"
#include "slicer/stitch/adopt.h"
#include "slicer/stitch/stitch.h"

namespace prism::launch {
namespace {

// Address space of the memory through which present ranks exchange data; only touched pages take
// memory.
constexpr off_t kExchangeBytes = off_t{1} << 32;

// Whether the device, not the graph, determines when sandbox ranks arrive.
bool MeasuresArrivals(const RunContext& context) {
  return context.gpu && !SharesGpu(context);
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

Master::Master(RunContext& context, MpiSession& session, Progress& progress)
    : context_(context),
      session_(session),
      progress_(progress),
      worker_(context, session),
      slice_(context.options.iterations) {
}

Master::~Master() = default;

int Master::WorkerOf(Rank rank) const {
  const auto& ranks = context_.sandbox_ranks;
  const auto at = std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin();
  return static_cast<int>(at % session_.size());
}

void Master::TakeEmulated(MessageKind kind, WireReader* message, Coordinator* coordinator) {
  if (kind == MessageKind::kOps) {
    WireReader events(message->GetText());
    coordinator->Take(&events);
    return;
  }
  const Rank rank(message->Get<uint32_t>());
  logs_[rank] = message->GetText();
  if (const std::string_view history = message->GetText(); !history.empty()) {
    snapshots_[rank] = history;
  }
  coordinator->RankLeft(rank);
}

Status Master::HandleMessage(const PeerMessage& message, Coordinator* coordinator) {
  WireReader in(message.bytes);
  const auto kind = in.Get<MessageKind>();
  switch (kind) {
    case MessageKind::kHello: {
      const auto process = static_cast<pid_t>(in.Get<int64_t>());
      std::array<char, 256> host = {};
      gethostname(host.data(), host.size() - 1);
      if (in.GetText() == host.data() && process != getpid()) {
        memory_.Watch(process);
      }
      return OkStatus();
    }
    case MessageKind::kFragment: {
      PRISM_ASSIGN_OR_RETURN(graph::Fragment fragment, graph::ParseFragment(in.GetText()));
      slice_.Add(std::move(fragment), in.GetText());
      return OkStatus();
    }
    case MessageKind::kFailed: {
      const auto code = static_cast<StatusCode>(in.Get<int32_t>());
      return {code, std::string(in.GetText())};
    }
    case MessageKind::kOps:
    case MessageKind::kRankLeft:
      // Workers may still have sent messages of an emulation that was abandoned.
      if (coordinator != nullptr && in.Get<uint32_t>() == emulations_) {
        TakeEmulated(kind, &in, coordinator);
      }
      return OkStatus();
    default:
      worker_.Handle(message.bytes);
      return OkStatus();
  }
}

Status Master::Pump(Coordinator* coordinator) {
  PRISM_RETURN_IF_ERROR(InterruptStatus());
  bool busy = false;
  while (const std::optional<PeerMessage> message = session_.TryReceive()) {
    PRISM_RETURN_IF_ERROR(HandleMessage(*message, coordinator));
    busy = true;
  }
  if (coordinator != nullptr && busy) {
    SendAnswers(coordinator->Advance());
  }
  busy = worker_.Step() || busy;
  if (!busy) {
    worker_.Wait();
  }
  return OkStatus();
}

void Master::SendAnswers(const AnswerBatch& batch) {
  std::map<int, AnswerBatch> by_worker;
  for (const EventEnd& end : batch.ends) {
    by_worker[WorkerOf(end.rank)].ends.push_back(end);
  }
  for (const RankAnswer& answer : batch.answers) {
    by_worker[WorkerOf(answer.rank)].answers.push_back(answer);
  }
  for (const HoldEnd& hold : batch.holds) {
    by_worker[WorkerOf(hold.rank)].holds.push_back(hold);
  }
  for (const auto& [worker, part] : by_worker) {
    WireWriter body;
    PutBatch(part, &body);
    session_.Send(worker, WireWriter().Put(MessageKind::kAnswers).PutText(body.Take()).Take());
  }
}

Status Master::Record(const std::vector<Rank>& ranks) {
  progress_.BeginStage(
      "slice",
      fmt::format(
          "{} of {} in {}", ranks.size(), FormatCounted(context_.job.parallel.world_size(), "rank"),
          session_.size() == 1 ? "one process" : fmt::format("{} processes", session_.size())));
  for (int worker = 0; worker < session_.size(); ++worker) {
    WireWriter message;
    message.Put(MessageKind::kRecord).Put(slice_.length().steps).Put(slice_.length().iterations);
    message.PutText(slice_.book());
    PutRanks(ranks, &message);
    session_.Send(worker, message.Take());
  }
  const size_t before = slice_.fragments().size();
  const auto recorded = [&] { return slice_.fragments().size() - before; };
  while (recorded() < ranks.size()) {
    PRISM_RETURN_IF_ERROR(Pump(nullptr));
    progress_.Update(static_cast<double>(recorded()) / static_cast<double>(ranks.size()));
  }
  slice_.EndRound();
  return OkStatus();
}

// The built-in workload's ranks are planned; those of a user's program follow from what earlier
// ones did.
Status Master::Slice() {
  worker_.Begin();
  if (!context_.options.graph.empty()) {
    return OkStatus();
  }
  if (!context_.job.user_program) {
    return Record(context_.plan.RecordedRanks());
  }
  const slicer::ProbeOptions options = MakeProbeOptions(context_);
  while (true) {
    PRISM_ASSIGN_OR_RETURN(const slicer::ProbeStep step,
                           slicer::NextProbe(options, slice_.fragments()));
    const std::vector<Rank> next = step.record.empty() ? slice_.TakeToldTooEarly() : step.record;
    if (next.empty()) {
      progress_.Clear();
      return SettleProgram(step, slice_.fragments(), &context_);
    }
    PRISM_RETURN_IF_ERROR(Record(next));
  }
}

// Found by another run of the rank, or of the one that was recorded for its role.
std::string Master::SourceLinesOf(const graph::Graph& graph, Rank rank, uint32_t op) {
  SourceQuery query;
  query.rank = slice_.IterationOf(rank) ? rank : graph.role_of(rank).representative;
  const std::optional<int32_t> iteration = slice_.IterationOf(query.rank);
  if (!context_.job.user_program || !iteration) {
    return {};
  }
  query.program = &graph.role_of(rank).program;
  query.op = op;
  query.iteration = *iteration;
  const SharedMemory values("prism-values", slice_.book());
  if (values.valid() && !slice_.book().empty()) {
    query.meeting.values = values.Path();
    query.meeting.value_bytes[query.rank] = slice_.ValueBytes(query.rank);
  }
  const Result<std::vector<std::string>> frames = FindSource(context_, query);
  std::string text;
  if (frames.ok()) {
    for (const std::string& frame : *frames) {
      text += fmt::format("\n    rank {} at {}", query.rank.value(), frame);
    }
  }
  return text;
}

Status Master::Build(RunOutcome* outcome) {
  if (!context_.options.graph.empty()) {
    progress_.BeginStage("build", fmt::format("from {}", context_.options.graph));
    PRISM_ASSIGN_OR_RETURN(outcome->graph, graph::ReadGraph(context_.options.graph));
    outcome->graph.job.seed = context_.job.seed;
    outcome->graph.cluster = context_.cluster;
    outcome->graph.sandbox_ranks = context_.sandbox_ranks;
  } else {
    progress_.BeginStage(
        "build",
        fmt::format("graph of {}", FormatCounted(context_.job.parallel.world_size(), "rank")));
    for (const graph::Fragment& fragment : slice_.fragments()) {
      outcome->startup_seconds.push_back(fragment.startup_seconds);
      outcome->iteration_seconds.push_back(fragment.iteration_seconds);
      if (!fragment.torch_version.empty()) {
        outcome->torch_version = fragment.torch_version;
      }
    }
    slicer::StitchInput input;
    input.job = context_.job;
    input.cluster = context_.cluster;
    input.plan = context_.plan;
    input.fragments = slice_.TakeFragments();
    input.sandbox_ranks = context_.sandbox_ranks;
    input.assumptions = context_.assumptions;
    PRISM_ASSIGN_OR_RETURN(outcome->graph, slicer::Stitch(std::move(input)));
    context_.job = outcome->graph.job;
  }
  PRISM_RETURN_IF_ERROR(graph::RefuseInvalid(outcome->graph, [&](Rank rank, uint32_t op) {
    return SourceLinesOf(outcome->graph, rank, op);
  }));
  outcome->graph_bytes = graph::EncodeGraph(outcome->graph);
  return InterruptStatus();
}

Status Master::ReplayAll(RunOutcome* outcome) {
  progress_.BeginStage("replay", "all ranks in virtual time");
  PRISM_ASSIGN_OR_RETURN(replayer::ReplayOptions options,
                         MakeReplayOptions(context_.options, context_.job, context_.cluster));
  options.traced = context_.traced_ranks;
  PRISM_ASSIGN_OR_RETURN(outcome->result, replayer::Replay(outcome->graph, options));
  PRISM_ASSIGN_OR_RETURN(
      const ReplayRange range,
      RangeBySpread(outcome->graph, options, outcome->result.steady_iteration_ns()));
  PRISM_ASSIGN_OR_RETURN(outcome->replay_warnings,
                         replayer::WarnOfNoEffect(outcome->graph, options, outcome->result));
  outcome->replayed_ns = outcome->result.steady_iteration_ns();
  outcome->low_ns = range.low_ns;
  outcome->high_ns = range.high_ns;
  return OkStatus();
}

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
  PRISM_RETURN_IF_ERROR(Record({rank}));
  PRISM_ASSIGN_OR_RETURN(
      outcome->graph,
      slicer::AdoptFragment(outcome->graph, std::move(slice_.TakeFragments().back())));
  context_.job = outcome->graph.job;
  PRISM_RETURN_IF_ERROR(
      graph::RefuseInvalid(outcome->graph)
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
  if (SharesGpu(context_)) {
    outcome->warnings.push_back(
        {"gpu_shared", static_cast<int64_t>(context_.sandbox_ranks.size()),
         fmt::format("ranks on {}: values are right, times come from the replay",
                     FormatCounted(context_.gpu->count, "GPU"))});
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

EmulateMessage Master::MakeEmulateMessage(const RunOutcome& outcome,
                                          const SharedMemory& exchange,
                                          const StoreServer* store) const {
  EmulateMessage message;
  message.number = emulations_;
  message.graph_bytes = outcome.graph_bytes;
  message.exchange = context_.sandbox_ranks.size() > 1 ? exchange.Path() : std::string();
  message.store_port = store == nullptr ? uint16_t{0} : store->port();
  message.log_ranks = context_.log_ranks;
  message.snapshot_ranks = context_.snapshot_ranks;
  message.iterations = context_.options.iterations;
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
  PRISM_ASSIGN_OR_RETURN(Coordinator coordinator, MakeCoordinator(*outcome));
  const SharedMemory exchange("prism-exchange", kExchangeBytes);
  if (!exchange.valid()) {
    return EnvironmentLacks("cannot create shared memory for data between sandbox ranks");
  }
  PRISM_ASSIGN_OR_RETURN(const auto store, StartStore(context_, context_.sandbox_ranks.size()));
  const std::string message = Encode(MakeEmulateMessage(*outcome, exchange, store.get()));
  for (int worker = 0; worker < session_.size(); ++worker) {
    session_.Send(worker, message);
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

Status Master::RunStages(RunOutcome* outcome) {
  const auto timed = [](double* seconds, auto&& stage) {
    const StopWatch watch;
    Status status = stage();
    *seconds = watch.Seconds();
    return status;
  };
  WallTimes& wall = outcome->wall;
  PRISM_RETURN_IF_ERROR(timed(&wall.slice_s, [&] { return Slice(); }));
  if (context_.options.host_factor > 0) {
    UseMeasuredHostTime(slice_.fragments(), context_.options.host_factor, &context_.cluster);
    const graph::ParameterTable& table = context_.cluster.parameters;
    context_.logger.Info("host time as measured: {:.1f} us a kernel, {:.1f} us a collective",
                         table.Value("host.kernel_ns") / 1e3,
                         table.Value("host.collective_ns") / 1e3);
  }
  PRISM_RETURN_IF_ERROR(timed(&wall.build_s, [&] { return Build(outcome); }));
  PRISM_RETURN_IF_ERROR(timed(&wall.replay_s, [&] { return ReplayAll(outcome); }));
  return timed(&wall.emulate_s, [&] { return Emulate(outcome); });
}

void Master::StopWorkers(const Status& status) {
  for (int worker = 1; worker < session_.size(); ++worker) {
    session_.Send(
        worker,
        WireWriter().Put(MessageKind::kStop).Put(static_cast<int32_t>(status.code())).Take());
  }
}

Result<RunOutcome> Master::Run() {
  RunOutcome outcome;
  const Status status = RunStages(&outcome);
  worker_.KillProcesses();
  StopWorkers(status);
  progress_.Clear();
  if (!status.ok()) {
    return status;
  }
  outcome.logs = logs_;
  outcome.snapshots = std::move(snapshots_);
  return outcome;
}

}  // namespace prism::launch
