#include "launch/plan/plan_cache.h"

#include <utility>

namespace prism::launch {
namespace {

void Add(const replayer::CacheCount& more, replayer::CacheCount* sum) {
  sum->asked += more.asked;
  sum->found += more.found;
}

void Add(const CacheShares& more, CacheShares* sum) {
  Add(more.units, &sum->units);
  Add(more.folds, &sum->folds);
  Add(more.by_phrases, &sum->by_phrases);
}

CacheShares SharesOf(const PlanCache::Entry& entry) {
  const slicer::UnitCache& units = entry.synthesizer.units();
  return {{units.asked(), units.found()}, entry.library.folds(), {}};
}

}  // namespace

PlanCache::Entry& PlanCache::For(const graph::JobSpec& job, const graph::TrainingStyle& style) {
  const bool several = job.parallel.pp > 1;
  const bool as_graph = style.host_cost == graph::HostCost::kGraph;
  std::unique_ptr<Entry>& entry = entries_[(several ? 1U : 0U) + (as_graph ? 2U : 0U)];
  if (entry != nullptr && entry->synthesizer.op_count() > kMaxOps) {
    Add(SharesOf(*entry), &dropped_);
    entry.reset();
  }
  if (entry == nullptr) {
    entry = std::make_unique<Entry>(several, as_graph);
  }
  return *entry;
}

void PlanCache::CountReplay(bool by_phrases) {
  Add({1, by_phrases ? 1 : 0}, &dropped_.by_phrases);
}

CacheShares PlanCache::Shares() const {
  CacheShares sum = dropped_;
  for (const std::unique_ptr<Entry>& entry : entries_) {
    if (entry != nullptr) {
      Add(SharesOf(*entry), &sum);
    }
  }
  return sum;
}

std::unique_ptr<PlanCache> PlanCaches::Take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (idle_.empty()) {
    return std::make_unique<PlanCache>();
  }
  std::unique_ptr<PlanCache> cache = std::move(idle_.back());
  idle_.pop_back();
  return cache;
}

void PlanCaches::GiveBack(std::unique_ptr<PlanCache> cache) {
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_.push_back(std::move(cache));
}

CacheShares PlanCaches::Shares() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  CacheShares sum;
  for (const std::unique_ptr<PlanCache>& cache : idle_) {
    Add(cache->Shares(), &sum);
  }
  return sum;
}

}  // namespace prism::launch
