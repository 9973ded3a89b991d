#include "launch/inputs/sandbox_list.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "graph/base/parse_number.h"
#include "graph/base/split.h"
#include "graph/job/rank_grid.h"
#include "shim/channel/messages.h"

namespace prism::launch {
namespace {

constexpr size_t kMaxAtOnce = static_cast<size_t>(channel::kMaxSandboxRanks);

class ListParser {
 public:
  ListParser(const std::string& option, const graph::JobSpec& job, const slicer::SlicePlan& plan)
      : option_(option), job_(job), grid_(graph::RankGrid::Of(job)), plan_(plan) {}

  Status Add(std::string_view part) {
    if (part == "auto") {
      const int32_t pp = job_.parallel.pp;
      for (const int32_t stage : {0, pp / 2, pp - 1}) {
        ranks_.insert(grid_.LowestOfStage(stage));
      }
      return OkStatus();
    }
    if (part == "first" || part == "last") {
      ranks_.insert(Rank(part == "first" ? 0 : grid_.world_size() - 1));
      return OkStatus();
    }
    if (part.rfind("stage:", 0) == 0) {
      return AddStage(part.substr(6), part);
    }
    if (part.rfind("role:", 0) == 0) {
      return AddRole(part.substr(5), part);
    }
    return AddNumbers(part);
  }

  [[nodiscard]] std::vector<Rank> ranks() const { return {ranks_.begin(), ranks_.end()}; }

 private:
  [[nodiscard]] Status Refuse(std::string_view part, const std::string& what) const {
    return InvalidArgument(fmt::format("{}: '{}' {}", option_, part, what));
  }

  Status AddStage(std::string_view text, std::string_view part) {
    int64_t stage = -1;
    if (!ParseNumber(text, &stage) || stage < 0 || stage >= job_.parallel.pp) {
      return Refuse(part, fmt::format("is not a pipeline stage; the job has stages 0 to {}",
                                      job_.parallel.pp - 1));
    }
    ranks_.insert(grid_.LowestOfStage(static_cast<int32_t>(stage)));
    return OkStatus();
  }

  Status AddRole(std::string_view name, std::string_view part) {
    std::string wanted(name);
    std::replace(wanted.begin(), wanted.end(), '-', ' ');
    std::vector<std::string> names;
    for (const slicer::PlannedRole& role : plan_.roles) {
      if (role.name == name || role.name == wanted) {
        ranks_.insert(role.representative);
        return OkStatus();
      }
      names.push_back(role.name);
    }
    return Refuse(part, fmt::format("is not a role; the roles are {}", fmt::join(names, ", ")));
  }

  Status AddNumbers(std::string_view part) {
    const size_t dash = part.find('-');
    const std::string_view low_text = part.substr(0, dash);
    const std::string_view high_text = dash == part.npos ? low_text : part.substr(dash + 1);
    int64_t low = 0;
    int64_t high = 0;
    if (!ParseNumber(low_text, &low) || !ParseNumber(high_text, &high) || low < 0 || low > high) {
      return Refuse(part,
                    "is not a rank; use numbers, ascending ranges (3-5), first, last, stage:K, "
                    "role:NAME or auto, or none by itself");
    }
    if (high >= int64_t{grid_.world_size()}) {
      return Refuse(
          part, fmt::format("is outside the job, whose last rank is {}", grid_.world_size() - 1));
    }
    if (high - low >= static_cast<int64_t>(kMaxAtOnce)) {
      return Refuse(part, fmt::format("names more than {} ranks", kMaxAtOnce));
    }
    for (int64_t rank = low; rank <= high; ++rank) {
      ranks_.insert(Rank(static_cast<uint32_t>(rank)));
    }
    return OkStatus();
  }

  const std::string& option_;
  const graph::JobSpec& job_;
  graph::RankGrid grid_;
  const slicer::SlicePlan& plan_;
  std::set<Rank> ranks_;
};

bool NeedsLayout(std::string_view part) {
  return part == "auto" || part.starts_with("stage:") || part.starts_with("role:");
}

}  // namespace

Result<std::vector<Rank>> ResolveRankList(const std::string& option,
                                          const std::string& list,
                                          const graph::JobSpec& job,
                                          const slicer::SlicePlan& plan) {
  if (list == "none") {
    return std::vector<Rank>();
  }
  ListParser parser(option, job, plan);
  for (const std::string_view part : SplitAt(list, ',')) {
    PRISM_RETURN_IF_ERROR(parser.Add(part));
  }
  std::vector<Rank> ranks = parser.ranks();
  if (ranks.size() > kMaxAtOnce) {
    return InvalidArgument(
        fmt::format("{}: {} ranks; at most {} can run at once", option, ranks.size(), kMaxAtOnce));
  }
  return ranks;
}

Result<std::vector<Rank>> NumberedRanks(const std::string& option,
                                        const std::string& list,
                                        const graph::JobSpec& job) {
  const slicer::SlicePlan no_plan;
  ListParser parser(option, job, no_plan);
  for (const std::string_view part : SplitAt(list, ',')) {
    if (part != "none" && !NeedsLayout(part)) {
      PRISM_RETURN_IF_ERROR(parser.Add(part));
    }
  }
  return parser.ranks();
}

}  // namespace prism::launch
