// The table of words, and what is listed where it knows none.
#include "experiments/published/words.h"

#include <filesystem>
#include <regex>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/base/file.h"
#include "launch/inputs/csv_table.h"
#include "tests/experiments/published/one_row.h"
#include "tests/support/scratch_folder.h"

#include "experiments/published/benches.h"
#include "experiments/published/row_plan.h"

namespace prism::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string kFolder = PRISM_SOURCE_DIR "/experiments/published";

// A field that only one side names is a word that is never read, or a question without an answer.
TEST(Words, are_about_fields_that_the_sources_read) {
  static const std::regex read(
      R"re((?:Is|Meaning|Meanings|Meant|Parts|WordsAbout)\(\s*"([^"]+)")re");
  std::set<std::string> asked;
  for (const auto& file : std::filesystem::directory_iterator(kFolder)) {
    if (file.path().extension() == ".cc") {
      const std::string text = *ReadFile(file.path());
      for (std::sregex_iterator found(text.begin(), text.end(), read), end; found != end; ++found) {
        asked.insert((*found)[1]);
        EXPECT_THAT(WordsAbout((*found)[1].str()), Not(IsEmpty())) << (*found)[1];
      }
    }
  }
  asked.insert({"block of arguments", "block", "-", "recompute", "zero"});
  const Result<CsvTable> words = CsvTable::Parse(*ReadFile(kFolder + "/words.csv"), "words.csv");
  ASSERT_TRUE(words.ok()) << words.status().message();
  for (size_t row = 0; row < words->row_count(); ++row) {
    EXPECT_TRUE(asked.contains(words->Field(row, "field"))) << "line " << words->LineOf(row);
  }
}

TEST(Words, of_a_line_may_be_alternatives) {
  EXPECT_THAT(Alternatives("a|b c"), ElementsAre("a", "b c"));
  EXPECT_THAT(Alternatives(""), ElementsAre(""));
  EXPECT_TRUE(Matches("*a[ _-]b*", "xa_by"));
  EXPECT_FALSE(Matches("a", "ab"));
}

TEST(Words, that_come_first_decide) {
  Fields fields = Gpt175B();
  Set(&fields, "framework", "Megatron-LM / Megatron-Core CI");
  EXPECT_EQ(PlanRow(OneRow(fields).row()).style.framework, "megatron-core");
  Set(&fields, "gpu", "GB300 (Blackwell), not B300");
  EXPECT_EQ(PlanRow(OneRow(fields).row()).cluster.gpu, "gpus/gb300");
}

TEST(Words, that_a_row_lacks_leave_its_cells_unknown) {
  EXPECT_THAT(PlanRow(OneRow(Gpt175B()).row()).unknown_cells, IsEmpty());
  Fields fields = Gpt175B();
  Set(&fields, "gpu", "TPU v4 PCIe");
  Set(&fields, "precision", "posit");
  Set(&fields, "zero_stage", "stage 2");
  Set(&fields, "sp", "not stated");
  EXPECT_THAT(PlanRow(OneRow(fields).row()).unknown_cells,
              ElementsAre("precision: posit", "gpu: TPU v4 PCIe"));
}

TEST(Words, that_are_missing_are_listed_by_the_bench) {
  const ScratchFolder folder;
  const std::string table = folder / "runs.csv";
  ASSERT_TRUE(WriteFileAtomically(table,
                                  "id,framework,layers,hidden,heads,vocab,seq_len,tp,pp,num_gpus,"
                                  "micro_batch,global_batch,gpu,iter_time_s\n"
                                  "x-1,NeMo,24,2048,16,51200,2048,1,1,8,1,8,TPU v4,1\n"
                                  "x-2,NeMo,24,2048,16,51200,2048,1,1,8,1,8,TPU v4,1\n"
                                  "x-3,NeMo,24,2048,16,51200,2048,1,1,8,1,8,H100,1\n")
                  .ok());
  const Result<PublishedOutput> output = BenchAccuracy({{table}, "", {}});
  ASSERT_TRUE(output.ok()) << output.status().message();
  EXPECT_THAT(output->text, HasSubstr("warning: 2 cells not understood\n       2  gpu: TPU v4\n"));
  EXPECT_EQ(output->cases.back().name, "cells not understood");
  EXPECT_EQ(output->cases.back().metrics.front().name, "gpu: TPU v4");
  EXPECT_EQ(output->cases.back().metrics.front().value, 2);
}

}  // namespace
}  // namespace prism::launch
