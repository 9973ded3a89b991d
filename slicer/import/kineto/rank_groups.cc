#include "slicer/import/kineto/rank_groups.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <system_error>

#include "graph/validate/limits.h"

namespace prism::slicer {
namespace {

constexpr size_t kMostSpaced = size_t{1} << 24U;  // a file of a few bytes a list takes no more

// The numbers of a text, ascending, each once.
std::vector<uint32_t> NumbersIn(std::string_view text) {
  std::vector<uint32_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    uint32_t number = 0;
    const auto [after, error] = std::from_chars(at, end, number);
    if (error == std::errc()) {
      numbers.push_back(number);
    }
    at = error == std::errc() ? after : at + 1;
  }
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

// `spaced`: how many ranks were filled in so far.
std::vector<uint32_t> RanksIn(std::string_view text, int64_t size, size_t* spaced) {
  std::vector<uint32_t> shown = NumbersIn(text);
  if (text.find("...") == std::string_view::npos) {
    return shown;
  }
  if (shown.size() < 2 || size < 2 || size > graph::kMaxRanks) {
    return {};
  }
  *spaced += static_cast<size_t>(size);
  if (*spaced > kMostSpaced) {
    return shown;
  }
  const uint32_t apart = shown[1] - shown[0];
  std::vector<uint32_t> ranks;
  for (int64_t i = 0; i < size; ++i) {
    ranks.push_back(shown.front() + static_cast<uint32_t>(i) * apart);
  }
  return std::includes(ranks.begin(), ranks.end(), shown.begin(), shown.end()) ? ranks : shown;
}

}  // namespace

RankList RankLists::ListOf(std::string_view text, int64_t size) {
  if (text.empty()) {
    return nullptr;
  }
  const auto [list, is_new] = lists_.try_emplace({std::string(text), size});
  if (is_new) {
    std::vector<uint32_t> ranks = RanksIn(text, size, &spaced_);
    if (!ranks.empty()) {
      list->second = std::make_shared<const std::vector<uint32_t>>(std::move(ranks));
    }
  }
  return list->second;
}

void AddGroup(const std::string& name,
              int64_t size,
              std::vector<uint32_t> ranks,
              RankGroups* groups) {
  if (ranks.empty() && size > 0 && size <= graph::kMaxRanks) {
    ranks.resize(static_cast<size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0U);
  }
  if (!name.empty() && !ranks.empty()) {
    std::ranges::sort(ranks);
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    (*groups)[name] = std::make_shared<const std::vector<uint32_t>>(std::move(ranks));
  }
}

RankList WholeGroup(const RankGroups& groups,
                    const std::string& name,
                    int64_t size,
                    const RankList& shown) {
  const auto group = groups.find(name);
  const bool is_whole = group != groups.end() && (size <= 0 || size == std::ssize(*group->second));
  return is_whole ? group->second : shown;
}

}  // namespace prism::slicer
