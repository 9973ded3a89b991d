#include "slicer/import/chakra/trace_names.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "graph/base/parse_number.h"
#include "graph/validate/limits.h"

namespace prism::slicer {
namespace {

// "trace.12.et.gz" → "trace.12"; "" for other endings.
std::string_view StemOfTrace(std::string_view path) {
  for (const std::string_view packed : {".gz", ".zst"}) {
    path.remove_suffix(path.ends_with(packed) ? packed.size() : 0);
  }
  for (const std::string_view ending : {".et", ".json"}) {
    if (path.ends_with(ending)) {
      return path.substr(0, path.size() - ending.size());
    }
  }
  return {};
}

}  // namespace

std::optional<uint32_t> RankOfTrace(const std::string& path) {
  const std::string_view stem = StemOfTrace(path);
  const size_t dot = stem.find_last_of("./");
  uint32_t rank = 0;
  const std::string_view digits = stem.substr(dot == std::string::npos ? 0 : dot + 1);
  return ParseNumber(digits, &rank) && rank < uint32_t{graph::kMaxRanks} ? std::optional(rank)
                                                                         : std::nullopt;
}

std::vector<std::string> TracesOf(const std::string& prefix) {
  const std::filesystem::path path(prefix);
  const std::string begin = path.filename().string() + ".";
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(
           path.has_parent_path() ? path.parent_path() : ".", ignored)) {
    const std::string name = entry.path().filename().string();
    const std::string_view stem = StemOfTrace(name);
    if (stem.size() > begin.size() && stem.starts_with(begin) &&
        stem.find_first_not_of("0123456789", begin.size()) == std::string_view::npos &&
        RankOfTrace(name)) {
      found.push_back(path.has_parent_path() ? (path.parent_path() / name).string() : name);
    }
  }
  std::ranges::sort(found);
  return found;
}

Status SortByRank(std::vector<std::string>* files) {
  std::map<uint32_t, std::string> by_rank;
  for (const std::string& file : *files) {
    const std::optional<uint32_t> rank = RankOfTrace(file);
    if (!rank.has_value()) {
      return InvalidArgument(fmt::format(
          "{}: the name does not tell the rank; rename the files to PREFIX.<rank>.et", file));
    }
    if (!by_rank.emplace(*rank, file).second) {
      return InvalidArgument(fmt::format("{}: rank {} has two files", file, *rank));
    }
  }
  uint32_t next = 0;
  files->clear();
  for (const auto& [rank, file] : by_rank) {
    if (rank != next++) {
      return BadFile(
          fmt::format("{} is of rank {}, but there is no file for rank {}", file, rank, next - 1));
    }
    files->push_back(file);
  }
  return OkStatus();
}

}  // namespace prism::slicer
