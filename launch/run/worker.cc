#include "launch/run/worker.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "graph/base/parallel.h"
#include "graph/file.h"
#include "graph/fragment.h"
#include "launch/exit_codes.h"
#include "launch/process/interrupt.h"
#include "launch/process/wire.h"
#include "launch/run/messages.h"

namespace prism::launch {
namespace {

constexpr int64_t kIdleNapNs = 500'000;

void Nap(int64_t nanoseconds) {
  const timespec duration = {.tv_sec = 0, .tv_nsec = nanoseconds};
  nanosleep(&duration, nullptr);
}

std::string HelloMessage() {
  std::array<char, 256> host = {};
  gethostname(host.data(), host.size() - 1);
  return WireWriter().Put(MessageKind::kHello).Put<int64_t>(getpid()).PutText(host.data()).Take();
}

}  // namespace

Worker::Worker(RunContext& context, MpiSession& session) : context_(context), session_(session) {
}

Worker::~Worker() = default;

void Worker::Begin() {
  session_.Send(0, HelloMessage());
}

Status Worker::Record(WireReader* message) {
  const auto steps = message->Get<int32_t>();
  const std::string_view values = message->GetText();
  const std::vector<Rank> ranks = GetRanks(message);
  emulation_.reset();  // one that is to be begun anew
  if (recording_ == nullptr) {
    const auto cores = static_cast<size_t>(AvailableThreads());
    const size_t slots = std::max<size_t>(1, cores / static_cast<size_t>(session_.size()));
    recording_ = std::make_unique<RecordPass>(context_, slots);
  }
  return recording_->Add(ShareOf(ranks, session_.rank(), session_.size()), values, steps);
}

// What process 0 came to know by recording goes into the context.
Status Worker::BeginEmulation(WireReader* message) {
  const auto number = message->Get<uint32_t>();
  PRISM_ASSIGN_OR_RETURN(graph_, graph::DecodeGraph(message->GetText(), "the graph of this run"));
  MeetingPoint meeting;
  meeting.exchange = message->GetText();
  meeting.store_port = message->Get<uint16_t>();
  context_.job = graph_.job;
  context_.cluster = graph_.cluster;
  context_.sandbox_ranks = graph_.sandbox_ranks;
  context_.log_ranks = GetRanks(message);
  context_.snapshot_ranks = GetRanks(message);
  context_.options.iterations = message->Get<int32_t>();
  const std::string_view values = message->GetText();
  if (!values.empty()) {
    values_ = std::make_unique<SharedMemory>("prism-values", values);
    meeting.values = values_->Path();
  }
  for (const Rank rank : context_.sandbox_ranks) {
    meeting.values_told[rank] = message->Get<uint64_t>();
  }
  EmulationWorker::Hooks hooks;
  hooks.send_events = [this, number](const std::string& events) {
    session_.Send(0, WireWriter().Put(MessageKind::kOps).Put(number).PutText(events).Take());
  };
  hooks.rank_left = [this, number](Rank rank, const std::string& log, const std::string& history) {
    session_.Send(0, WireWriter()
                         .Put(MessageKind::kRankLeft)
                         .Put(number)
                         .Put(rank.value())
                         .PutText(log)
                         .PutText(history)
                         .Take());
  };
  emulation_ = std::make_unique<EmulationWorker>(context_, graph_, std::move(hooks));
  return emulation_->Start(ShareOf(context_.sandbox_ranks, session_.rank(), session_.size()),
                           meeting);
}

void Worker::Handle(const std::string& message) {
  WireReader in(message);
  const auto kind = in.Get<MessageKind>();
  switch (kind) {
    case MessageKind::kRecord:
    case MessageKind::kEmulate: {
      const Status status = kind == MessageKind::kRecord ? Record(&in) : BeginEmulation(&in);
      if (!status.ok()) {
        Fail(status);
      }
      return;
    }
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
    session_.Send(0, WireWriter()
                         .Put(MessageKind::kFragment)
                         .PutText(graph::SerializeFragment(recorded.fragment))
                         .PutText(recorded.values)
                         .Take());
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
  return *busy;
}

void Worker::Wait() {
  if (recording_ != nullptr) {
    recording_->Wait();
  } else if (emulation_ != nullptr) {
    emulation_->Wait();
  } else {
    Nap(kIdleNapNs);
  }
}

void Worker::KillProcesses() {
  recording_.reset();
  emulation_.reset();
}

void Worker::Fail(const Status& status) {
  KillProcesses();
  session_.Send(0, WireWriter()
                       .Put(MessageKind::kFailed)
                       .Put(static_cast<int32_t>(status.code()))
                       .PutText(status.message())
                       .Take());
}

int ServeAsWorker(RunContext& context, MpiSession& session) {
  Worker worker(context, session);
  worker.Begin();
  while (!worker.stopped()) {
    const Status interrupted = InterruptStatus();
    if (!interrupted.ok()) {
      worker.KillProcesses();
      session.Abort(ExitCode(interrupted));
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
