// One thread serves messages, records and answers, so nothing here may wait for something that only
// a later turn would bring: a program waits for its worker, and the worker's answers come from
// process 0. Each turn takes what has come and returns; Wait naps only when a turn found nothing. A
// failure ends this worker's programs at once and is a message like any other: process 0 decides
// what becomes of the run.
#include "launch/emulate/run/worker.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "graph/base/parallel.h"
#include "graph/file.h"
#include "graph/fragment.h"
#include "launch/emulate/run/hosts.h"
#include "launch/emulate/run/messages.h"
#include "launch/exit_codes.h"
#include "launch/process/host_watch.h"
#include "launch/process/interrupt.h"
#include "launch/process/stop_watch.h"
#include "launch/process/wire.h"

namespace prism::launch {
namespace {

constexpr int64_t kIdleNapNs = 500'000;

// What ends this process from outside ends process 0 as a rule, which says why (FAILED) and ends
// all others: so long it is waited for.
constexpr double kLastWordS = 5;

void Nap(int64_t nanoseconds) {
  const timespec duration = {.tv_sec = 0, .tv_nsec = nanoseconds};
  nanosleep(&duration, nullptr);
}

std::string HelloMessage(const RunContext& context) {
  const WorkerHost host = ThisHost();
  return WireWriter()
      .Put(MessageKind::kHello)
      .Put<int64_t>(getpid())
      .PutText(host.name)
      .PutText(host.identity)
      .PutText(AddressesOfThisHost())
      .Put<int32_t>(context.gpu ? context.gpu->count : 0)
      .Take();
}

bool Contains(const std::vector<Rank>& ascending, Rank rank) {
  return std::binary_search(ascending.begin(), ascending.end(), rank);
}

void ShowLine(Rank rank, const std::string& line, std::FILE* output) {
  const std::string text = fmt::format("[rank {}] {}\n", rank.value(), line);
  std::fwrite(text.data(), 1, text.size(), output);
  std::fflush(output);
}

}  // namespace

Worker::Worker(RunContext& context, MpiSession& session)
    : context_(context), session_(session), starter_(context) {
}

Worker::~Worker() = default;

void Worker::Begin() {
  session_.Send(0, HelloMessage(context_));
}

Status Worker::Record(WireReader* message) {
  const PassLength length = message->Get<PassLength>();
  const auto share = message->Get<RecordingShare>();
  const std::string_view values = message->GetText();
  const std::vector<Rank> ranks = GetRanks(message);
  emulation_.reset();  // an emulation that is to be restarted
  if (!check_budget_) {
    check_budget_.emplace(share.workers);
  }
  if (recording_ == nullptr) {
    const auto cores = static_cast<size_t>(AvailableThreads());
    recording_ = std::make_unique<RecordPass>(RecordPass::Means{context_, starter_, *check_budget_},
                                              std::max<size_t>(1, cores / share.of_host));
  }
  return recording_->Add(ranks, values, length);
}

Status Worker::OpenMeeting(const MeetMessage& meet) {
  PRISM_ASSIGN_OR_RETURN(meeting_, HostMeeting::Open(meet, session_));
  session_.Send(0, Encode(meeting_->Describe()));
  return OkStatus();
}

EmulationStart Worker::MakeEmulationStart(const MeetingPoint& meeting,
                                          const std::vector<Rank>& ranks) const {
  EmulationStart start;
  start.iterations = context_.options.iterations;
  start.stall_timeout_s = context_.options.stall_timeout_s;
  start.interactive = context_.options.interactive;
  start.on_gpu = context_.gpu.has_value();
  start.shares_gpu = context_.shares_gpu;
  start.perturbations = context_.perturbations;
  for (const Rank rank : ranks) {
    SandboxRequest request;
    request.rank = rank;
    request.mode = start.on_gpu ? channel::Mode::kDevice : channel::Mode::kEmulate;
    request.present = context_.sandbox_ranks;
    const auto at = std::ranges::lower_bound(context_.sandbox_ranks, rank);
    request.place_on_host =
        context_.places_on_host[static_cast<size_t>(at - context_.sandbox_ranks.begin())];
    request.iterations = context_.options.iterations;
    request.meeting = meeting;
    EmulatedRank emulated;
    emulated.process = MakeSandboxSpec(context_, request);
    emulated.process.terminal = context_.options.interactive;
    emulated.keeps_history = Contains(context_.snapshot_ranks, rank);
    if (emulated.keeps_history) {
      emulated.process.environment.emplace_back("PRISM_BLOCK_EVENTS", "1");
    }
    if (Contains(context_.log_ranks, rank)) {
      // Standard output is only for the report's data.
      std::FILE* const output = context_.options.format == OutputFormat::kJson ? stderr : stdout;
      emulated.process.on_line = [rank, output](const std::string& line) {
        ShowLine(rank, line, output);
      };
    }
    start.ranks.push_back(std::move(emulated));
  }
  start.has_all = start.ranks.size() == context_.sandbox_ranks.size();
  return start;
}

// Puts what process 0 learned from the recording into the context.
Status Worker::BeginEmulation(const EmulateMessage& message) {
  PRISM_ASSIGN_OR_RETURN(graph_, graph::DecodeGraph(message.graph_bytes, "the graph of this run"));
  context_.job = graph_.job;
  context_.cluster = graph_.cluster;
  context_.sandbox_ranks = graph_.sandbox_ranks;
  context_.places_on_host = message.places_on_host;
  context_.shares_gpu = message.shares_gpu;
  if (!message.on_gpus) {
    context_.gpu.reset();  // with --device auto
  }
  context_.log_ranks = message.log_ranks;
  context_.snapshot_ranks = message.snapshot_ranks;
  context_.options.iterations = message.iterations;
  MeetingPoint meeting;
  meeting.exchange = message.exchange;
  meeting.store_port = message.store_port;
  if (!message.values.empty()) {
    values_ = std::make_unique<SharedMemory>("prism-values", message.values);
    meeting.values = values_->Path();
  }
  PRISM_CHECK_EQ(message.value_bytes.size(), context_.sandbox_ranks.size());
  std::vector<Rank> ranks;  // of this worker
  for (size_t i = 0; i < context_.sandbox_ranks.size(); ++i) {
    meeting.value_bytes[context_.sandbox_ranks[i]] = message.value_bytes[i];
    if (message.worker_of[i] == session_.rank()) {
      ranks.push_back(context_.sandbox_ranks[i]);
    }
  }
  EmulationWorker::Hooks hooks;
  hooks.start_process = [this](const SandboxSpec& spec) { return starter_.Start(spec); };
  hooks.send_events = [this, number = message.number](const std::string& events) {
    session_.Send(0, WireWriter().Put(MessageKind::kOps).Put(number).PutText(events).Take());
  };
  hooks.rank_left = [this, number = message.number](Rank rank, const std::string& log,
                                                    const std::string& history) {
    session_.Send(0, WireWriter()
                         .Put(MessageKind::kRankLeft)
                         .Put(number)
                         .Put(rank.value())
                         .PutText(log)
                         .PutText(history)
                         .Take());
  };
  EmulationStart start = MakeEmulationStart(meeting, ranks);
  if (!start.on_gpu && message.rounds_left_out > 0) {
    start.rounds_left_out = message.rounds_left_out;
    for (EmulatedRank& rank : start.ranks) {
      rank.process.config.repeats_rounds = 1;
    }
  }
  emulation_ = std::make_unique<EmulationWorker>(graph_, std::move(start), std::move(hooks));
  return emulation_->StartProcesses();
}

void Worker::Handle(const std::string& message) {
  WireReader in(message);
  const auto kind = in.Get<MessageKind>();
  if (ended_ && kind != MessageKind::kStop) {
    return;  // sent before process 0 knew
  }
  switch (kind) {
    case MessageKind::kRecord:
    case MessageKind::kMeet:
    case MessageKind::kEmulate: {
      const Status status = kind == MessageKind::kRecord ? Record(&in)
                            : kind == MessageKind::kMeet ? OpenMeeting(GetMeet(&in))
                                                         : BeginEmulation(GetEmulate(&in));
      if (!status.ok()) {
        Fail(status);
      }
      return;
    }
    case MessageKind::kExchange:
    case MessageKind::kStore:
      if (meeting_ != nullptr) {
        meeting_->Take(kind, &in);
      }
      return;
    case MessageKind::kAnswers: {
      WireReader answers(in.GetText());
      if (emulation_ != nullptr) {
        emulation_->Deliver(&answers);
      }
      return;
    }
    case MessageKind::kHung:
      if (emulation_ != nullptr) {
        emulation_->LetTimePass();
      }
      return;
    case MessageKind::kStop:
      stopped_ = true;
      stop_code_ = in.Get<int32_t>();
      KillProcesses();
      return;
    default:
      PRISM_CHECK_MSG(false, "a message that only process 0 gets");
  }
}

Result<bool> Worker::StepRecording() {
  PRISM_ASSIGN_OR_RETURN(const bool busy, recording_->Step());
  for (const RecordedRank& recorded : recording_->TakeRecorded()) {
    session_.Send(0, Encode(recorded));
  }
  for (const StoppedRank& stopped : recording_->TakeStopped()) {
    session_.Send(0, Encode(stopped));
  }
  return busy;
}

void Worker::ReportStacks() {
  if (recording_ != nullptr) {
    recording_->ReportStacks();
  } else if (emulation_ != nullptr) {
    emulation_->ReportStacks();
  }
}

bool Worker::Step() {
  Result<bool> busy = false;
  const bool met = meeting_ != nullptr && meeting_->Step();
  if (TakeReportRequest()) {
    ReportStacks();
  }
  if (recording_ != nullptr) {
    busy = StepRecording();
    if (busy.ok() && recording_->done()) {
      recording_.reset();
    }
  } else if (emulation_ != nullptr) {
    busy = emulation_->Step();
    if (busy.ok() && emulation_->done()) {
      emulation_.reset();
    }
  }
  if (!busy.ok()) {
    Fail(busy.status());
    return true;
  }
  return *busy || met;
}

void Worker::Wait() {
  if (recording_ == nullptr && emulation_ != nullptr) {
    emulation_->Wait();
  } else if (recording_ == nullptr || !recording_->Wait()) {
    Nap(kIdleNapNs);
  }
}

void Worker::KillProcesses() {
  recording_.reset();
  emulation_.reset();
  meeting_.reset();
}

void Worker::Interrupt(const Status& status) {
  if (status.code() == StatusCode::kRunFailed) {
    KillProcesses();  // a host is gone, whose name process 0 knows
    ended_ = true;
  } else {
    Fail(status.WithContext(fmt::format("process {} on {}", session_.rank(), ThisHost().name)));
  }
}

void Worker::Fail(const Status& status) {
  ended_ = true;
  const bool program_ended_well = recording_ != nullptr && recording_->program_ended_well();
  KillProcesses();
  session_.Send(0, WireWriter()
                       .Put(MessageKind::kFailed)
                       .Put(program_ended_well)
                       .Put(static_cast<int32_t>(status.code()))
                       .PutText(status.message())
                       .Take());
}

int ServeAsWorker(RunContext& context, MpiSession& session) {
  Worker worker(context, session);
  worker.Begin();
  std::optional<StopWatch> ending;
  while (!worker.stopped()) {
    const Status ended = InterruptStatus();
    if (!ended.ok() && !ending) {
      ending.emplace();
      worker.Interrupt(ended);
    }
    if (ending && ending->Seconds() > kLastWordS) {
      session.Abort(ExitCode(ended));
    }
    bool busy = false;
    while (const std::optional<PeerMessage> message = session.TryReceive()) {
      worker.Handle(message->bytes);
      busy = true;
    }
    busy = worker.Step() || busy;
    if (!busy) {
      worker.Wait();
    }
  }
  return worker.stop_code();
}

}  // namespace prism::launch
