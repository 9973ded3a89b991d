// Ranks of process groups as PyTorch writes them. Events of a profile repeat them, each with all
// ranks of its group or with a shortened list, so equal lists are kept once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace prism::slicer {

using RankList = std::shared_ptr<const std::vector<uint32_t>>;  // ascending
using RankGroups = std::map<std::string, RankList>;             // by name of the group

class RankLists {
 public:
  // "[0, 1, 2]". PyTorch shortens long lists to their first ranks and the last,
  // "[0, 2, 4, ..., 62]": then `size` ranks spaced like the first two if these include all ranks
  // shown, else only those shown, which match no group of a job. Null if there are none, or the
  // distance or the size is not known.
  RankList ListOf(std::string_view text, int64_t size);

 private:
  std::map<std::pair<std::string, int64_t>, RankList> lists_;
  size_t spaced_ = 0;  // ranks that were not in a text
};

// Of a group of `size` ranks; an empty list means all of the job. Does nothing if both are unknown.
void AddGroup(const std::string& name,
              int64_t size,
              std::vector<uint32_t> ranks,
              RankGroups* groups);

// The ranks of the group if it is listed with `size` ranks (0: not known), else those `shown`.
RankList WholeGroup(const RankGroups& groups,
                    const std::string& name,
                    int64_t size,
                    const RankList& shown);

}  // namespace prism::slicer
