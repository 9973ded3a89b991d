// Replays the corpus of the flight recorder dumps' fuzz target: dumps that Python wrote in several
// protocols, and pickles that must be refused.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graph/base/file.h"
#include "launch/analyse/flight/flight_dump.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/flight_input.h"

namespace prism::testing {
namespace {

TEST(FlightFuzzCorpus, every_input_is_handled) {
  const std::vector<std::string> paths = CorpusFiles(PRISM_FLIGHT_CORPUS);
  ASSERT_GE(paths.size(), 9U);
  for (const std::string& path : paths) {
    SCOPED_TRACE(path);
    const std::string bytes = *ReadFile(path);
    TryFlightDump(bytes);
    for (size_t size = 0; size < bytes.size(); size += 7) {
      TryFlightDump(std::string_view(bytes).substr(0, size));
    }
  }
}

TEST(FlightFuzzCorpus, only_dumps_are_read) {
  int dumps = 0;
  for (const std::string& path : CorpusFiles(PRISM_FLIGHT_CORPUS)) {
    SCOPED_TRACE(path);
    const Result<launch::FlightDump> dump = launch::DecodeFlightDump(*ReadFile(path), "input");
    EXPECT_EQ(dump.ok(), path.ends_with(".pickle"));
    dumps += dump.ok() ? 1 : 0;
  }
  EXPECT_EQ(dumps, 3);
}

}  // namespace
}  // namespace prism::testing
