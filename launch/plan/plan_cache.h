// What plans of one problem have in common, kept from one plan to the next: written units, and
// lowered, costed and folded blocks. Everything is keyed by what determines it, so that no result
// depends on which plans were evaluated before, or on which thread.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "graph/job/job.h"
#include "graph/job/training_style.h"
#include "replayer/stages/block_library.h"
#include "slicer/synthesize/phrase_synthesizer.h"

namespace prism::launch {

// How often the cache had what was needed.
struct CacheShares {
  replayer::CacheCount units;  // layers, embeddings and heads
  replayer::CacheCount folds;  // blocks as matrices
  // Jobs that were replayed, and how many of them by phrases; the others were replayed op by op.
  replayer::CacheCount by_phrases;
};

class PlanCache {
 public:
  struct Entry {
    Entry(bool several_stages, bool launched_as_graph)
        : synthesizer(launched_as_graph, /*timed_only=*/true), library(several_stages) {}

    slicer::PhraseSynthesizer synthesizer;
    replayer::BlockLibrary library;
  };

  // What jobs like this one share. A new entry if the old one has grown too large.
  Entry& For(const graph::JobSpec& job, const graph::TrainingStyle& style);

  void CountReplay(bool by_phrases);

  [[nodiscard]] CacheShares Shares() const;

 private:
  static constexpr int64_t kMaxOps = 3'000'000;  // in an entry's blocks: about 200 MB

  std::array<std::unique_ptr<Entry>, 4> entries_;
  CacheShares dropped_;  // counts of dropped entries, and of replays
};

// As many caches as there are threads that ask at the same time.
class PlanCaches {
 public:
  // A cache for exclusive use until it is given back.
  std::unique_ptr<PlanCache> Take();
  void GiveBack(std::unique_ptr<PlanCache> cache);

  // Of the caches that were given back.
  [[nodiscard]] CacheShares Shares() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<PlanCache>> idle_;
};

}  // namespace prism::launch
