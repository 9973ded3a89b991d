// The two sources of groups are written by different programs: ASTRA-sim's file is an object of
// lists, PyTorch's node a JSON list that was printed as the only element of a Python list, so it is
// quoted once more. Along dimensions a group is all ranks whose other coordinates are the same:
// coordinates are digits of the rank, the first dimension the lowest.
#include "slicer/import/chakra/process_groups.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace prism::slicer {
namespace {

using Json = nlohmann::json;

// `all`: how many an empty list means.
Status ReadRanks(const Json& list,
                 const std::string& where,
                 uint32_t ranks,
                 uint32_t all,
                 std::vector<uint32_t>* members) {
  if (!list.is_array()) {
    return BadFile(fmt::format("{}: a list of ranks is expected", where));
  }
  for (const Json& entry : list) {
    if (!entry.is_number_unsigned() || entry.get<uint64_t>() >= ranks) {
      return BadFile(fmt::format("{}: {} is not one of the {} ranks", where,
                                 entry.is_structured() ? "a list or object" : entry.dump(), ranks));
    }
    members->push_back(entry.get<uint32_t>());
  }
  if (members->empty()) {
    members->resize(all);
    std::iota(members->begin(), members->end(), 0U);
  }
  std::ranges::sort(*members);
  members->erase(std::unique(members->begin(), members->end()), members->end());
  return OkStatus();
}

}  // namespace

Status ReadGroupFile(std::string_view text,
                     const std::string& file,
                     uint32_t ranks,
                     ProcessGroups* groups) {
  const Json document = Json::parse(text, nullptr, false);
  if (!document.is_object()) {
    return BadFile(fmt::format("{}: is not a JSON object of groups: {{\"1\": [0, 1], ...}}", file));
  }
  for (const auto& [name, list] : document.items()) {
    std::vector<uint32_t> members;
    PRISM_RETURN_IF_ERROR(
        ReadRanks(list, fmt::format("{}: group {}", file, name), ranks, ranks, &members));
    (*groups)[name] = std::move(members);
  }
  return OkStatus();
}

Status ReadGroupNode(std::string_view values,
                     const std::string& file,
                     uint32_t ranks,
                     ProcessGroups* groups) {
  constexpr size_t kQuotes = 2;  // "['" and "']" of a list of Python
  return values.size() < 2 * kQuotes
             ? OkStatus()
             : ReadGroupList(values.substr(kQuotes, values.size() - 2 * kQuotes), file, ranks,
                             groups);
}

Status ReadGroupList(std::string_view json,
                     const std::string& file,
                     uint32_t ranks,
                     ProcessGroups* groups) {
  const Json document = Json::parse(json, nullptr, false);
  if (!document.is_array()) {
    return BadFile(fmt::format("{}: the node that lists process groups has no JSON list", file));
  }
  for (const Json& group : document) {
    if (!group.is_object() || !group.contains("pg_name") || !group.at("pg_name").is_string() ||
        !group.contains("ranks")) {
      return BadFile(fmt::format("{}: a process group lacks pg_name or ranks", file));
    }
    const auto name = group.at("pg_name").get<std::string>();
    const Json size = group.value("pg_size", Json());
    const bool is_sized = size.is_number_unsigned() && size.get<uint64_t>() < ranks;
    std::vector<uint32_t> members;
    PRISM_RETURN_IF_ERROR(ReadRanks(group.at("ranks"), fmt::format("{}: group {}", file, name),
                                    ranks, is_sized ? size.get<uint32_t>() : ranks, &members));
    (*groups)[name] = std::move(members);
  }
  return OkStatus();
}

std::vector<uint32_t> GroupAlong(uint32_t rank,
                                 const std::vector<int64_t>& dims,
                                 const std::vector<bool>& involved) {
  std::vector<uint32_t> group = {rank};
  int64_t stride = 1;
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    if (dim < involved.size() && involved[dim]) {
      std::vector<uint32_t> wider;
      for (const uint32_t member : group) {
        const int64_t own = member / stride % dims[dim];
        for (int64_t other = 0; other < dims[dim]; ++other) {
          wider.push_back(static_cast<uint32_t>(member + (other - own) * stride));
        }
      }
      group = std::move(wider);
    }
    stride *= dims[dim];
  }
  std::ranges::sort(group);
  return group;
}

uint32_t GroupLeader(uint32_t rank,
                     const std::vector<int64_t>& dims,
                     const std::vector<bool>& involved) {
  int64_t leader = rank;
  int64_t stride = 1;
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    if (dim < involved.size() && involved[dim]) {
      leader -= rank / stride % dims[dim] * stride;
    }
    stride *= dims[dim];
  }
  return static_cast<uint32_t>(leader);
}

}  // namespace prism::slicer
