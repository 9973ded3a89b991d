// A sandbox process that is recorded, and what its records have shown so far: iterations, what it
// sent to other ranks, in whose place it was given other values, real times.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "graph/fragment.h"
#include "launch/emulate/run/recorded_slice.h"
#include "launch/emulate/run/run_context.h"
#include "launch/emulate/sandbox/out_of_memory.h"
#include "launch/emulate/sandbox/sandbox_process.h"
#include "launch/process/stop_watch.h"
#include "shim/channel/messages.h"
#include "slicer/record/recorder.h"

namespace prism::launch {

// Iterations that the built-in program runs before those that are recorded.
inline constexpr int kBuiltInWarmup = 1;
inline constexpr int kBuiltInIterations = kBuiltInWarmup + 2;  // of a recording

// Of one rank, recorded for that long.
slicer::RecorderOptions MakeRecorderOptions(const RunContext& context,
                                            Rank rank,
                                            const RecordedLength& length);

class RecordedProcess {
 public:
  RecordedProcess(std::unique_ptr<SandboxProcess> process, const slicer::RecorderOptions& options);

  // Takes one record. Fails, naming the rank, on a stream that violates the protocol.
  Status See(const channel::Record& record, std::span<const std::byte> payload);

  [[nodiscard]] Rank rank() const { return options_.rank; }
  [[nodiscard]] SandboxProcess& process() { return *process_; }
  [[nodiscard]] slicer::Recorder& recorder() { return recorder_; }
  [[nodiscard]] const slicer::Recorder& recorder() const { return recorder_; }

  // After it has exited: OK for exit code 0, else how it failed, and what held the device's memory
  // if that was full.
  [[nodiscard]] Status ExitStatus() const;

  // Absent ranks in whose place it was given others' integers; and those whose own it was given,
  // which may yet be others: these ranks were given others' integers themselves.
  [[nodiscard]] const std::vector<Rank>& speculative_producers() const {
    return speculative_producers_;
  }

  // There are some of the former kind.
  [[nodiscard]] bool guessed() const { return guessed_; }

  // What it sent, as a part of a value book that counts iterations from that one.
  [[nodiscard]] std::string Values(int32_t steady_iteration) const;

  // What it sent before it had a speculative producer, in no steady iteration.
  [[nodiscard]] std::string NonspeculativeValues() const;

  // Shows its stacks on standard error, below a line that says what it does.
  void ReportStacks(std::string_view doing);

  // What is known of its real times, and of its torch.
  void AddRealTimes(graph::Fragment* fragment) const;

 private:
  // What it sent, and was given.
  struct Met {
    std::string values;
    std::vector<Rank> speculative_producers;
    bool guessed = false;
  };

  void SeeMeeting(const channel::Record& record, std::span<const std::byte> payload);
  void Take(Met met);
  void TakeIfOdd();
  void SeeTime(const channel::Record& record);

  std::unique_ptr<SandboxProcess> process_;
  slicer::RecorderOptions options_;
  slicer::Recorder recorder_;
  OutOfMemoryWatch memory_watch_;
  slicer::HeldMemory held_ = {};  // when the device was last full
  StopWatch watch_ = {};          // since its start
  double startup_seconds_ = 0;    // until the program's first kernel; 0 before it
  int32_t iterations_ = 0;        // that have ended
  double iterations_end_ = 0;     // when the last of them did
  double iteration_seconds_ = 0;  // its length
  std::string values_;
  size_t nonspeculative_bytes_ = 0;  // of values_, if it has speculative producers
  bool guessed_ = false;
  std::vector<Rank> speculative_producers_;
  Met later_;  // in the iteration that runs, once the steady ones are recorded
  int32_t followed_ = 0;
  size_t odd_seen_ = 0;  // iterations whose `later_` was taken
};

}  // namespace prism::launch
