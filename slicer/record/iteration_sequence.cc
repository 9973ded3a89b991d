#include "slicer/record/iteration_sequence.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace prism::slicer {
namespace {

constexpr size_t kMaxKinds = 16;  // kinds remembered; a program with more has no period
constexpr size_t kLongestPeriod = 32;
constexpr size_t kRepeats = 4;   // of a period, until it cannot be chance
constexpr size_t kMaxSeen = 64;  // without anything that looks like a period
constexpr DurationNs kLongPause = 1'000'000'000;

int64_t HostBytes(const CanonicalOp& op, const OpTables& /*tables*/) {
  return op.kind == graph::OpKind::kMemcpy && (op.flags & graph::kDeviceToHost) != 0 ? op.value : 0;
}

DurationNs PauseNs(const CanonicalOp& op, const OpTables& /*tables*/) {
  return op.kind == graph::OpKind::kHostGap ? op.value : 0;
}

}  // namespace

void IterationSequence::Add(int32_t number, const Iteration& iteration) {
  if (sequence_.empty()) {
    first_ = number;
  }
  Iteration plain = WithoutWaits(iteration);
  size_t kind = 0;
  while (kind < kinds_.size() && !DoSame(kinds_[kind].iteration, plain)) {
    ++kind;
  }
  if (kind == kinds_.size() && kind < kMaxKinds) {
    const auto sum = [&](auto of_op) {
      int64_t total = 0;
      for (const CanonicalOp& op : iteration.ops) {
        total += of_op(op, iteration.tables);
      }
      return total;
    };
    kinds_.push_back({std::move(plain), OptimizerSteps(iteration), sum(ReducedBytes),
                      sum(MatrixProducts), iteration.backward_kernels > 0 ? 1 : 0,
                      iteration.backward_kernels, sum(HostBytes), sum(PauseNs)});
  } else if (kind == kinds_.size()) {
    kind += sequence_.size();
  }
  sequence_.push_back(kind);
  candidate_ = FindCandidate();
}

// The first iteration from which each one repeats the one `period` before.
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
  return bounds(&Kind::optimizer_steps) > 0 || bounds(&Kind::backward_passes) > 0 ||
         (bounds(&Kind::reduced_bytes) > kLogBytes && bounds(&Kind::products) == 0);
}

size_t IterationSequence::FindCandidate() const {
  size_t best = 1;
  size_t from = sequence_.empty() ? 0 : RepeatedFrom(1);
  for (size_t period = 2; 2 * period <= sequence_.size() && period <= kLongestPeriod; ++period) {
    const size_t repeated = RepeatedFrom(period);
    if (repeated + 2 * period <= sequence_.size() && repeated < from) {
      best = period;
      from = repeated;
    }
  }
  return best > 1 && TrainsUnequally(best) ? best : 1;
}

std::optional<int32_t> IterationSequence::Period() const {
  if (candidate_ == 1) {
    return std::nullopt;
  }
  const size_t repeated = sequence_.size() - RepeatedFrom(candidate_);
  return repeated >= std::max(kRepeats * candidate_, sequence_.size() / 2)
             ? std::optional(static_cast<int32_t>(candidate_))
             : std::nullopt;
}

bool IterationSequence::MayShowPeriod() const {
  const size_t seen = sequence_.size();
  if (seen == 0) {
    return true;
  }
  if (seen - RepeatedFrom(1) > kLongestPeriod || seen >= kRepeats * kLongestPeriod) {
    return false;
  }
  return seen < kLongestPeriod || (!Period() && (seen < kMaxSeen || candidate_ > 1));
}

// How iteration kind `kind` differs from kind `steady`.
std::string IterationSequence::Difference(size_t kind, size_t steady) const {
  if (std::max(kind, steady) >= kinds_.size()) {
    return "does something that no other does";
  }
  const Iteration& does = kinds_[kind].iteration;
  const Iteration& other = kinds_[steady].iteration;
  const std::optional<size_t> at =
      FirstDifference(other, does, std::max(other.ops.size(), does.ops.size()));
  return fmt::format("has {} instead of {}", DescribeAt(does, *at), DescribeAt(other, *at));
}

bool IterationSequence::IsFirstOfOddKind(int32_t steady) const {
  return std::find(sequence_.begin() + (steady - first_), sequence_.end(), sequence_.back()) ==
             std::prev(sequence_.end()) &&
         sequence_.back() != sequence_[static_cast<size_t>(steady - first_)];
}

OddSort IterationSequence::SortOf(size_t kind, size_t steady) const {
  if (std::max(kind, steady) >= kinds_.size()) {
    return OddSort::kOther;
  }
  const auto more = [&](int64_t Kind::* number) {
    return kinds_[kind].*number - kinds_[steady].*number;
  };
  if (more(&Kind::backward_kernels) != 0 || more(&Kind::optimizer_steps) != 0 ||
      more(&Kind::products) < 0) {
    return OddSort::kOther;
  }
  if (more(&Kind::products) > 0) {
    return OddSort::kEvaluation;
  }
  if (more(&Kind::host_bytes) > kLogBytes) {
    return OddSort::kCheckpoint;
  }
  return more(&Kind::reduced_bytes) <= kLogBytes && more(&Kind::pause_ns) < kLongPause
             ? OddSort::kLogging
             : OddSort::kOther;
}

// The kinds of the iterations from `begin` on that do not do what the first of them does.
std::vector<OddKind> IterationSequence::OddKinds(size_t begin, bool ended) const {
  std::map<size_t, size_t> place;  // in `odd`, by kind
  std::vector<OddKind> odd;
  for (size_t i = begin; i < sequence_.size(); ++i) {
    if (sequence_[i] == sequence_[begin]) {
      continue;
    }
    const auto [found, is_new] = place.try_emplace(sequence_[i], odd.size());
    if (is_new) {
      odd.push_back({SortOf(sequence_[i], sequence_[begin]), {}});
    }
    odd[found->second].numbers.push_back(first_ + static_cast<int32_t>(i));
  }
  const bool last_is_alone =
      !odd.empty() &&
      odd.back().numbers.front() == first_ + static_cast<int32_t>(sequence_.size()) - 1;
  if (ended && last_is_alone && odd.back().sort == OddSort::kOther) {
    odd.back().sort = OddSort::kLast;
  }
  return odd;
}

OddIterations IterationSequence::OddOnes(int32_t steady, Rank rank, bool ended) const {
  OddIterations odd;
  const auto begin = static_cast<size_t>(steady - first_);
  odd.kinds = OddKinds(begin, ended);
  odd.seen = static_cast<int32_t>(sequence_.size() - std::min(begin, sequence_.size()));
  std::map<size_t, size_t> counts;  // by kind
  for (size_t i = begin; i < sequence_.size(); ++i) {
    ++counts[sequence_[i]];
    if (sequence_[i] != sequence_[begin]) {
      odd.numbers.push_back(first_ + static_cast<int32_t>(i));
    }
  }
  if (odd.numbers.empty()) {
    return odd;
  }
  const int32_t first = odd.numbers.front();
  const std::string difference =
      Difference(sequence_[static_cast<size_t>(first - first_)], sequence_[begin]);
  if (odd.numbers.size() == 1) {
    odd.text = fmt::format("the time leaves out iteration {} of rank {}, which {}", first,
                           rank.value(), difference);
    return odd;
  }
  odd.text = fmt::format(
      "the time leaves out {} of the {} recorded iterations of rank {}, of {} {}; iteration {} {}",
      odd.numbers.size(), sequence_.size() - begin, rank.value(), counts.size() - 1,
      counts.size() == 2 ? "kind" : "kinds", first, difference);
  const auto most =
      std::ranges::max_element(counts, {}, [](const auto& kind) { return kind.second; });
  if (most->second > counts[sequence_[begin]]) {
    const auto like = std::ranges::find(sequence_, most->first) - sequence_.begin();
    odd.text += fmt::format(
        "; {} of them do what iteration {} does and only {} what the one does that is timed, {}",
        most->second, first_ + like, counts[sequence_[begin]], steady);
  }
  return odd;
}

}  // namespace prism::slicer
