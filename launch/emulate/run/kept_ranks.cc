// The folder has the file KEY, and for each rank rank<r>-<hash of the round>, which begins with the
// hash of the rest: the message of its worker. Each file appears whole (graph/base/file.h).
#include "launch/emulate/run/kept_ranks.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <thread>

#include <fmt/format.h>

#include "graph/base/file.h"
#include "graph/base/hash.h"
#include "graph/base/input_hashes.h"
#include "launch/emulate/run/messages.h"
#include "launch/process/interrupt.h"

namespace prism::launch {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kDelay(300);
constexpr size_t kHashSize = 16;

// What reading one may take: 16 million calls, which is the longest program that is timed as a
// whole (slicer/record/recorder.cc), with as much again for all else.
constexpr size_t kMostBytes = size_t{1} << 30U;

// What is compared with those of other ranks indexes only what is there.
bool IndicesAreRight(const slicer::RankCalls& calls) {
  return std::ranges::all_of(calls.calls, [&](const slicer::Call& call) {
    const size_t objects = call.kind == slicer::CallKind::kMakeGroup ? calls.groups.size()
                           : call.kind == slicer::CallKind::kMakeCommunicator ||
                                   call.kind == slicer::CallKind::kCollective
                               ? calls.communicators.size()
                               : size_t{call.object} + 1;
    return call.kind <= slicer::CallKind::kTransfers && call.source < calls.sources.size() &&
           call.object < objects &&
           std::ranges::all_of(
               call.transfers,
               [&](const slicer::CalledTransfer& transfer) {
                 return transfer.communicator < calls.communicators.size();
               });
  });
}

Result<RecordedRank> ReadRecorded(const std::string& path, Rank rank) {
  PRISM_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const std::string_view bytes = file.bytes();
  if (bytes.size() <= kHashSize || bytes.size() > kMostBytes ||
      HashText(bytes.substr(kHashSize)) != bytes.substr(0, kHashSize)) {
    return BadFile(bytes.size() > kMostBytes ? "larger than a recording is" : "its hash differs");
  }
  WireReader message(bytes.substr(kHashSize), WireSource::kFile);
  if (message.Get<MessageKind>() != MessageKind::kRecorded) {
    return BadFile("no recording");
  }
  PRISM_ASSIGN_OR_RETURN(RecordedRank recorded, GetRecorded(&message, kMostBytes));
  if (message.is_damaged() || !message.empty() || recorded.fragment.rank != rank ||
      recorded.odd.size() > slicer::kMaxOddKinds ||
      (recorded.calls && !IndicesAreRight(*recorded.calls))) {
    return BadFile("not the recording of this rank");
  }
  return recorded;
}

Status Unwritable(const std::string& path, const Status& status) {
  return {status.code(), fmt::format("--resume keeps what it records in {}: {}; free space, or "
                                     "leave --resume out",
                                     path, status.message())};
}

}  // namespace

Result<KeptRanks> KeptRanks::Open(std::string folder, const RunKey& key, const Logger& logger) {
  KeptRanks kept(std::move(folder), logger);
  const std::string key_path = kept.folder_ + "/KEY";
  std::error_code error;
  if (const Result<std::string> before = ReadFile(key_path); before.ok()) {
    const std::string difference = DifferenceOf(ReadKeyText(*before), key);
    if (difference.empty()) {
      const fs::directory_iterator files(kept.folder_, error);
      logger.Info("going on from {} recordings in {}", std::distance(begin(files), end(files)) - 1,
                  kept.folder_);
      return kept;
    }
    logger.Info("recording anew: {} changed since what is in {} was recorded", difference,
                kept.folder_);
    fs::remove_all(kept.folder_, error);
  } else if (fs::exists(kept.folder_, error) && !fs::is_empty(kept.folder_, error)) {
    return InvalidArgument(
        fmt::format("--resume keeps what it records in {}, which exists but has no KEY of an "
                    "earlier run; move it away, or use another --out",
                    kept.folder_));
  } else {
    logger.Info("nothing recorded by an earlier run in {}; keeping recordings there", kept.folder_);
  }
  fs::create_directories(kept.folder_, error);
  if (error) {
    return EnvironmentLacks(
        fmt::format("--resume keeps what it records in {}: {}; use another "
                    "--out",
                    kept.folder_, error.message()));
  }
  if (const Status written = WriteFileAtomically(key_path, KeyText(key)); !written.ok()) {
    return Unwritable(kept.folder_, written);
  }
  return kept;
}

void KeptRanks::BeginRound(const RecordedLength& length, std::string_view book) {
  Hasher hasher;
  hasher.Add(length.steps);
  hasher.Add(length.iterations);
  hasher.Add(length.chosen.number.value_or(-1));
  hasher.Add(length.chosen.always ? 1 : 0);
  for (const int32_t number : length.odd) {
    hasher.Add(number);
  }
  hasher.AddString(book);
  round_ = hasher.Digest();
}

std::string KeptRanks::PathOf(Rank rank) const {
  return fmt::format("{}/rank{}-{:016x}", folder_, rank.value(), round_);
}

std::optional<RecordedRank> KeptRanks::Find(Rank rank) const {
  const std::string path = PathOf(rank);
  if (std::error_code absent; !fs::exists(path, absent)) {
    return std::nullopt;
  }
  Result<RecordedRank> recorded = ReadRecorded(path, rank);
  if (!recorded.ok()) {
    logger_.Warning("{} is damaged and is recorded anew: {}", path, recorded.status().message());
    return std::nullopt;
  }
  return *std::move(recorded);
}

void KeptRanks::Keep(Rank rank, std::string encoded) {
  waiting_.push_back({PathOf(rank), std::move(encoded), std::chrono::steady_clock::now() + kDelay});
}

Status KeptRanks::Write(bool all) {
  while (!waiting_.empty()) {
    if (all) {
      std::this_thread::sleep_until(waiting_.front().due);
    } else if (std::chrono::steady_clock::now() < waiting_.front().due) {
      return OkStatus();
    }
    PRISM_RETURN_IF_ERROR(InterruptStatus());
    const Waiting& next = waiting_.front();
    if (const Status written = WriteFileAtomically(next.path, HashText(next.bytes) + next.bytes);
        !written.ok()) {
      return Unwritable(folder_, written);
    }
    waiting_.pop_front();
  }
  return OkStatus();
}

void KeptRanks::Remove() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

}  // namespace prism::launch
