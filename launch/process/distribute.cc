// The failure that is reported is the same for any number of processes although each stops at its
// own: a share is started in ascending order, so what a process leaves out comes after an item of
// its that failed, and the first failure of all is never left out. Successive calls cannot mix,
// since a process sends its next share only after it has the whole of this one, which takes the
// shares of all.
#include "launch/process/distribute.h"

#include <atomic>
#include <utility>

#include "graph/base/parallel.h"
#include "launch/process/wire.h"

namespace prism::launch {
namespace {

constexpr int64_t kNoItem = -1;

// Results by index and the first failure.
struct Outcome {
  std::vector<std::string> results;
  int64_t failed = kNoItem;
  Status status;
};

void NoteFailure(Outcome* outcome, int64_t index, const Status& status) {
  if (outcome->failed == kNoItem || index < outcome->failed) {
    outcome->failed = index;
    outcome->status = status;
  }
}

Outcome EvaluateShare(const MpiSession& session,
                      int64_t count,
                      int threads,
                      const EvaluateItem& evaluate) {
  Outcome outcome;
  outcome.results.resize(static_cast<size_t>(count));
  const int64_t size = session.size();
  const int64_t share = (count - session.rank() + size - 1) / size;
  std::vector<Status> statuses(static_cast<size_t>(share));
  std::atomic<bool> failed = false;
  // Items are started in ascending order, so those left out come after the one that failed.
  ParallelFor(threads, share, [&](int64_t i) {
    if (failed.load()) {
      return;
    }
    const int64_t index = session.rank() + i * size;
    Result<std::string> result = evaluate(index);
    if (result.ok()) {
      outcome.results[static_cast<size_t>(index)] = *std::move(result);
    } else {
      statuses[static_cast<size_t>(i)] = result.status();
      failed.store(true);
    }
  });
  for (int64_t i = 0; i < share; ++i) {
    if (!statuses[static_cast<size_t>(i)].ok()) {
      NoteFailure(&outcome, session.rank() + i * size, statuses[static_cast<size_t>(i)]);
    }
  }
  return outcome;
}

// The items first, first + step, ... of an outcome.
std::string Pack(const Outcome& outcome, int64_t first, int64_t step) {
  WireWriter writer;
  writer.Put(static_cast<int64_t>(outcome.results.size()));
  writer.Put(outcome.failed);
  writer.Put(outcome.status.code());
  writer.PutText(outcome.status.message());
  for (size_t i = static_cast<size_t>(first); i < outcome.results.size();
       i += static_cast<size_t>(step)) {
    writer.PutText(outcome.results[i]);
  }
  return writer.Take();
}

void Unpack(const std::string& bytes, int64_t first, int64_t step, Outcome* outcome) {
  WireReader reader(bytes);
  PRISM_CHECK_EQ(reader.Get<int64_t>(), static_cast<int64_t>(outcome->results.size()));
  const auto failed = reader.Get<int64_t>();
  const auto code = reader.Get<StatusCode>();
  const std::string message(reader.GetText());
  if (failed != kNoItem) {
    NoteFailure(outcome, failed, Status(code, message));
  }
  for (size_t i = static_cast<size_t>(first); i < outcome->results.size();
       i += static_cast<size_t>(step)) {
    outcome->results[i] = reader.GetText();
  }
}

// Every process sends its share to process 0, which sends the whole to every process.
Status Exchange(MpiSession& session, Outcome* outcome) {
  if (session.rank() != 0) {
    session.Send(0, Pack(*outcome, session.rank(), session.size()));
    PRISM_ASSIGN_OR_RETURN(const PeerMessage whole, session.Receive());
    Unpack(whole.bytes, 0, 1, outcome);
    return OkStatus();
  }
  for (int others = 1; others < session.size(); ++others) {
    PRISM_ASSIGN_OR_RETURN(const PeerMessage share, session.Receive());
    Unpack(share.bytes, share.from, session.size(), outcome);
  }
  const std::string whole = Pack(*outcome, 0, 1);
  for (int process = 1; process < session.size(); ++process) {
    session.Send(process, whole);
  }
  return OkStatus();
}

}  // namespace

Result<std::vector<std::string>> DistributeItems(MpiSession& session,
                                                 int64_t count,
                                                 int threads,
                                                 const EvaluateItem& evaluate) {
  Outcome outcome = EvaluateShare(session, count, threads, evaluate);
  if (session.size() > 1) {
    PRISM_RETURN_IF_ERROR(Exchange(session, &outcome));
  }
  if (outcome.failed != kNoItem) {
    return outcome.status;
  }
  return std::move(outcome.results);
}

int DefaultThreads(const MpiSession& session) {
  return session.size() > 1 ? 1 : AvailableThreads();
}

}  // namespace prism::launch
