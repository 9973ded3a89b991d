// The op stream of one sandbox process → its Fragment.
//
// Consumes the records of shim/channel/messages.h in issue order. Divides the stream into
// iterations (iteration_rule.h) and looks for the first two consecutive ones that are identical:
// those before are warm-up. Where none are, one stands for all (steady_search.h). Resolves event
// waits to the op that recorded the event, numbers communicators and peers by first use, and
// follows the allocator to the peak.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "graph/fragment.h"
#include "shim/channel/messages.h"
#include "slicer/record/early_counter.h"
#include "slicer/record/host_meter.h"
#include "slicer/record/iteration_sequence.h"
#include "slicer/record/memory_tracker.h"
#include "slicer/record/op_stream.h"
#include "slicer/record/recorded_iteration.h"
#include "slicer/record/rounds.h"
#include "slicer/record/steady_search.h"

namespace prism::slicer {

// Two consecutive ones must be identical by then: DistributedDataParallel times its first ten.
inline constexpr int32_t kMaxIterations = 14;

struct RecorderOptions {
  Rank rank;
  int32_t warmup_iterations = 1;    // never looked at
  int32_t steps_per_iteration = 1;  // optimizer steps, or graph::kWholeProgram
  int32_t world_size = 0;           // of the job; 0: any
  // At least this many are recorded, if the program runs that many, and memory outside of the
  // allocator is that of this many: ranks that become steady sooner or later than others then hold
  // the same for a communicator that all of them first use late. 0: until two are identical.
  int32_t least_iterations = 0;
  // Iterations after this many from the steady one on are only examined for a period. Null: they
  // are recorded like the rest.
  std::optional<int32_t> steady_iterations = {};
  ChosenIteration chosen = {};
  OddNumbers odd = kNoOdd;  // recorded beside the steady one, if the program runs that many
};

class Recorder {
 public:
  explicit Recorder(const RecorderOptions& options);

  // One record with its payload (empty for most kinds). Fails on a stream that violates the
  // protocol.
  Status Consume(const channel::Record& record, std::span<const std::byte> payload);

  // A round of the program has ended, and it has `left` more like it in this iteration (RoundBody):
  // how many need not run, because the last two did the same; their ops count as recorded.
  Result<int32_t> EndRound(int32_t left);

  // True once two iterations were found to be identical and the requested number has ended, or none
  // were identical by the last one allowed; nothing more needs to be consumed.
  [[nodiscard]] bool complete() const;

  // What the rank's blocks hold now, with the largest of them: for reports when the device is full.
  [[nodiscard]] HeldMemory Held(size_t largest) const {
    return memory_.Held(stream_.definitions(), largest);
  }

  // The first iteration that equals the next one, once found.
  [[nodiscard]] const std::optional<int32_t>& steady_iteration() const { return search_.found(); }

  // The number of optimizer steps that an iteration should contain, if several: if no iteration
  // equals the next one, but each equals the one that many later (at most kMaxStepsInTurn), or if
  // every n-th is different (iteration_sequence.h).
  [[nodiscard]] std::optional<int32_t> period() const;

  // It used the device, but nothing that it did tells iterations apart.
  [[nodiscard]] bool has_no_iterations() const { return used_device_ && stream_.iteration() < 0; }

  // The requested steady iterations have been recorded, and more are looked at.
  [[nodiscard]] bool has_steady_iterations() const;

  // They have, and a period, if there is one, was found or would need more iterations than are
  // examined. How many are examined depends on their ops, never on time.
  [[nodiscard]] bool has_looked_for_period() const;

  // Fewer iterations were examined than a long period needs: they have too many ops.
  [[nodiscard]] bool has_looked_less() const;

  // Iterations that have ended so far, warm-up included.
  [[nodiscard]] int32_t iterations() const {
    return stream_.iteration() + (stream_.inside_iteration() ? 0 : 1);
  }

  // Iterations that were followed by another one so far, and which of them were recorded as odd.
  [[nodiscard]] int32_t followed() const { return followed_; }
  [[nodiscard]] size_t odd_recorded() const { return odd_recorded_.size(); }

  // Call after the process has exited, or once complete. Fails if there were too few iterations, if
  // they communicate differently (naming the first op that differs), or if a communicator's members
  // are unknown.
  Result<graph::Fragment> Finish();

  // After Finish: what else there was.
  [[nodiscard]] const OddIterations& odd() const { return odd_; }

  // After Finish, of the result: one iteration of each odd kind as a fragment, its number as
  // warmup_iterations and without what only its first time takes: device memory.
  [[nodiscard]] std::vector<graph::Fragment> OddFragments(const graph::Fragment& steady) const;

 private:
  Status ConsumeCounter(const channel::CounterBody& body);
  Status ConsumeOutOfMemory(const channel::Record& record);
  void CountEarly(const channel::Record& record);
  void KeepOp(const PlacedOp& placed);
  Status CountAgain(const channel::Record& record);
  void ForgetWaitsToMeasure();
  void EndIteration();
  void KeepLast(const Iteration& ended);
  void KeepIfOdd(int32_t number, const Iteration& ended);
  [[nodiscard]] Result<graph::Fragment> MakeFragment(const Iteration& iteration) const;
  // Whether steps begin iterations, each of which is one step as far as is known.
  [[nodiscard]] bool LooksForPeriod() const {
    return !stream_.marked_by_program() && options_.steps_per_iteration == 1;
  }
  // Whether this iteration is among those that all ranks record, whose memory outside of the
  // allocator counts.
  [[nodiscard]] bool CountsOutside() const {
    return options_.least_iterations == 0 || iterations() < options_.least_iterations;
  }
  Status FindSteady();
  [[nodiscard]] std::string WhyAllDiffer() const;
  [[nodiscard]] std::string WhyNone() const;
  using Details = std::map<std::string, int64_t>;  // how often each was counted
  [[nodiscard]] graph::Warning MakeWarning(const std::string& code, const Details& details) const;
  [[nodiscard]] std::vector<graph::Warning> Warnings(const OddIterations& odd) const;

  RecorderOptions options_;
  OpStream stream_;
  MemoryTracker memory_;
  HostMeter host_;
  EarlyCounter early_;
  SteadySearch search_;
  Iteration current_;
  Rounds rounds_;                           // of it
  int32_t left_out_ = -1;                   // of it: rounds; -1 if it has none
  std::optional<int32_t> fewest_left_out_;  // of iterations that have rounds
  std::vector<Iteration> last_;             // those compared without success, without waits
  IterationSequence sequence_;
  OddIterations odd_;
  std::map<int32_t, Iteration> odd_recorded_;  // by number
  int32_t followed_ = 0;
  int64_t ops_looked_at_ = 0;
  bool used_device_ = false;
  std::map<std::string, Details> counters_;  // by code
  std::string out_of_memory_;                // the last refused allocation, "" if none
};

}  // namespace prism::slicer
