#include "shim/observer/process_groups.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "graph/base/fnv.h"
#include "shim/observer/torch_versions.h"

namespace prism::shim {
namespace {

// For names that the program does not choose c10d uses a counter or a hash of the members: they
// differ for every group of a family, so they carry no information.
bool IsMadeUp(const std::string& name) {
  constexpr size_t kHashDigits = 40;
  const bool counted = name.find_first_not_of("0123456789") == std::string::npos;
  return counted || (name.size() == kHashDigits &&
                     name.find_first_not_of("0123456789abcdef") == std::string::npos);
}

void SetName(const std::string& description, const std::string& name, GroupInfo* info) {
  const bool described = !description.empty() && description != "undefined";
  const std::string& chosen = described ? description : name;
  std::strncpy(info->name, IsMadeUp(chosen) ? "" : chosen.c_str(), sizeof(info->name) - 1);
  info->name[sizeof(info->name) - 1] = '\0';
}

// `members` must stay as long as the info is used.
void SetMembers(const std::vector<int32_t>& members, const GroupAtWork& work, GroupInfo* info) {
  info->number = work.number;
  info->size = static_cast<int32_t>(members.size());
  info->global_stride = 0;
  info->members = members.data();
}

// c10d keeps this during a call (RECORD_PARAM_COMMS), on the calling thread.
bool FromCall(GroupInfo* info) {
  const auto* const group = static_cast<const torch::ParamCommsDebugInfo*>(
      c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PARAM_COMMS_INFO));
  if (group == nullptr) {
    return false;
  }
  SetName(group->getProcessGroupDesc(), group->getProcessGroupName(), info);
  info->global_start = group->getGlobalRankStart();
  info->global_stride = group->getGlobalRankStride();
  info->size = group->getWorldSize();
  info->rank = group->getRank();
  return true;
}

// Global ranks of a group of this size that c10d keeps during a call of it; empty if it does not.
std::vector<int32_t> MembersOfCall(int32_t size) {
  std::vector<int32_t> members;
  GroupInfo call = {};
  if (FromCall(&call) && call.size == size && call.global_stride > 0) {
    for (int32_t i = 0; i < call.size; ++i) {
      members.push_back(call.global_start + i * call.global_stride);
    }
  }
  return members;
}

// Global ranks of the group; if they are not named (the world's own group, C++ programs), those of
// the call. Empty if neither has them.
std::vector<int32_t> MembersOf(const std::vector<uint64_t>& named, int32_t size) {
  return named.size() == static_cast<size_t>(size)
             ? std::vector<int32_t>{named.begin(), named.end()}
             : MembersOfCall(size);
}

uint64_t PlaceOf(const std::vector<int32_t>& group, const std::string& pair) {
  uint64_t place = FnvHash(pair);
  for (const int32_t rank : group) {
    const int32_t offset = rank - group.front();
    place = FnvBytes(&offset, sizeof(offset), place);
  }
  return place;
}

bool FromGroup(const GroupAtWork& work, GroupInfo* info) {
  thread_local std::vector<int32_t> members;
  thread_local std::string unique;
  auto& group = *static_cast<c10d::ProcessGroupNCCL*>(work.group);
  const std::vector<int32_t> all =
      MembersOf(group.getOptions()->global_ranks_in_group, group.getSize());
  if (all.empty()) {
    return false;
  }
  const std::string& key = *static_cast<const std::string*>(work.key);
  const size_t colon = key.find(':');
  info->rank = group.getRank();
  if (work.with_itself) {
    members = {all[static_cast<size_t>(info->rank)]};
    info->rank = 0;
  } else if (colon != std::string::npos) {
    members.clear();
    info->place = PlaceOf(all, key);
    for (const char* number : {key.c_str(), key.c_str() + colon + 1}) {
      members.push_back(all.at(std::strtoul(number, nullptr, 10)));
    }
    info->rank = work.pair_rank;
  } else {
    members = all;
  }
  SetName(group.getGroupDesc(), group.getGroupUid(), info);
  unique = group.getGroupUid();
  info->unique = unique.c_str();
  SetMembers(members, work, info);
  return true;
}

#if PRISM_TORCH_HAS_SECOND_NCCL
// A new group of c10d::nccl2, or a child of one by ranks of its parent.
bool FromSecondGroup(const GroupAtWork& work, GroupInfo* info) {
  thread_local std::vector<int32_t> members;
  thread_local std::string unique;
  auto& group = *static_cast<c10d::Backend*>(work.group);
  info->rank = group.getRank();
  info->of_parent = work.ranks != nullptr;
  auto chosen = group.getBackendOptions();
  if (info->of_parent) {
    chosen = *static_cast<const decltype(chosen)*>(work.options);
    const auto& ranks = *static_cast<const std::vector<int>*>(work.ranks);
    members = {ranks.begin(), ranks.end()};
    const auto own = std::find(members.begin(), members.end(), info->rank);
    info->rank = static_cast<int32_t>(own - members.begin());
  }
  const auto& options = *static_cast<const c10d::ProcessGroupNCCL::Options*>(chosen.get());
  if (!info->of_parent) {
    members = MembersOf(options.global_ranks_in_group, group.getSize());
  }
  SetName(options.group_desc, options.group_name, info);
  unique = options.group_name;
  info->unique = unique.c_str();
  SetMembers(members, work, info);
  if (members.empty()) {  // the default group, if it has all ranks of the job
    info->size = group.getSize();
    info->members = nullptr;
  }
  return true;
}
#else
bool FromSecondGroup(const GroupAtWork& /*work*/, GroupInfo* /*info*/) {
  return false;
}
#endif

}  // namespace

bool ProvideGroup(GroupInfo* info) {
  const GroupAtWork& work = *prism_shim_group_at_work();
  const bool is_known = work.group != nullptr &&
                        (work.is_second ? FromSecondGroup(work, info) : FromGroup(work, info));
  return is_known || FromCall(info);
}

}  // namespace prism::shim
