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

Worker::Worker(const RunContext& context, MpiSession& session)
    : context_(context), session_(session) {
}

Worker::~Worker() = default;

void Worker::BeginRecording(const std::vector<Rank>& ranks) {
  session_.Send(0, HelloMessage());
  const auto cores = static_cast<size_t>(AvailableThreads());
  const size_t slots = std::max<size_t>(1, cores / static_cast<size_t>(session_.size()));
  recording_ = std::make_unique<RecordPass>(
      context_, ShareOf(ranks, session_.rank(), session_.size()), slots);
}

Status Worker::BeginEmulation(const std::string& graph_bytes, const MeetingPoint& meeting) {
  PRISM_ASSIGN_OR_RETURN(graph_, graph::DecodeGraph(graph_bytes, "the graph of this run"));
  EmulationWorker::Hooks hooks;
  hooks.send_events = [this](const std::string& events) {
    session_.Send(0, WireWriter().Put(MessageKind::kOps).PutText(events).Take());
  };
  hooks.rank_left = [this](Rank rank, const std::string& log) {
    session_.Send(0,
                  WireWriter().Put(MessageKind::kRankLeft).Put(rank.value()).PutText(log).Take());
  };
  emulation_ = std::make_unique<EmulationWorker>(context_, graph_, std::move(hooks));
  return emulation_->Start(ShareOf(context_.sandbox_ranks, session_.rank(), session_.size()),
                           meeting);
}

void Worker::Handle(const std::string& message) {
  WireReader in(message);
  switch (in.Get<MessageKind>()) {
    case MessageKind::kEmulate: {
      const std::string graph_bytes(in.GetText());
      MeetingPoint meeting;
      meeting.exchange = in.GetText();
      meeting.store_port = in.Get<uint16_t>();
      const Status status = BeginEmulation(graph_bytes, meeting);
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
  for (const graph::Fragment& fragment : recording_->TakeFragments()) {
    session_.Send(0, WireWriter()
                         .Put(MessageKind::kFragment)
                         .PutText(graph::SerializeFragment(fragment))
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

int ServeAsWorker(const RunContext& context, MpiSession& session) {
  Worker worker(context, session);
  // With a graph at hand nothing is recorded; the share is empty.
  worker.BeginRecording(context.options.graph.empty() ? context.plan.RecordedRanks()
                                                      : std::vector<Rank>());
  while (!worker.stopped()) {
    const Status interrupted = InterruptStatus();
    if (!interrupted.ok()) {
      worker.KillProcesses();
      session.Abort(static_cast<int>(interrupted.code()));
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
