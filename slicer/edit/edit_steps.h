// The individual edits of program_edit.h: each changes the graph in place and adds its lines.
#pragma once

#include "graph/base/status.h"
#include "slicer/edit/program_edit.h"

namespace prism::slicer {

Status EditOverlap(const OverlapEdit& edit, EditedGraph* edited);
Status EditBuckets(const BucketEdit& edit, EditedGraph* edited);
Status RemoveRecompute(const RecomputeEdit& edit, EditedGraph* edited);
Status ReplaceOptimizer(const OptimizerEdit& edit, EditedGraph* edited);
Status OffloadOptimizer(const OffloadEdit& edit, EditedGraph* edited);
Status OffloadActivations(const OffloadEdit& edit, EditedGraph* edited);

}  // namespace prism::slicer
