#include "launch/inputs/program_edit_file.h"

#include <array>
#include <string>

#include <fmt/format.h>

#include "graph/job/training_style.h"
#include "replayer/memory/layer_tensors.h"

namespace prism::launch {
namespace {

using graph::CollectiveKind;
using slicer::ProgramEditStep;

constexpr int64_t kMaxBytes = int64_t{1} << 50;
constexpr int64_t kMaxPieces = int64_t{1} << 20;

slicer::CollectiveChoice ReadCollectives(const char* key, TomlReader* table) {
  constexpr std::array kKinds = {CollectiveKind::kAllReduce,     CollectiveKind::kAllGather,
                                 CollectiveKind::kReduceScatter, CollectiveKind::kBroadcast,
                                 CollectiveKind::kReduce,        CollectiveKind::kAllToAll};
  slicer::CollectiveChoice choice;
  choice.communicator = table->Text(key);
  if (table->Has("kind")) {
    std::vector<std::string> names;
    for (const CollectiveKind kind : kKinds) {
      names.emplace_back(graph::CollectiveKindName(kind));
    }
    choice.kind = kKinds[table->Choice("kind", names)];
  }
  return choice;
}

ProgramEditStep ReadOverlap(const graph::JobSpec& /*job*/, TomlReader* table) {
  slicer::OverlapEdit edit;
  edit.overlap = table->Choice("overlap", {"off", "on"}) == 1;
  if (table->Has("of")) {  // else the edit says which communicators there are
    edit.of = ReadCollectives("of", table);
  }
  return edit;
}

// One of merge, split and bytes; if none is given, the error asks for merge.
ProgramEditStep ReadBuckets(const graph::JobSpec& /*job*/, TomlReader* table) {
  slicer::BucketEdit edit;
  edit.of = ReadCollectives("buckets", table);
  if (table->Has("bytes")) {
    edit.bytes = table->Integer("bytes", 1, kMaxBytes);
  } else if (table->Has("split")) {
    edit.split = table->Integer("split", 2, kMaxPieces);
  } else {
    edit.merge = table->Integer("merge", 2, kMaxPieces);
  }
  return edit;
}

// What a layer keeps of a micro-batch, as in the built-in workload; 0 if that is not known: for a
// user's program, a job without layers, a mixture of experts.
int64_t KeptBytes(const graph::JobSpec& job) {
  if (job.user_program || job.model.layers == 0 || job.model.moe.experts > 0) {
    return 0;
  }
  return replayer::LayerTensors(job, graph::TrainingStyle(), 0).saved_bytes();
}

// What it keeps in addition without recomputation.
int64_t RecomputedBytes(const graph::JobSpec& job) {
  graph::JobSpec kept = job;
  kept.recompute = graph::Recompute::kNone;
  return KeptBytes(kept) - KeptBytes(job);
}

ProgramEditStep ReadRecompute(const graph::JobSpec& job, TomlReader* table) {
  slicer::RecomputeEdit edit;
  table->Choice("recompute", {"none"});
  edit.layer_bytes = table->IntegerOr("bytes", 1, kMaxBytes, RecomputedBytes(job));
  if (table->Has("layer")) {
    edit.layer = table->Text("layer");
  }
  return edit;
}

ProgramEditStep ReadOptimizer(const graph::JobSpec& /*job*/, TomlReader* table) {
  std::vector<std::string> names;
  for (const slicer::OptimizerKind kind : slicer::kOptimizerKinds) {
    names.emplace_back(slicer::OptimizerName(kind));
  }
  return slicer::OptimizerEdit{slicer::kOptimizerKinds[table->Choice("optimizer", names)]};
}

ProgramEditStep ReadOffload(const graph::JobSpec& job, TomlReader* table) {
  slicer::OffloadEdit edit;
  const bool activations = table->Choice("offload", {"optimizer", "activations"}) == 1;
  edit.kind = activations ? slicer::OffloadKind::kActivations : slicer::OffloadKind::kOptimizer;
  edit.prefetch = table->IntegerOr("prefetch", 0, kMaxPieces, edit.prefetch);
  if (activations) {
    edit.layer_bytes = table->IntegerOr("bytes", 1, kMaxBytes, KeptBytes(job));
    edit.layer_source = table->Has("bytes") ? "stated" : "as the job's shape says";
  }
  return edit;
}

struct EditTable {
  const char* key;
  ProgramEditStep (*read)(const graph::JobSpec& job, TomlReader* table);
};

constexpr EditTable kTables[] = {{"overlap", ReadOverlap},
                                 {"buckets", ReadBuckets},
                                 {"recompute", ReadRecompute},
                                 {"optimizer", ReadOptimizer},
                                 {"offload", ReadOffload}};

}  // namespace

std::vector<ProgramEditStep> ReadProgramEdits(const graph::JobSpec& given, TomlReader* root) {
  graph::JobSpec job = given;  // as left by the steps so far
  std::vector<ProgramEditStep> steps;
  for (TomlReader& table : root->TablesOr("program")) {
    std::vector<const EditTable*> changes;
    for (const EditTable& edit : kTables) {
      if (table.Has(edit.key)) {
        changes.push_back(&edit);
      }
    }
    if (changes.size() != 1) {
      table.Refuse(changes.empty()
                       ? "one of overlap, buckets, recompute, optimizer and offload is needed"
                       : fmt::format("{} and {} are two changes; give each its own [[program]]",
                                     changes[0]->key, changes[1]->key));
      continue;
    }
    steps.push_back(changes.front()->read(job, &table));
    if (const auto* recompute = std::get_if<slicer::RecomputeEdit>(&steps.back());
        recompute != nullptr && recompute->layer == "*") {
      job.recompute = graph::Recompute::kNone;
    }
    table.RefuseOthers();
  }
  return steps;
}

}  // namespace prism::launch
