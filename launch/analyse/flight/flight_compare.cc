// A recorder keeps the latest entries: what comes before a rank's first entry on a group is not
// known, what comes after its last one has not been called. All ranks of a group number its
// collectives alike.
#include "launch/analyse/flight/flight_compare.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/parse_number.h"

namespace prism::launch {
namespace {

constexpr const char* kDone = "completed";

// Collectives whose ranks may have buffers of different sizes.
constexpr std::string_view kUneven[] = {
    "all_to_all", "alltoall", "gather", "scatter", "allgatherv", "all_gather_into_tensor_uneven"};
constexpr std::string_view kEven[] = {"allgather_base", "all_gather_into", "reduce_scatter",
                                      "_reduce_scatter"};

bool IsUneven(const std::string& name) {
  const auto has = [&](std::string_view word) { return name.find(word) != std::string::npos; };
  return std::ranges::any_of(kUneven, has) && !std::ranges::any_of(kEven, has);
}

// What has to be the same on all ranks.
std::string KindOf(const FlightEntry& entry) {
  std::string text = fmt::format("{} {}", entry.name, fmt::join(entry.input.types, ","));
  if (!IsUneven(entry.name)) {
    for (const std::vector<int64_t>& sizes : entry.input.sizes) {
      text += fmt::format(" [{}]", fmt::join(sizes, ","));
    }
  }
  return text;
}

// The collectives of one rank on one group, by number.
using Calls = std::map<int64_t, const FlightEntry*>;

// One side of a message.
struct Message {
  const FlightEntry* entry = nullptr;
  bool is_done = false;
};

// What one rank sends and another receives, in order.
struct Messages {
  std::vector<Message> sent;
  std::vector<Message> received;
};

struct GroupCalls {
  const FlightGroup* group = nullptr;
  std::map<uint32_t, Calls> of_rank;
  std::map<std::pair<uint32_t, uint32_t>, Messages> messages;  // by sender and receiver
};

// The other side of "nccl:send 0->1" or "nccl:recv 1<-0", a rank of the group; -1: not named.
int64_t PeerOf(const FlightEntry& entry) {
  const size_t arrow = entry.name.find(IsSendEntry(entry) ? "->" : "<-");
  int64_t peer = -1;
  if (arrow != std::string::npos) {
    ParseNumber(std::string_view(entry.name).substr(arrow + 2), &peer);
  }
  return peer;
}

// Type and elements, which sender and receiver agree on; shapes may differ.
std::string AmountOf(const FlightEntry& entry) {
  const FlightTensors& tensors = entry.input.sizes.empty() ? entry.output : entry.input;
  double elements = 0;
  for (const std::vector<int64_t>& sizes : tensors.sizes) {
    double product = 1;
    for (const int64_t extent : sizes) {
      product *= static_cast<double>(extent);
    }
    elements += product;
  }
  return fmt::format("{} {}", elements, fmt::join(tensors.types, ","));
}

class Comparison {
 public:
  explicit Comparison(const std::map<uint32_t, FlightDump>& dumps) : dumps_(dumps) {
    for (const auto& [rank, dump] : dumps) {
      result_.ranks.push_back(rank);
      Collect(rank, dump);
    }
  }

  FlightComparison Run() {
    std::set<uint32_t> absent;
    for (const auto& [key, calls] : groups_) {
      for (const Rank member : calls.group->ranks) {
        if (!dumps_.contains(member.value())) {
          absent.insert(member.value());
        }
      }
      if (std::optional<FlightGap> gap = FirstGap(key.first, calls)) {
        result_.gaps.push_back(*std::move(gap));
      }
      for (const auto& [ranks, messages] : calls.messages) {
        AddMessageGap(key.first, calls, ranks, messages, &absent);
      }
      result_.unlisted += calls.group->ranks.empty() ? 1 : 0;
    }
    result_.absent.assign(absent.begin(), absent.end());
    result_.groups = groups_.size();
    std::ranges::stable_sort(result_.gaps, {}, &FlightGap::created_ns);
    return std::move(result_);
  }

 private:
  void Collect(uint32_t rank, const FlightDump& dump) {
    for (const auto& [name, group] : dump.groups) {
      const bool member = group.ranks.empty() || std::ranges::count(group.ranks, Rank(rank)) > 0;
      std::vector<uint32_t> ranks;
      for (const Rank other : group.ranks) {
        ranks.push_back(other.value());
      }
      GroupCalls& calls = groups_[{name, ranks}];
      calls.group = &group;
      if (member) {
        calls.of_rank[rank];
      }
      keys_[{rank, name}] = &calls;
    }
    // Of calls that were made as one, only that one ends: by group and number.
    std::map<std::pair<std::string, int64_t>, bool> batches;
    for (const FlightEntry& entry : dump.entries) {
      if (entry.of_messages) {
        batches[{entry.group, entry.p2p_seq_id}] = entry.state == kDone;
      }
    }
    for (const FlightEntry& entry : dump.entries) {
      const auto calls = keys_.find({rank, entry.group});
      if (calls == keys_.end() || entry.of_messages) {
        continue;
      }
      if (!IsPeerEntry(entry)) {
        calls->second->of_rank[rank][entry.collective_seq_id] = &entry;
      } else if (const int64_t named = PeerOf(entry); named >= 0) {
        const std::vector<Rank>& ranks = calls->second->group->ranks;
        const auto place = static_cast<size_t>(named);
        const auto peer =
            place < ranks.size() ? ranks[place].value() : static_cast<uint32_t>(named);
        Messages& messages =
            calls->second
                ->messages[IsSendEntry(entry) ? std::pair(rank, peer) : std::pair(peer, rank)];
        const auto batch = batches.find({entry.group, entry.p2p_seq_id});
        const bool is_done = batch == batches.end() ? entry.state == kDone : batch->second;
        (IsSendEntry(entry) ? messages.sent : messages.received).push_back({&entry, is_done});
      }
    }
  }

  // Whether the dump begins with the rank's first call. Else what it lacks on a group may have been
  // overwritten, and of messages only those that have not ended are paired.
  [[nodiscard]] bool IsWhole(uint32_t rank) const {
    const auto dump = dumps_.find(rank);
    return dump == dumps_.end() || dump->second.entries.empty() ||
           dump->second.entries.front().record_id == 0;
  }

  // The first message that only one side has called, that the sides call differently, or that
  // both wait for.
  void AddMessageGap(const std::string& name,
                     const GroupCalls& calls,
                     const std::pair<uint32_t, uint32_t>& ranks,
                     Messages messages,
                     std::set<uint32_t>* absent) {
    const bool both = dumps_.contains(ranks.first) && dumps_.contains(ranks.second);
    if (!both || !IsWhole(ranks.first) || !IsWhole(ranks.second)) {
      std::erase_if(messages.sent, std::mem_fn(&Message::is_done));
      std::erase_if(messages.received, std::mem_fn(&Message::is_done));
    }
    const size_t count = std::max(messages.sent.size(), messages.received.size());
    for (size_t i = 0; i < count; ++i) {
      const Message none = {nullptr, true};
      const Message send = i < messages.sent.size() ? messages.sent[i] : none;
      const Message receive = i < messages.received.size() ? messages.received[i] : none;
      const FlightEntry* const sent = send.entry;
      const FlightEntry* const received = receive.entry;
      const FlightEntry* const call = sent != nullptr ? sent : received;
      const bool differs =
          sent != nullptr && received != nullptr && AmountOf(*sent) != AmountOf(*received);
      // What has ended on one side has on the other.
      const bool waits =
          !(send.is_done && sent != nullptr) && !(receive.is_done && received != nullptr);
      if (!differs && !waits) {
        continue;
      }
      FlightGap gap;
      gap.name = name;
      gap.group = calls.group;
      gap.number = call->p2p_seq_id;
      gap.call = call;
      gap.created_ns = call->created_ns;
      for (const auto& [rank, entry] : {std::pair(ranks.first, sent), {ranks.second, received}}) {
        if (!dumps_.contains(rank)) {
          gap.absent.push_back(rank);
          absent->insert(rank);
          continue;
        }
        const std::vector<FlightEntry>& all = dumps_.at(rank).entries;
        gap.parts.push_back({rank, entry, all.empty() ? nullptr : &all.back()});
        if (entry == nullptr) {
          gap.missing.push_back(rank);
        } else if (differs && entry != call) {
          gap.other.push_back(rank);
        }
      }
      result_.gaps.push_back(std::move(gap));
      return;
    }
  }

  [[nodiscard]] std::optional<FlightGap> FirstGap(const std::string& name,
                                                  const GroupCalls& calls) const {
    std::set<int64_t> numbers;
    for (const auto& [rank, own] : calls.of_rank) {
      for (const auto& [number, entry] : own) {
        numbers.insert(number);
      }
    }
    for (const int64_t number : numbers) {
      FlightGap gap = PartsAt(number, calls);
      if (!gap.missing.empty() || !gap.other.empty() || Waits(gap)) {
        gap.name = name;
        return gap;
      }
    }
    return std::nullopt;
  }

  // Somebody has begun it and not ended it.
  static bool Waits(const FlightGap& gap) {
    return std::ranges::any_of(gap.parts, [](const FlightPart& part) {
      return part.entry != nullptr && part.entry->state != kDone;
    });
  }

  [[nodiscard]] FlightGap PartsAt(int64_t number, const GroupCalls& calls) const {
    FlightGap gap;
    gap.group = calls.group;
    gap.number = number;
    std::map<std::string, int64_t> kinds;
    for (const auto& [rank, own] : calls.of_rank) {
      const auto at = own.find(number);
      const FlightEntry* const last = own.empty() ? nullptr : own.rbegin()->second;
      if (at != own.end()) {
        gap.parts.push_back({rank, at->second, last});
        ++kinds[KindOf(*at->second)];
      } else if (own.empty() ? IsWhole(rank) : own.rbegin()->first < number) {
        gap.parts.push_back({rank, nullptr, last});
        gap.missing.push_back(rank);
      }
    }
    // What most ranks call; of as many, the call of the lowest rank.
    std::string most;
    for (const FlightPart& part : gap.parts) {
      if (part.entry != nullptr && (most.empty() || kinds[KindOf(*part.entry)] > kinds[most])) {
        most = KindOf(*part.entry);
      }
    }
    for (const FlightPart& part : gap.parts) {
      if (part.entry == nullptr) {
        continue;
      }
      const bool usual = KindOf(*part.entry) == most;
      gap.call = usual && gap.call == nullptr ? part.entry : gap.call;
      gap.created_ns = gap.created_ns == 0 ? part.entry->created_ns
                                           : std::min(gap.created_ns, part.entry->created_ns);
      if (!usual) {
        gap.other.push_back(part.rank);
      }
    }
    for (const Rank member : calls.group->ranks) {
      if (!calls.of_rank.contains(member.value())) {
        gap.absent.push_back(member.value());
      }
    }
    return gap;
  }

  const std::map<uint32_t, FlightDump>& dumps_;
  // By c10d's name and ranks.
  std::map<std::pair<std::string, std::vector<uint32_t>>, GroupCalls> groups_;
  std::map<std::pair<uint32_t, std::string>, GroupCalls*> keys_;
  FlightComparison result_;
};

}  // namespace

int64_t RankOfDumpName(const std::string& path) {
  constexpr std::string_view kDigits = "0123456789";
  const std::string name = std::filesystem::path(path).filename();
  const size_t last = name.find_last_of(kDigits);
  if (last == std::string::npos) {
    return -1;
  }
  const size_t before = name.find_last_not_of(kDigits, last);
  const size_t first = before == std::string::npos ? 0 : before + 1;
  int64_t rank = -1;
  ParseNumber(std::string_view(name).substr(first, last - first + 1), &rank);
  return rank;
}

FlightComparison CompareDumps(const std::map<uint32_t, FlightDump>& dumps) {
  return Comparison(dumps).Run();
}

}  // namespace prism::launch
