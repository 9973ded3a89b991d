#include "tests/fuzz/store_input.h"

#include <algorithm>
#include <string>
#include <vector>

#include "graph/base/check.h"
#include "launch/emulate/store/store_state.h"

namespace prism::testing {
namespace {

using launch::StoreReply;
using launch::StoreRequest;

constexpr launch::StoreClient kFirst = 1;
constexpr launch::StoreClient kSecond = 2;

struct Session {
  std::vector<StoreRequest> requests;
  std::string refusal;  // "" none
};

Session Parse(std::string_view input, size_t piece) {
  Session session;
  launch::StoreRequestParser parser;
  for (size_t at = 0; at < input.size(); at += piece) {
    parser.Append(input.substr(at, piece));
    while (session.refusal.empty()) {
      Result<std::optional<StoreRequest>> request = parser.Next();
      if (!request.ok()) {
        session.refusal = request.status().message();
        PRISM_CHECK(request.status().code() == StatusCode::kBadFile);
        PRISM_CHECK(!session.refusal.empty());
      } else if (!request->has_value()) {
        break;
      } else {
        session.requests.push_back(**std::move(request));
      }
    }
  }
  return session;
}

void CheckEqual(const Session& left, const Session& right) {
  PRISM_CHECK_EQ(left.refusal, right.refusal);
  PRISM_CHECK_EQ(left.requests.size(), right.requests.size());
  for (size_t i = 0; i < left.requests.size(); ++i) {
    PRISM_CHECK(left.requests[i].op == right.requests[i].op);
    PRISM_CHECK(left.requests[i].texts == right.requests[i].texts);
    PRISM_CHECK_EQ(left.requests[i].number, right.requests[i].number);
  }
}

// Two clients send the same requests in turn; then the first leaves, and the second continues.
void CarryOut(const std::vector<StoreRequest>& requests) {
  launch::AbsentAnswers answers({.world_size = 64, .ranks_per_node = 8, .present = 2});
  launch::StoreState state(&answers);
  std::vector<StoreReply> replies;
  for (const StoreRequest& request : requests) {
    for (const launch::StoreClient client : {kFirst, kSecond}) {
      const Status status = state.Handle(client, request, &replies);
      PRISM_CHECK(status.ok() || !status.message().empty());
    }
  }
  state.Forget(kFirst);
  PRISM_CHECK(!state.waiting().contains(kFirst));
  replies.clear();
  for (const StoreRequest& request : requests) {
    PRISM_CHECK(state.Handle(kSecond, request, &replies).code() != StatusCode::kRunFailed);
  }
  PRISM_CHECK(std::ranges::all_of(replies, [](const auto& reply) { return reply.to == kSecond; }));
}

}  // namespace

void TryStore(std::string_view input) {
  const Session whole = Parse(input, std::max<size_t>(1, input.size()));
  CheckEqual(whole, Parse(input, 1));
  CheckEqual(whole, Parse(input, 7));
  CarryOut(whole.requests);
}

}  // namespace prism::testing
