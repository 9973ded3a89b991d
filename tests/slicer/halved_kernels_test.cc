// What kernels of half the time would give, beside the same profile rewritten with such kernels by
// a program of its own (halve_kernels.py): on every profile beside the repository.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "replayer/edit/edit_builder.h"
#include "tests/slicer/kineto_profile.h"
#include "tests/support/scratch_folder.h"

namespace prism::slicer {
namespace {

namespace fs = std::filesystem;

Result<ImportResult> ImportFile(const std::string& file) {
  ImportOptions options;
  options.cluster = prism::testing::TestCluster();
  return ImportKineto({file}, options);
}

DurationNs WithKernels(const graph::Graph& graph, double factor) {
  const replayer::ReplayOptions options;
  replayer::EditBuilder builder(graph, options);
  replayer::KernelChange change;
  change.pattern = "*";
  change.factor = factor;
  EXPECT_TRUE(builder.ChangeKernels(change).ok());
  const Result<replayer::Edit> edit = std::move(builder).Take();
  EXPECT_TRUE(edit.ok());
  const Result<replayer::EditedJob> job = replayer::ApplyEdit(graph, options, *edit);
  EXPECT_TRUE(job.ok());
  return IterationNs(job->graph);
}

std::vector<std::string> ProfilesBeside() {
  std::vector<std::string> files;
  std::error_code ignored;
  for (fs::recursive_directory_iterator at(PRISM_TRACES, ignored), end; at != end; ++at) {
    const std::string name = at->path().filename().string();
    if (name.ends_with(".json.gz") && !name.starts_with("et_")) {
      files.push_back(at->path().string());
    }
  }
  std::ranges::sort(files);
  return files;
}

TEST(HalvedKernels, what_if_equals_the_rewritten_profile) {
  constexpr double kShare = 0.5;
  const ScratchFolder folder;
  size_t compared = 0;
  for (const std::string& file : ProfilesBeside()) {
    SCOPED_TRACE(file);
    const Result<ImportResult> measured = ImportFile(file);
    if (!measured.ok()) {
      continue;  // without kernels
    }
    const std::string rewritten = folder / "rewritten.json";
    const std::string command =
        fmt::format("python3 '{}' '{}' '{}' {}", PRISM_HALVE_KERNELS, file, rewritten, kShare);
    ASSERT_EQ(std::system(command.c_str()), 0);
    const Result<ImportResult> halved = ImportFile(rewritten);
    ASSERT_TRUE(halved.ok()) << halved.status().message();
    const auto expected = static_cast<double>(IterationNs(halved->graph));
    EXPECT_NEAR(static_cast<double>(WithKernels(measured->graph, kShare)), expected,
                0.02 * expected);
    ++compared;
  }
  if (compared == 0) {
    GTEST_SKIP() << "there are no profiles beside the repository";
  }
}

}  // namespace
}  // namespace prism::slicer
