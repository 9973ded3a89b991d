#include "slicer/edit/program_edit.h"

#include <fmt/format.h>

#include "slicer/edit/edit_steps.h"

namespace prism::slicer {
namespace {

struct Apply {
  EditedGraph* edited;

  Status operator()(const OverlapEdit& edit) const { return EditOverlap(edit, edited); }
  Status operator()(const BucketEdit& edit) const { return EditBuckets(edit, edited); }
  Status operator()(const RecomputeEdit& edit) const { return RemoveRecompute(edit, edited); }
  Status operator()(const OptimizerEdit& edit) const {
    if (edited->offloaded.count(OffloadKind::kOptimizer) > 0) {
      return InvalidArgument(
          "the copies of an offload lie between the kernels of an update; put the change of "
          "optimizer before the offload of its states");
    }
    return ReplaceOptimizer(edit, edited);
  }
  Status operator()(const OffloadEdit& edit) const {
    if (!edited->offloaded.insert(edit.kind).second) {
      return InvalidArgument(
          fmt::format("{} are already offloaded; give one offload of each kind",
                      edit.kind == OffloadKind::kOptimizer ? "optimizer states" : "activations"));
    }
    return edit.kind == OffloadKind::kOptimizer ? OffloadOptimizer(edit, edited)
                                                : OffloadActivations(edit, edited);
  }
};

}  // namespace

Result<EditedGraph> ApplyProgramEdits(const graph::Graph& graph,
                                      const std::vector<ProgramEditStep>& steps) {
  EditedGraph edited;
  edited.graph = graph;
  for (const ProgramEditStep& step : steps) {
    PRISM_RETURN_IF_ERROR(std::visit(Apply{&edited}, step));
  }
  return edited;
}

}  // namespace prism::slicer
