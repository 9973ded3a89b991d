#include "slicer/record/blas_workspaces.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <tuple>

#include "graph/job/blas_memory.h"

namespace prism::slicer {
namespace {

// Whether a framework op multiplies matrices: "aten::addmm", "aten::linear", "aten::_scaled_mm".
bool IsMatrixProduct(const Result<FrameworkContext>& context) {
  constexpr std::string_view kPrefix = "aten::";
  constexpr std::array<std::string_view, 5> kProducts = {"mm", "mv", "dot", "linear", "matmul"};
  return context.ok() && context->op.starts_with(kPrefix) &&
         std::ranges::any_of(kProducts, [&](std::string_view product) {
           return context->op.find(product, kPrefix.size()) != std::string::npos;
         });
}

}  // namespace

void BlasWorkspaces::SeeBlock(uint32_t block,
                              const channel::Record& record,
                              const Definitions& definitions) {
  if (!graph::IsBlasWorkspace(record.segment.bytes) ||
      !IsMatrixProduct(definitions.Context(record.context))) {
    return;
  }
  before_product_.try_emplace(record.thread, candidates_.size());
  candidates_.push_back({block, record.segment.bytes, record.thread});
}

void BlasWorkspaces::SeeProduct(const channel::Record& record) {
  const auto first = before_product_.find(record.thread);
  if (first == before_product_.end()) {
    return;
  }
  for (size_t i = first->second; i < candidates_.size(); ++i) {
    if (candidates_[i].thread == record.thread) {
      candidates_[i].stream = record.stream;
    }
  }
  before_product_.erase(first);
}

std::vector<bool> BlasWorkspaces::Find(size_t blocks,
                                       const std::function<bool(uint32_t)>& is_kept) const {
  std::vector<bool> is_workspace(blocks, false);
  std::set<std::tuple<int64_t, uint16_t, uint16_t>> found;  // bytes, thread, stream
  for (const Candidate& each : candidates_) {
    is_workspace[each.block] =
        is_kept(each.block) && found.emplace(each.bytes, each.thread, each.stream).second;
  }
  return is_workspace;
}

}  // namespace prism::slicer
