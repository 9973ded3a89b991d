#include "launch/emulate/store/store_state.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "graph/base/parse_number.h"
#include "launch/process/wire.h"

namespace prism::launch {
namespace {

// Answers of kCheck and kWait.
constexpr uint8_t kReady = 0;
constexpr uint8_t kNotReady = 1;
constexpr uint8_t kStopWaiting = 0;
constexpr uint8_t kWaitCanceled = 1;

constexpr size_t kAllWaiters = std::numeric_limits<size_t>::max();

std::string Byte(uint8_t value) {
  return WireWriter().Put(value).Take();
}

std::string Number(int64_t value) {
  return WireWriter().Put(value).Take();
}

}  // namespace

void StoreState::AppendWritten(WrittenKeys* written) const {
  written->values.insert(values_.begin(), values_.end());
  written->added.insert(added_.begin(), added_.end());
}

bool StoreState::Exists(const std::string& key) const {
  return values_.contains(key) || queues_.contains(key);
}

const std::string* StoreState::Find(const std::string& key) {
  auto found = values_.find(key);
  if (found == values_.end() && !queues_.contains(key)) {
    if (std::optional<std::string> answer = answers_->Answer(key, values_)) {
      found = values_.emplace(key, *std::move(answer)).first;
    }
  }
  return found == values_.end() ? nullptr : &found->second;
}

void StoreState::Wake(const std::string& key, size_t count, std::vector<StoreReply>* replies) {
  const auto waiters = waiters_.find(key);
  if (waiters == waiters_.end()) {
    return;
  }
  for (; count > 0 && !waiters->second.empty(); --count) {
    const StoreClient client = waiters->second.front();
    waiters->second.pop_front();
    std::vector<std::string>& keys = waiting_.at(client);
    keys.erase(std::find(keys.begin(), keys.end(), key));
    if (keys.empty()) {
      waiting_.erase(client);
      replies->push_back({client, Byte(kStopWaiting)});
    }
  }
  if (waiters->second.empty()) {
    waiters_.erase(waiters);
  }
}

void StoreState::Put(const std::string& key, std::string value, std::vector<StoreReply>* replies) {
  values_[key] = std::move(value);
  Wake(key, kAllWaiters, replies);
}

void StoreState::Forget(StoreClient client) {
  const auto waiting = waiting_.find(client);
  if (waiting == waiting_.end()) {
    return;
  }
  for (const std::string& key : waiting->second) {
    const auto waiters = waiters_.find(key);
    std::deque<StoreClient>& clients = waiters->second;
    clients.erase(std::find(clients.begin(), clients.end(), client));
    if (clients.empty()) {
      waiters_.erase(waiters);
    }
  }
  waiting_.erase(waiting);
}

std::string StoreState::CompareSet(const StoreRequest& request) {
  const std::string& key = request.texts[0];
  const std::string& expected = request.texts[1];
  const std::string& desired = request.texts[2];
  const auto found = values_.find(key);
  if (found == values_.end() && !expected.empty()) {
    return expected;
  }
  if (found == values_.end() || found->second == expected) {
    return values_[key] = desired;
  }
  return found->second;
}

Result<std::string> StoreState::Add(const std::string& key, int64_t amount) {
  const std::string* const before = Find(key);
  int64_t sum = 0;
  if (before != nullptr && !ParseNumber(*before, &sum)) {
    return BadFile(fmt::format("store operation add on a key that is not a number: {}", key));
  }
  if (__builtin_add_overflow(sum, amount, &sum)) {
    return BadFile(fmt::format("store operation add overflows: {}", key));
  }
  values_[key] = fmt::format("{}", sum);
  added_[key] += amount;
  return Number(sum);
}

std::string StoreState::PopQueue(const std::string& key) {
  const auto found = queues_.find(key);
  if (found == queues_.end()) {
    return Number(0);
  }
  std::deque<std::string>& queue = found->second;
  WireWriter reply;
  reply.Put(static_cast<int64_t>(queue.size())).PutText(queue.front());
  queue.pop_front();
  if (queue.empty()) {
    queues_.erase(found);
  }
  return reply.Take();
}

std::string StoreState::ListKeys() const {
  WireWriter reply;
  reply.Put(static_cast<int64_t>(values_.size()));
  for (const auto& [key, value] : values_) {
    reply.PutText(key);
  }
  return reply.Take();
}

void StoreState::Wait(StoreClient client,
                      const StoreRequest& request,
                      std::vector<StoreReply>* replies) {
  std::vector<std::string> missing;
  for (const std::string& key : request.texts) {
    if (Find(key) == nullptr && !Exists(key)) {
      missing.push_back(key);
    }
  }
  if (missing.empty()) {
    replies->push_back({client, Byte(kStopWaiting)});
    return;
  }
  Forget(client);  // a client has one wait at a time
  for (const std::string& key : missing) {
    waiters_[key].push_back(client);
  }
  waiting_[client] = std::move(missing);
}

// The reply to operations that wake nobody; "" for those without a reply.
Result<std::string> StoreState::Answer(StoreClient client, const StoreRequest& request) {
  const auto& texts = request.texts;
  switch (request.op) {
    case StoreOp::kGet: {
      const std::string* const value = Find(texts[0]);
      return WireWriter().PutText(value == nullptr ? "" : *value).Take();
    }
    case StoreOp::kMultiGet: {
      WireWriter reply;
      for (const std::string& key : texts) {
        const std::string* const value = Find(key);
        reply.PutText(value == nullptr ? "" : *value);
      }
      return reply.Take();
    }
    case StoreOp::kCheck: {
      // No value is invented here: programs poll for keys whose presence means a failure.
      const bool ready =
          std::all_of(texts.begin(), texts.end(), [this](const auto& key) { return Exists(key); });
      return Byte(ready ? kReady : kNotReady);
    }
    case StoreOp::kGetNumKeys:
      return Number(static_cast<int64_t>(values_.size()));
    case StoreOp::kDeleteKey: {
      const size_t count = values_.erase(texts[0]) + queues_.erase(texts[0]);
      return Number(count > 0 ? 1 : 0);
    }
    case StoreOp::kCancelWait:
      Forget(client);
      return Byte(kWaitCanceled);
    case StoreOp::kPing:
      return WireWriter().Put(static_cast<uint32_t>(request.number)).Take();
    case StoreOp::kQueuePop:
      return PopQueue(texts[0]);
    case StoreOp::kQueueLen: {
      const auto found = queues_.find(texts[0]);
      return Number(found == queues_.end() ? 0 : static_cast<int64_t>(found->second.size()));
    }
    case StoreOp::kListKeys:
      return ListKeys();
    default:
      return BadFile(fmt::format("unexpected store operation {}", static_cast<int>(request.op)));
  }
}

Status StoreState::Handle(StoreClient client,
                          const StoreRequest& request,
                          std::vector<StoreReply>* replies) {
  const auto& texts = request.texts;
  switch (request.op) {
    case StoreOp::kSet:
      Put(texts[0], texts[1], replies);
      return OkStatus();
    case StoreOp::kAppend:
      values_[texts[0]] += texts[1];
      Wake(texts[0], kAllWaiters, replies);
      return OkStatus();
    case StoreOp::kMultiSet:
      for (size_t i = 0; i + 1 < texts.size(); i += 2) {
        Put(texts[i], texts[i + 1], replies);
      }
      return OkStatus();
    case StoreOp::kQueuePush:
      queues_[texts[0]].push_back(texts[1]);
      Wake(texts[0], 1, replies);
      return OkStatus();
    case StoreOp::kWait:
      Wait(client, request, replies);
      return OkStatus();
    case StoreOp::kCompareSet:
      replies->push_back({client, WireWriter().PutText(CompareSet(request)).Take()});
      Wake(texts[0], kAllWaiters, replies);
      return OkStatus();
    case StoreOp::kAdd: {
      PRISM_ASSIGN_OR_RETURN(std::string sum, Add(texts[0], request.number));
      replies->push_back({client, std::move(sum)});
      Wake(texts[0], kAllWaiters, replies);
      return OkStatus();
    }
    default: {
      PRISM_ASSIGN_OR_RETURN(std::string reply, Answer(client, request));
      replies->push_back({client, std::move(reply)});
      return OkStatus();
    }
  }
}

}  // namespace prism::launch
