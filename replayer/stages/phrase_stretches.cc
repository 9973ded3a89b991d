#include "replayer/stages/phrase_stretches.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace prism::replayer {
namespace {

// Whether round `round` of every stage has the steps of the previous round.
bool IsAsBefore(const graph::PhrasedJob& job, size_t round) {
  return std::all_of(job.stages.begin(), job.stages.end(), [&](const graph::PhrasedStage& stage) {
    const auto begin = [&](size_t r) { return stage.steps.begin() + stage.rounds[r]; };
    return std::equal(begin(round - 1), begin(round), begin(round), begin(round + 1));
  });
}

// Steps of a stage between which it may repeat itself.
struct Part {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t round = 0;  // the step at which one begins, from which pairs are counted
};

class StretchFinder {
 public:
  explicit StretchFinder(const graph::PhrasedJob& job)
      : job_(job), parts_(job.stages.size()), fewest_(FewestTurns(job)) {}

  // `part_of`: returns the Part of a stage, given its number.
  template <typename PartOf>
  std::vector<PhraseStretch> Find(PartOf part_of) {
    stretches_.clear();
    int64_t first = std::numeric_limits<int64_t>::min();
    int64_t last = std::numeric_limits<int64_t>::max();
    for (size_t s = 0; s < parts_.size(); ++s) {
      const Part part = part_of(s);
      parts_[s] = {part.begin, part.end, part.round + kPair * static_cast<int64_t>(s)};
      first = std::max(first, part.begin - parts_[s].round);
      last = std::min(last, part.end - parts_[s].round);
    }
    if (last - first >= fewest_ * kPair) {
      FindAlike(first, last);
      AddRuns(first, last);
    }
    return std::move(stretches_);
  }

 private:
  static constexpr int64_t kPair = PhraseStretch::kSteps;

  // Enough turns that effects from before have crossed all stages, and some turns are saved.
  static int64_t FewestTurns(const graph::PhrasedJob& job) {
    constexpr int64_t kSaved = 6;
    return static_cast<int64_t>(job.stages.size()) + kSaved;
  }

  // By step from `first` on: whether all stages run the phrases of the previous pair.
  void FindAlike(int64_t first, int64_t last) {
    alike_.assign(static_cast<size_t>(last - first), 1);
    for (size_t s = 0; s < parts_.size(); ++s) {
      const uint32_t* const steps = job_.stages[s].steps.data() + parts_[s].round + first;
      for (size_t i = kPair; i < alike_.size(); ++i) {
        const bool alike = steps[i] == steps[i - kPair] && steps[i] != steps[i - 1];
        alike_[i] = static_cast<uint8_t>(alike_[i] & (alike ? 1 : 0));
      }
    }
  }

  void AddRuns(int64_t first, int64_t last) {
    int64_t begin = first;
    for (int64_t i = first + kPair; i <= last; ++i) {
      if (i == last || alike_[static_cast<size_t>(i - first)] == 0) {
        Add(begin, (i - begin) / kPair);
        begin = i + 1 - kPair;
      }
    }
  }

  void Add(int64_t begin, int64_t turns) {
    if (turns < fewest_) {
      return;
    }
    PhraseStretch& stretch = stretches_.emplace_back();
    stretch.turns = static_cast<uint32_t>(turns);
    for (const Part& part : parts_) {
      stretch.begin.push_back(static_cast<uint32_t>(part.round + begin));
    }
  }

  const graph::PhrasedJob& job_;
  std::vector<Part> parts_;  // by stage
  int64_t fewest_;           // turns of a stretch
  std::vector<uint8_t> alike_;
  std::vector<PhraseStretch> stretches_;
};

}  // namespace

std::optional<PhraseLoop> FindPhraseLoop(const graph::PhrasedJob& job, int64_t more) {
  constexpr size_t kFewest = 3;  // one with an equal one on either side
  size_t known = std::numeric_limits<size_t>::max();
  for (const graph::PhrasedStage& stage : job.stages) {
    known = std::min(known, stage.rounds.size());
  }
  // Rounds first .. last are equal; the end of the very last one is not known.
  for (size_t last = known - std::min<size_t>(known, 2); last > 0;) {
    size_t first = last;
    while (first > 0 && IsAsBefore(job, first)) {
      --first;
    }
    const size_t alike = last - first + 1;
    if (alike >= kFewest) {
      PhraseLoop loop;
      loop.turns = static_cast<int64_t>(alike) + more;
      for (const graph::PhrasedStage& stage : job.stages) {
        loop.stages.push_back(
            {stage.rounds[first], stage.rounds[first + 1], stage.rounds[last + 1]});
      }
      return loop;
    }
    last = std::min(first, last - 1);
  }
  return std::nullopt;
}

// At the beginning of their rounds all stages are at the same backward pass, and what two of them
// exchange there, the later one exchanges one pair later. So it halts that much later, or all would
// wait for the stages after them.
PhraseStretches FindPhraseStretches(const graph::PhrasedJob& job,
                                    const PhraseLoop* loop,
                                    uint32_t first_steps) {
  const bool has_rounds =
      std::none_of(job.stages.begin(), job.stages.end(),
                   [](const graph::PhrasedStage& stage) { return stage.rounds.empty(); });
  if (job.job.parallel.vpp == 1 || !has_rounds) {
    return {};
  }
  PhraseStretches stretches;
  StretchFinder finder(job);
  stretches.before = finder.Find([&](size_t s) {
    const graph::PhrasedStage& stage = job.stages[s];
    const size_t end = loop == nullptr ? stage.steps.size() : loop->stages[s].begin;
    return Part{first_steps, static_cast<int64_t>(end), stage.rounds.front()};
  });
  if (loop != nullptr) {
    stretches.inside = finder.Find([&](size_t s) {
      const PhraseLoop::OfStage& stage = loop->stages[s];
      return Part{stage.begin, stage.end, stage.begin};
    });
    stretches.behind = finder.Find([&](size_t s) {
      const PhraseLoop::OfStage& stage = loop->stages[s];
      return Part{stage.behind, static_cast<int64_t>(job.stages[s].steps.size()), stage.behind};
    });
  }
  return stretches;
}

}  // namespace prism::replayer
