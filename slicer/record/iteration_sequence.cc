#include "slicer/record/iteration_sequence.h"

#include <algorithm>
#include <utility>

#include "slicer/record/iteration_rule.h"

namespace prism::slicer {
namespace {

using graph::OpKind;

constexpr size_t kMostKinds = 16;  // that are remembered; a program that has more has no period
// What ranks tell each other for a log line: losses, norms, counts.
constexpr int64_t kLogBytes = int64_t{64} << 10U;

int64_t OptimizerSteps(const Iteration& iteration) {
  return std::ranges::count_if(iteration.ops, [&](const CanonicalOp& op) {
    return op.kind == OpKind::kMarker && (op.flags & graph::kMarkerBegin) != 0 &&
           iteration.tables.strings[op.signature].starts_with(kOptimizerStepPrefix);
  });
}

int64_t TransferBytes(const Iteration& iteration) {
  int64_t bytes = 0;
  for (const CanonicalOp& op : iteration.ops) {
    if (op.kind == OpKind::kCollective) {
      bytes += iteration.tables.collectives[op.signature].bytes;
    } else if (op.kind == OpKind::kPeerGroup) {
      for (const graph::PeerTransfer& transfer :
           iteration.tables.peer_groups[op.signature].transfers) {
        bytes += transfer.bytes;
      }
    }
  }
  return bytes;
}

}  // namespace

void IterationSequence::Add(const Iteration& iteration) {
  Iteration plain = WithoutWaits(iteration);
  size_t kind = 0;
  while (kind < kinds_.size() && !DoSame(kinds_[kind].iteration, plain)) {
    ++kind;
  }
  if (kind == kinds_.size() && kind < kMostKinds) {
    kinds_.push_back({std::move(plain), OptimizerSteps(iteration), TransferBytes(iteration)});
  } else if (kind == kinds_.size()) {
    kind += sequence_.size();
  }
  sequence_.push_back(kind);
}

// The first iteration from which on each one repeats the one `period` before.
size_t IterationSequence::RepeatedFrom(size_t period) const {
  size_t from = sequence_.size() - period;
  while (from > 0 && sequence_[from - 1] == sequence_[from - 1 + period]) {
    --from;
  }
  return from;
}

bool IterationSequence::TrainsUnequally(size_t period) const {
  const auto bounds = [&](int64_t Kind::* number) {
    int64_t least = kinds_[sequence_.back()].*number;
    int64_t most = least;
    for (size_t i = sequence_.size() - period; i < sequence_.size(); ++i) {
      least = std::min(least, kinds_[sequence_[i]].*number);
      most = std::max(most, kinds_[sequence_[i]].*number);
    }
    return most - least;
  };
  return bounds(&Kind::optimizer_steps) > 0 || bounds(&Kind::transfer_bytes) > kLogBytes;
}

std::optional<int32_t> IterationSequence::Period() const {
  size_t best = 1;
  size_t from = sequence_.empty() ? 0 : RepeatedFrom(1);
  for (size_t period = 2; 2 * period <= sequence_.size(); ++period) {
    const size_t repeated = RepeatedFrom(period);
    if (repeated + 2 * period <= sequence_.size() && repeated < from) {
      best = period;
      from = repeated;
    }
  }
  if (best == 1 || !TrainsUnequally(best)) {
    return std::nullopt;
  }
  return static_cast<int32_t>(best);
}

}  // namespace prism::slicer
