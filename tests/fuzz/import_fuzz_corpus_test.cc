// Replays the corpus of the fuzz target of imports: whole, cut off at every length, and damaged.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graph/base/file.h"
#include "graph/base/rng.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/import_input.h"

namespace prism::testing {
namespace {

TEST(ImportFuzzCorpus, every_input_is_handled) {
  const std::vector<std::string> paths = CorpusFiles(PRISM_IMPORT_CORPUS);
  ASSERT_GE(paths.size(), 8U);
  for (const std::string& path : paths) {
    SCOPED_TRACE(path);
    const Result<std::string> input = ReadFile(path);
    ASSERT_TRUE(input.ok()) << input.status().message();
    TryImport(*input);
  }
}

TEST(ImportFuzzCorpus, every_beginning_of_an_input_is_handled) {
  for (const std::string& path : CorpusFiles(PRISM_IMPORT_CORPUS)) {
    const Result<std::string> input = ReadFile(path);
    ASSERT_TRUE(input.ok()) << input.status().message();
    for (size_t size = 0; size < input->size(); ++size) {
      TryImport(std::string_view(*input).substr(0, size));
    }
  }
}

// Bytes changed, removed or inserted, as a fuzzer would do first.
TEST(ImportFuzzCorpus, damaged_inputs_are_handled) {
  constexpr int kRounds = 200;
  constexpr int64_t kMaxChanges = 4;
  Rng rng(1, "damaged imports");
  for (const std::string& path : CorpusFiles(PRISM_IMPORT_CORPUS)) {
    SCOPED_TRACE(path);
    const Result<std::string> input = ReadFile(path);
    ASSERT_TRUE(input.ok()) << input.status().message();
    const auto body = static_cast<int64_t>(input->find('\n')) + 1;  // the format's name stays
    for (int round = 0; round < kRounds; ++round) {
      std::string damaged = *input;
      for (int64_t left = rng.UniformInt(1, kMaxChanges); left > 0; --left) {
        const auto size = static_cast<int64_t>(damaged.size());
        if (size <= body) {
          break;
        }
        const auto at = static_cast<size_t>(rng.UniformInt(body, size - 1));
        const auto byte = static_cast<char>(rng.UniformInt(0, 255));
        const int64_t kind = rng.UniformInt(0, 2);
        if (kind == 0) {
          damaged[at] = byte;
        } else if (kind == 1) {
          damaged.erase(at, 1);
        } else {
          damaged.insert(at, 1, byte);
        }
      }
      TryImport(damaged);
    }
  }
}

}  // namespace
}  // namespace prism::testing
