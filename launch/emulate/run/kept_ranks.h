// What a run with --resume has recorded so far, in a folder beside its output folder, so that the
// same run can go on after it was ended, at whatever point. A recording is a function of the run's
// key (run_key.h), the rank, the book of values and the length that it was given; so it is found by
// these, and a run that takes some from here gives the same bytes as one that records them all.
// Ranks that stopped, or were recorded together, are not kept.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "graph/base/ids.h"
#include "graph/base/log.h"
#include "graph/base/status.h"
#include "launch/emulate/run/recorded_slice.h"
#include "launch/emulate/run/run_key.h"

namespace prism::launch {

class KeptRanks {
 public:
  // Recordings of another key are removed; the log says how many there are, or why none.
  static Result<KeptRanks> Open(std::string folder, const RunKey& key, const Logger& logger);

  // What the next ranks are recorded with.
  void BeginRound(const RecordedLength& length, std::string_view book);

  // Of an earlier run. A damaged file is as none, with a warning, and takes bounded memory.
  [[nodiscard]] std::optional<RecordedRank> Find(Rank rank) const;

  // `encoded`: as its worker sent it in this round. Written a moment later, by Write: a signal that
  // ends all processes of a run may first end a program, which then looks as if it had nothing more
  // to do.
  void Keep(Rank rank, std::string encoded);

  // Those that are old enough; with `all`, once they are. kRunFailed when the disk is full.
  Status Write(bool all);

  [[nodiscard]] const std::string& folder() const { return folder_; }

  // The run has its result.
  void Remove();

 private:
  struct Waiting {
    std::string path;
    std::string bytes;
    std::chrono::steady_clock::time_point due;
  };

  KeptRanks(std::string folder, const Logger& logger)
      : folder_(std::move(folder)), logger_(logger) {}
  [[nodiscard]] std::string PathOf(Rank rank) const;

  std::string folder_;
  Logger logger_;
  uint64_t round_ = 0;
  std::deque<Waiting> waiting_;
};

}  // namespace prism::launch
