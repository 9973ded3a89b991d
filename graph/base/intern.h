// Tables of distinct values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace prism {

// Index of `value` in a table of distinct values, appended if new; `ids` has those of all.
template <typename Ids, typename T>
auto InternValue(std::vector<T>& table, Ids& ids, const T& value) {
  const auto [found, is_new] =
      ids.try_emplace(value, static_cast<typename Ids::mapped_type>(table.size()));
  if (is_new) {
    table.push_back(value);
  }
  return found->second;
}

// The same without ids. Linear: for tables of dozens.
template <typename T>
uint32_t InternValue(std::vector<T>& table, const T& value) {
  const auto found = std::ranges::find(table, value);
  if (found != table.end()) {
    return static_cast<uint32_t>(found - table.begin());
  }
  table.push_back(value);
  return static_cast<uint32_t>(table.size() - 1);
}

}  // namespace prism
