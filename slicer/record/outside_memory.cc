#include "slicer/record/outside_memory.h"

namespace prism::slicer {

Status OutsideMemory::Push(const channel::CommInitBody& body, const Definitions& definitions) {
  PRISM_ASSIGN_OR_RETURN(group_names_[body.comm],
                         definitions.Name(channel::Table::kGroupName, body.group_name));
  return OkStatus();
}

Status OutsideMemory::Push(const channel::OutsideBody& body, const Definitions& definitions) {
  PRISM_ASSIGN_OR_RETURN(const std::string name,
                         definitions.Name(channel::Table::kOutsideName, body.name));
  bytes_[{name, body.comm}] += body.bytes;
  sum_ += body.bytes;
  if (sum_ > peak_) {
    peak_ = sum_;
    at_peak_ = bytes_;
  }
  return OkStatus();
}

std::vector<graph::MemoryClass> OutsideMemory::AtPeak() const {
  std::map<std::string, int64_t> bytes_by_name;
  for (const auto& [holder, bytes] : at_peak_) {
    const auto& [what, comm] = holder;
    const auto group = group_names_.find(comm);
    const bool is_named = group != group_names_.end() && !group->second.empty();
    bytes_by_name[is_named ? "nccl:" + group->second : what] += bytes;
  }
  std::vector<graph::MemoryClass> classes;
  for (const auto& [name, bytes] : bytes_by_name) {
    if (bytes != 0) {
      classes.push_back({.name = name, .bytes = bytes, .mark = graph::Mark::kAssumed});
    }
  }
  return classes;
}

}  // namespace prism::slicer
