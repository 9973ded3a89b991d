// What enumerators of the job and the cluster are called in options, presets, files and reports.
#pragma once

#include "graph/base/enum_names.h"
#include "graph/job/cluster.h"
#include "graph/job/job.h"

namespace prism::graph {

inline constexpr EnumNames<Recompute, 3> kRecomputeNames = {
    {{Recompute::kNone, "none"}, {Recompute::kSelective, "selective"}, {Recompute::kFull, "full"}}};

inline constexpr EnumNames<BlockKind, 3> kBlockKindNames = {
    {{BlockKind::kGpt, "gpt"}, {BlockKind::kLlama, "llama"}, {BlockKind::kNemotron, "nemotron"}}};

inline constexpr EnumNames<Mark, 3> kMarkNames = {
    {{Mark::kMeasured, "measured"}, {Mark::kFitted, "fitted"}, {Mark::kAssumed, "assumed"}}};

inline constexpr EnumNames<FabricKind, 3> kFabricKindNames = {
    {{FabricKind::kRailFatTree, "rail-fat-tree"},
     {FabricKind::kClos, "clos"},
     {FabricKind::kTorus, "torus"}}};

inline constexpr EnumNames<FabricRouting, 3> kFabricRoutingNames = {
    {{FabricRouting::kAdaptive, "adaptive"},
     {FabricRouting::kEcmp, "ecmp"},
     {FabricRouting::kDimensionOrder, "dimension-order"}}};

}  // namespace prism::graph
