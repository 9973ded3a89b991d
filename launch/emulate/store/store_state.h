// What one store holds and who waits for it: the behaviour of torch's own TCPStore server, without
// sockets. Keys that only absent ranks would write are answered by AbsentAnswers when they are
// waited for or read; from then on they are ordinary keys.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/emulate/store/absent_answers.h"
#include "launch/emulate/store/store_request.h"

namespace prism::launch {

// A connection; chosen by the caller.
using StoreClient = int;

struct StoreReply {
  StoreClient to = 0;
  std::string bytes;
};

// What a rank has written.
struct WrittenKeys {
  StoreValues values;
  std::map<std::string, int64_t> added;  // of them: what the rank's own add() come to
};

class StoreState {
 public:
  // `answers` must outlive the state.
  explicit StoreState(AbsentAnswers* answers) : answers_(answers) {}

  // Carries out a request and appends what has to be sent to its client or to others that it wakes.
  // kBadFile: the client broke the protocol and is to be dropped.
  Status Handle(StoreClient client, const StoreRequest& request, std::vector<StoreReply>* replies);

  // The client has gone.
  void Forget(StoreClient client);

  void AppendWritten(WrittenKeys* written) const;

  // The missing keys of clients that wait, by client.
  [[nodiscard]] const std::map<StoreClient, std::vector<std::string>>& waiting() const {
    return waiting_;
  }

 private:
  // One request's handlers; texts are counted by the parser.
  std::string CompareSet(const StoreRequest& request);
  Result<std::string> Add(const std::string& key, int64_t amount);
  std::string PopQueue(const std::string& key);
  std::string ListKeys() const;
  void Wait(StoreClient client, const StoreRequest& request, std::vector<StoreReply>* replies);
  Result<std::string> Answer(StoreClient client, const StoreRequest& request);

  [[nodiscard]] bool Exists(const std::string& key) const;
  // The value, from an absent rank if necessary; nullptr: none.
  const std::string* Find(const std::string& key);
  void Put(const std::string& key, std::string value, std::vector<StoreReply>* replies);
  // Wakes at most `count` of the clients that wait for the key.
  void Wake(const std::string& key, size_t count, std::vector<StoreReply>* replies);

  AbsentAnswers* answers_;
  std::map<std::string, std::string, std::less<>> values_;
  std::map<std::string, int64_t> added_;
  std::map<std::string, std::deque<std::string>> queues_;
  std::map<StoreClient, std::vector<std::string>> waiting_;
  std::map<std::string, std::deque<StoreClient>> waiters_;  // by key, in order of arrival
};

}  // namespace prism::launch
