// A rank of an earlier run is taken only for the same iterations and values.
#include "launch/emulate/run/kept_ranks.h"

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/base/file.h"
#include "graph/base/input_hashes.h"
#include "launch/emulate/run/messages.h"
#include "tests/support/scratch_folder.h"

namespace prism::launch {
namespace {

TEST(KeptRanks, are_found_for_what_they_were_recorded_for) {
  const ScratchFolder folder;
  Result<KeptRanks> kept = KeptRanks::Open(folder / "out.recorded", {{"option a", "0"}}, Logger());
  ASSERT_TRUE(kept.ok()) << kept.status().message();
  const RecordedLength length = {.steps = 2};
  RecordedRank recorded;
  recorded.fragment.rank = Rank(3);
  kept->BeginRound(length, "values");
  kept->Keep(Rank(3), Encode(recorded));
  ASSERT_TRUE(kept->Write(/*all=*/true).ok());
  EXPECT_TRUE(kept->Find(Rank(3)).has_value());
  EXPECT_FALSE(kept->Find(Rank(4)).has_value());
  RecordedLength steps = length;
  steps.steps = 3;
  RecordedLength iterations = length;
  iterations.iterations = 4;
  RecordedLength chosen = length;
  chosen.chosen.number = 5;
  RecordedLength odd = length;
  odd.odd[0] = 6;
  for (const RecordedLength& other : {steps, iterations, chosen, odd}) {
    kept->BeginRound(other, "values");
    EXPECT_FALSE(kept->Find(Rank(3)).has_value());
  }
  kept->BeginRound(length, "others");
  EXPECT_FALSE(kept->Find(Rank(3)).has_value());
  kept->BeginRound(length, "values");
  EXPECT_TRUE(kept->Find(Rank(3)).has_value());
}

// Bytes that nothing wrote, with the hash that belongs to them.
class DamagedRanks : public ::testing::Test {
 protected:
  DamagedRanks() : kept_(*KeptRanks::Open(folder_ / "out.recorded", {}, logger_)) {
    recorded_.fragment.rank = Rank(3);
    recorded_.speculative_producers = {Rank(1), Rank(2)};
    recorded_.odd.emplace_back();
    recorded_.odd_kinds.push_back({.numbers = {7, 9}});
    slicer::RankCalls& calls = recorded_.calls.emplace();
    calls.communicators.push_back({.members = {Rank(0), Rank(3)}});
    calls.calls.push_back({.kind = slicer::CallKind::kCollective, .needs = {{0, 1}}});
    kept_.BeginRound({}, "");
  }

  std::optional<RecordedRank> Read(std::string encoded) {
    kept_.Keep(Rank(3), std::move(encoded));
    EXPECT_TRUE(kept_.Write(/*all=*/true).ok());
    return kept_.Find(Rank(3));
  }

  // Write waits a moment for each; this does not.
  std::optional<RecordedRank> ReadAtOnce(const std::string& encoded) {
    EXPECT_TRUE(WriteFileAtomically(path_, HashText(encoded) + encoded).ok());
    return kept_.Find(Rank(3));
  }

  const ScratchFolder folder_;
  std::string log_;
  Logger logger_{LogLevel::kWarning, [this](std::string_view line) { log_ += line; }};
  KeptRanks kept_;
  RecordedRank recorded_;
  std::string path_;
};

TEST_F(DamagedRanks, are_recorded_anew_with_a_warning) {
  const std::string whole = Encode(recorded_);
  ASSERT_TRUE(Read(whole).has_value());
  EXPECT_EQ(log_, "");
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "out.recorded")) {
    path_ = entry.path().filename() == "KEY" ? path_ : entry.path().string();
  }
  for (size_t size = 1; size < whole.size(); ++size) {
    ASSERT_FALSE(ReadAtOnce(whole.substr(0, size)).has_value()) << size;
  }
  EXPECT_THAT(log_, ::testing::HasSubstr("is damaged and is recorded anew"));
  EXPECT_FALSE(ReadAtOnce(whole + "more").has_value());
  // Numbers of what follows among them, which say that there is more than any memory holds.
  for (size_t at = 1; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x80);
    ReadAtOnce(damaged);
  }
  recorded_.calls->calls[0].object = 1;
  EXPECT_FALSE(ReadAtOnce(Encode(recorded_)).has_value());
}

}  // namespace
}  // namespace prism::launch
