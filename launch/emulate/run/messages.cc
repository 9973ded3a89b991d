#include "launch/emulate/run/messages.h"

#include "graph/bounded_fragment.h"
#include "launch/emulate/run/calls_message.h"

namespace prism::launch {

void PutRanks(const std::vector<Rank>& ranks, WireWriter* message) {
  message->Put(static_cast<uint32_t>(ranks.size()));
  for (const Rank rank : ranks) {
    message->Put(rank.value());
  }
}

std::vector<Rank> GetRanks(WireReader* message) {
  std::vector<Rank> ranks;
  message->GetEach(message->Get<uint32_t>(), &ranks,
                   [&](Rank* rank) { *rank = Rank(message->Get<uint32_t>()); });
  return ranks;
}

namespace {

void PutNumbers(const std::vector<int>& numbers, WireWriter* message) {
  message->Put<uint64_t>(numbers.size());
  for (const int number : numbers) {
    message->Put(number);
  }
}

std::vector<int> GetNumbers(WireReader* message) {
  std::vector<int> numbers;
  message->GetEach(message->Get<uint64_t>(), &numbers,
                   [&](int* number) { *number = message->Get<int>(); });
  return numbers;
}

}  // namespace

std::string Encode(const RecordedRank& recorded) {
  WireWriter out;
  out.Put(MessageKind::kRecorded).PutText(graph::SerializeFragment(recorded.fragment));
  PutRanks(recorded.speculative_producers, &out);
  out.Put(recorded.odd.size());
  for (const graph::Fragment& odd : recorded.odd) {
    out.PutText(graph::SerializeFragment(odd));
  }
  out.Put(recorded.odd_kinds.size()).Put(recorded.seen);
  for (const slicer::OddKind& kind : recorded.odd_kinds) {
    out.Put(kind.sort);
    PutNumbers(kind.numbers, &out);
  }
  out.Put(recorded.guessed).PutText(recorded.values).Put(recorded.calls.has_value());
  if (recorded.calls) {
    PutCalls(*recorded.calls, &out);
  }
  return out.Take();
}

Result<RecordedRank> GetRecorded(WireReader* message, size_t most_bytes) {
  RecordedRank read;
  PRISM_ASSIGN_OR_RETURN(read.fragment, graph::ParseFragment(message->GetText(), &most_bytes));
  read.speculative_producers = GetRanks(message);
  for (auto odd = message->Get<size_t>(); odd > 0; --odd) {
    PRISM_ASSIGN_OR_RETURN(read.odd.emplace_back(),
                           graph::ParseFragment(message->GetText(), &most_bytes));
  }
  const auto odd_kinds = message->Get<size_t>();
  read.seen = message->Get<int32_t>();
  message->GetEach(odd_kinds, &read.odd_kinds, [&](slicer::OddKind* kind) {
    kind->sort = message->Get<slicer::OddSort>();
    kind->numbers = GetNumbers(message);
  });
  read.guessed = message->Get<bool>();
  read.values = message->GetText();
  if (message->Get<bool>()) {
    read.calls = GetCalls(message);
  }
  return read;
}

std::string Encode(const StoppedRank& stopped) {
  WireWriter out;
  out.Put(MessageKind::kStopped).Put(stopped.rank.value());
  out.Put(static_cast<int32_t>(stopped.end.code())).PutText(stopped.end.message());
  PutRanks(stopped.speculative_producers, &out);
  return out.PutText(stopped.values).Take();
}

StoppedRank GetStopped(WireReader* message) {
  StoppedRank read;
  read.rank = Rank(message->Get<uint32_t>());
  const auto code = static_cast<StatusCode>(message->Get<int32_t>());
  read.end = {code, std::string(message->GetText())};
  read.speculative_producers = GetRanks(message);
  read.values = message->GetText();
  return read;
}

std::string Encode(const MeetMessage& message) {
  WireWriter out;
  out.Put(MessageKind::kMeet).Put(message.number).Put(message.host).Put(message.store_port);
  PutNumbers(message.leaders, &out);
  return out.Take();
}

MeetMessage GetMeet(WireReader* message) {
  MeetMessage read;
  read.number = message->Get<uint32_t>();
  read.host = message->Get<int32_t>();
  read.store_port = message->Get<uint16_t>();
  read.leaders = GetNumbers(message);
  return read;
}

std::string Encode(const MeetingMessage& message) {
  WireWriter out;
  out.Put(MessageKind::kMeeting).Put(message.number).Put(message.host);
  return out.PutText(message.exchange).Put(message.store_port).Take();
}

MeetingMessage GetMeeting(WireReader* message) {
  MeetingMessage read;
  read.number = message->Get<uint32_t>();
  read.host = message->Get<int32_t>();
  read.exchange = message->GetText();
  read.store_port = message->Get<uint16_t>();
  return read;
}

std::string Encode(const EmulateMessage& message) {
  WireWriter out;
  out.Put(MessageKind::kEmulate)
      .Put(message.number)
      .PutText(message.graph_bytes)
      .PutText(message.exchange)
      .Put(message.store_port);
  PutNumbers(message.worker_of, &out);
  PutNumbers(message.places_on_host, &out);
  out.Put(message.on_gpus).Put(message.shares_gpu);
  PutRanks(message.log_ranks, &out);
  PutRanks(message.snapshot_ranks, &out);
  out.Put(message.iterations).Put(message.rounds_left_out);
  out.PutText(message.values).Put<uint64_t>(message.value_bytes.size());
  for (const uint64_t bytes : message.value_bytes) {
    out.Put(bytes);
  }
  return out.Take();
}

EmulateMessage GetEmulate(WireReader* message) {
  EmulateMessage read;
  read.number = message->Get<uint32_t>();
  read.graph_bytes = message->GetText();
  read.exchange = message->GetText();
  read.store_port = message->Get<uint16_t>();
  read.worker_of = GetNumbers(message);
  read.places_on_host = GetNumbers(message);
  read.on_gpus = message->Get<bool>();
  read.shares_gpu = message->Get<bool>();
  read.log_ranks = GetRanks(message);
  read.snapshot_ranks = GetRanks(message);
  read.iterations = message->Get<int32_t>();
  read.rounds_left_out = message->Get<int32_t>();
  read.values = message->GetText();
  read.value_bytes.resize(message->Get<uint64_t>());
  for (uint64_t& bytes : read.value_bytes) {
    bytes = message->Get<uint64_t>();
  }
  return read;
}

}  // namespace prism::launch
