#include "launch/emulate/run/master.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "graph/base/units.h"
#include "graph/describe.h"
#include "graph/file.h"
#include "graph/job/whole_program.h"
#include "graph/validate/valid_graph.h"
#include "launch/emulate/run/check_report.h"
#include "launch/emulate/run/co_recording.h"
#include "launch/emulate/run/gpu_times.h"
#include "launch/emulate/run/host_time.h"
#include "launch/emulate/run/messages.h"
#include "launch/emulate/run/odd_times.h"
#include "launch/emulate/run/program_layout.h"
#include "launch/emulate/run/source_finder.h"
#include "launch/inputs/perturbation.h"
#include "launch/plan/replay_range.h"
#include "launch/process/interrupt.h"
#include "launch/process/stop_watch.h"
#include "launch/process/wire.h"
#include "replayer/cost/measured_kernels.h"
#include "replayer/ineffective_perturbations.h"
#include "replayer/replay.h"
#include "slicer/check/told_ranks.h"
#include "slicer/stitch/stitch.h"

namespace prism::launch {

namespace {

// Of a graph whose cluster is replaced.
void KeepRecordedTimes(const graph::ClusterSpec& from, graph::ClusterSpec* to) {
  std::vector<graph::Parameter> kept = from.parameters.all();
  std::erase_if(kept, [](const auto& each) { return !replayer::IsRecordedKey(each.key); });
  to->parameters.Put(kept);
}

}  // namespace

Master::Master(RunContext& context, MpiSession& session, Progress& progress)
    : context_(context),
      session_(session),
      progress_(progress),
      worker_(context, session),
      slice_(context.options.iterations),
      said_hello_(static_cast<size_t>(session.size())) {
}

Master::~Master() = default;

int Master::WorkerOf(Rank rank) const {
  const auto& ranks = context_.sandbox_ranks;
  const auto at = std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin();
  return worker_of_[static_cast<size_t>(at)];
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
      WorkerHost& host = said_hello_[static_cast<size_t>(message.from)].emplace();
      host.name = in.GetText();
      host.identity = in.GetText();
      session_.NameHost(std::string(in.GetText()), host.name);
      host.gpus = in.Get<int32_t>();
      if (host.identity == ThisHost().identity && process != getpid()) {
        memory_.Watch(process);
      }
      return OkStatus();
    }
    case MessageKind::kMeeting:
      if (MeetingMessage meeting = GetMeeting(&in); meeting.number == emulations_) {
        meetings_.push_back(std::move(meeting));
      }
      return OkStatus();
    case MessageKind::kRecorded: {
      PRISM_ASSIGN_OR_RETURN(RecordedRank recorded, GetRecorded(&in));
      if (kept_ != nullptr) {
        kept_->Keep(recorded.fragment.rank, message.bytes);
      }
      TakeCalls(&recorded);
      slice_.Add(std::move(recorded));
      return OkStatus();
    }
    case MessageKind::kStopped: {
      StoppedRank stopped = GetStopped(&in);
      context_.logger.Info(
          "rank {} stopped after it was given doubtful values in place of those of {}",
          stopped.rank.value(), graph::RanksText(stopped.speculative_producers));
      slice_.Add(std::move(stopped));
      return OkStatus();
    }
    case MessageKind::kFailed: {
      program_failed_ = !in.Get<bool>();
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
  if (kept_ != nullptr) {
    PRISM_RETURN_IF_ERROR(kept_->Write(/*all=*/false));
  }
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
  for (std::vector<Rank> next = ranks; !next.empty();) {
    PRISM_RETURN_IF_ERROR(RecordRound(next));
    if (next = slice_.DependencyCycle(); !next.empty()) {
      PRISM_RETURN_IF_ERROR(CoRecordRanks(next));
      continue;
    }
    PRISM_ASSIGN_OR_RETURN(next, slice_.TakeLacking());
    if (!next.empty() && !slice_.HasRun(next.front())) {
      context_.logger.Info("recording {} first", graph::RanksText(next));
    }
  }
  return OkStatus();
}

// By this process alone, which holds what the ranks share.
Status Master::CoRecordRanks(const std::vector<Rank>& ranks) {
  context_.logger.Info("{} wait for what the others of them send: running them together",
                       graph::RanksText(ranks));
  RecordedLength length = slice_.length();
  length.odd = slicer::kNoOdd;
  // Followed one by one, with others' values unknown, they would show faults that are none.
  program_failed_ = true;
  PRISM_ASSIGN_OR_RETURN(const std::string values,
                         CoRecord(context_, ranks, slice_.book(), length));
  program_failed_ = false;
  slice_.AddCoRecorded(ranks, values);
  return OkStatus();
}

// Those of an earlier run. Returns the others.
std::vector<Rank> Master::AddKept(const std::vector<Rank>& ranks) {
  if (kept_ == nullptr) {
    return ranks;
  }
  kept_->BeginRound(slice_.length(), slice_.book());
  std::vector<Rank> others;
  for (const Rank rank : ranks) {
    if (std::optional<RecordedRank> recorded = kept_->Find(rank)) {
      TakeCalls(&*recorded);
      slice_.Add(*std::move(recorded));
    } else {
      others.push_back(rank);
    }
  }
  return others;
}

Status Master::RecordRound(const std::vector<Rank>& ranks) {
  progress_.BeginStage(
      "slice",
      fmt::format(
          "{} of {} in {}", ranks.size(), FormatCounted(context_.job.parallel.world_size(), "rank"),
          session_.size() == 1 ? "one process" : fmt::format("{} processes", session_.size())));
  const RecordedLength length = slice_.length();
  const std::vector<Rank> to_record = AddKept(ranks);
  PRISM_RETURN_IF_ERROR(FindHosts());
  const std::vector<std::vector<int>> workers = WorkersForRanks(hosts_, MostWorkersOfHost());
  RecordingShare share;
  for (const std::vector<int>& of_host : workers) {
    share.workers += of_host.size();
  }
  size_t next = 0;
  for (const std::vector<int>& of_host : workers) {
    share.of_host = of_host.size();
    for (const int worker : of_host) {
      WireWriter message;
      message.Put(MessageKind::kRecord).Put(PassLength{length, LengthOfCheck()}).Put(share);
      message.PutText(slice_.book());
      PutRanks(ShareOf(to_record, next++, share.workers), &message);
      session_.Send(worker, message.Take());
    }
  }
  while (slice_.ended_in_round() < ranks.size()) {
    PRISM_RETURN_IF_ERROR(Pump(nullptr));
    progress_.Update(
        static_cast<double>(slice_.ended_in_round()) / static_cast<double>(ranks.size()),
        fmt::format("{} of {} recorded", slice_.ended_in_round(),
                    FormatCounted(static_cast<int64_t>(ranks.size()), "rank")));
  }
  slice_.EndRound();
  return OkStatus();
}

// The built-in workload's ranks are planned; those of a user's program follow from what earlier
// ones did.
Status Master::Slice(RunOutcome* outcome) {
  worker_.Begin();
  if (!context_.options.graph.empty()) {
    return OkStatus();
  }
  if (!context_.job.user_program) {
    return Record(context_.plan.RecordedRanks());
  }
  const StopWatch watch;
  const Status sliced = SliceProgram();
  if (sliced.ok() && ChecksProgram(context_)) {
    PRISM_RETURN_IF_ERROR(CheckMoreRanks(watch.Seconds()));
  }
  return ChecksProgram(context_) ? CheckProgram(sliced, outcome) : sliced;
}

// Once roles are known: ranks that the program's source treats in a way of their own, by number,
// which no coordinate shows. How far rank 0 is followed beyond its recording depends on the
// machine, and must not decide a result.
std::vector<Rank> Master::ToldRanks(bool by_place) const {
  const auto first = calls_.find(Rank(0));
  if (first == calls_.end()) {
    return {};
  }
  const slicer::RankCalls& all = first->second;
  slicer::RankCalls calls = {.rank = all.rank, .groups = all.groups};
  std::copy_if(all.told_ranks.begin(), all.told_ranks.begin() + all.told_while_recorded,
               std::back_inserter(calls.told_ranks),
               [&](const slicer::ToldRank& told) { return told.is_place == by_place; });
  std::vector<Rank> known;
  for (const graph::Fragment& fragment : slice_.fragments()) {
    known.push_back(fragment.rank);
  }
  return slicer::RanksToldBy(calls, known).told;
}

// Those by number are recorded, if there are few; others, of which it is not known in which group
// they are meant, are named.
std::vector<Rank> Master::TakeToldRanks() {
  constexpr size_t kMost = 8;
  std::vector<Rank> recorded = ToldRanks(/*by_place=*/false);
  std::vector<Rank> assumed = ToldRanks(/*by_place=*/true);
  for (size_t i = kMost; i < recorded.size(); ++i) {
    assumed.push_back(recorded[i]);
  }
  recorded.resize(std::min(recorded.size(), kMost));
  std::erase_if(assumed,
                [&](Rank rank) { return std::ranges::find(recorded, rank) != recorded.end(); });
  std::ranges::sort(assumed);
  if (!assumed.empty()) {
    context_.assumptions.push_back(
        fmt::format("{}, which the source singles out in some group, taken to be like their roles; "
                    "--record-ranks records them",
                    graph::RanksText(assumed)));
  }
  return recorded;
}

Status Master::SliceProgram() {
  slicer::ProbeOptions options = MakeProbeOptions(context_);
  bool has_told = !context_.record_ranks.empty();
  while (true) {
    // Ranks that did not know what others contribute may look like other roles.
    if (const std::vector<Rank> misled = slice_.TakeMisled(1); !misled.empty()) {
      PRISM_RETURN_IF_ERROR(Record(misled));
      continue;
    }
    PRISM_ASSIGN_OR_RETURN(const slicer::ProbeStep step,
                           slicer::NextProbe(options, slice_.fragments()));
    std::vector<Rank> next = step.record.empty() ? slice_.TakeStale() : step.record;
    next = next.empty() ? slice_.TakeMisled(2) : next;
    if (next.empty() && !std::exchange(has_told, true)) {
      std::ranges::copy(TakeToldRanks(), std::back_inserter(options.named));
      std::ranges::sort(options.named);
      continue;
    }
    if (next.empty()) {
      progress_.Clear();
      return SettleProgram(step, slice_.fragments(), slice_.odd(), &context_);
    }
    PRISM_RETURN_IF_ERROR(Record(next));
  }
}

// Of a rank that runs once more, by itself; `values`: the value book.
MeetingPoint Master::MeetingOf(Rank rank, const SharedMemory& values) const {
  MeetingPoint meeting;
  if (values.valid() && !slice_.book().empty()) {
    meeting.values = values.Path();
    meeting.value_bytes[rank] = slice_.ValueBytes(rank);
  }
  return meeting;
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
  query.steps = slice_.length().steps;
  const SharedMemory values("prism-values", slice_.book());
  query.meeting = MeetingOf(query.rank, values);
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
    KeepRecordedTimes(outcome->graph.cluster, &context_.cluster);
    outcome->graph.cluster = context_.cluster;
    outcome->graph.sandbox_ranks = context_.sandbox_ranks;
  } else {
    progress_.BeginStage(
        "build",
        fmt::format("graph of {}", FormatCounted(context_.job.parallel.world_size(), "rank")));
    for (const graph::Fragment& fragment : slice_.fragments()) {
      outcome->startup_seconds.push_back(fragment.startup_seconds);
      outcome->iteration_seconds.push_back(fragment.iteration_seconds);
      outcome->iterations_s += fragment.iteration_seconds * fragment.iterations;
    }
    rounds_left_out_ =
        std::ranges::min(slice_.fragments(), {}, &graph::Fragment::rounds_left_out).rounds_left_out;
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
  PRISM_RETURN_IF_ERROR(graph::RefuseInvalid(&outcome->graph, [&](Rank rank, uint32_t op) {
    return SourceLinesOf(outcome->graph, rank, op);
  }));
  if (context_.record_gpu) {
    PRISM_RETURN_IF_ERROR(TimeRoles(&outcome->graph));
  }
  outcome->graph_bytes = graph::EncodeGraph(outcome->graph);
  return InterruptStatus();
}

Status Master::TimeRoles(graph::Graph* graph) {
  progress_.BeginStage("build", fmt::format("times of kernels on {}", context_.record_gpu->name));
  const SharedMemory values("prism-values", slice_.book());
  PRISM_RETURN_IF_ERROR(
      TakeGpuTimes(context_, [&](Rank rank) { return MeetingOf(rank, values); }, graph));
  if (context_.options.host_factor > 0) {
    context_.cluster.parameters = graph->cluster.parameters;  // the host's as measured there
  }
  return OkStatus();
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
  options.traced.clear();
  if (context_.job.facts.steps_per_iteration == graph::kWholeProgram) {
    options.traced = {Rank(0)};
    PRISM_ASSIGN_OR_RETURN(const replayer::ReplayResult traced,
                           replayer::Replay(outcome->graph, options));
    outcome->phases = replayer::PhasesOf(outcome->graph, traced);
    options.traced.clear();
  }
  outcome->odd_iterations =
      TimeOddIterations(context_, slice_, options, outcome->replayed_ns, &outcome->replay_warnings);
  outcome->low_ns = range.low_ns;
  outcome->high_ns = range.high_ns;
  return OkStatus();
}

Status Master::RunStages(RunOutcome* outcome) {
  const auto timed = [](double* seconds, auto&& stage) {
    const StopWatch watch;
    Status status = stage();
    *seconds = watch.Seconds();
    return status;
  };
  WallTimes& wall = outcome->wall;
  PRISM_RETURN_IF_ERROR(timed(&wall.slice_s, [&] { return Slice(outcome); }));
  if (kept_ != nullptr) {
    PRISM_RETURN_IF_ERROR(kept_->Write(/*all=*/true));
    kept_ = nullptr;  // a rank whose role adopts what it does now is recorded anew
  }
  PRISM_RETURN_IF_ERROR(UseHostTime(slice_.fragments(), &context_));
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
