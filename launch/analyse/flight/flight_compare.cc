// A recorder keeps the latest entries: what comes before a rank's first entry on a group is not
// known, what comes after its last one has not been called. All ranks of a group number its
// collectives alike.
#include "launch/analyse/flight/flight_compare.h"

#include <algorithm>
#include <filesystem>
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

struct GroupCalls {
  const FlightGroup* group = nullptr;
  std::map<uint32_t, Calls> of_rank;
};

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
    for (const FlightEntry& entry : dump.entries) {
      const auto calls = keys_.find({rank, entry.group});
      if (calls != keys_.end() && !IsPeerEntry(entry)) {
        calls->second->of_rank[rank][entry.collective_seq_id] = &entry;
      }
    }
  }

  static std::optional<FlightGap> FirstGap(const std::string& name, const GroupCalls& calls) {
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

  static FlightGap PartsAt(int64_t number, const GroupCalls& calls) {
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
      } else if (own.empty() || own.rbegin()->first < number) {
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
