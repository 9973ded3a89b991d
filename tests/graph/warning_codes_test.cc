#include "graph/warning_codes.h"

#include <algorithm>
#include <regex>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/style/source_tree.h"

namespace prism::graph {
namespace {

// Codes in the sources, found by the ways in which a warning is written: counters of shim/ (with or
// without ":detail"), and Warning structs of the other folders.
std::set<std::string> EmittedCodes() {
  static const std::regex emitted(
      R"rx((?:\bCount|prism_shim_count)\([^;,?]*?b?"([a-z]+(?:_[a-z]+)+)[":]|)rx"
      R"rx(\bCount\([^;"]*\? "([a-z]+(?:_[a-z]+)+)" : "([a-z]+(?:_[a-z]+)+)"\)|)rx"
      R"rx(\.code ==? "([a-z]+(?:_[a-z]+)+)"|)rx"
      R"rx((?:push_back|AddWarning)\(\s*\{"([a-z]+(?:_[a-z]+)+)",|)rx"
      R"rx(\bk\w+ = "([a-z]+(?:_[a-z]+)+):"|)rx"
      R"rx(\bk\w+Code = "([a-z_]+)"|)rx"
      R"rx(\btext = f"([a-z]+(?:_[a-z]+)+):|)rx"
      R"rx(string counter = "([a-z]+_)")rx");
  std::set<std::string> codes;
  for (const style::SourceFile& file : style::ReadSourceTree(PRISM_SOURCE_DIR)) {
    const bool warns = file.path.starts_with("shim/") || file.path.starts_with("graph/validate/") ||
                       file.path.starts_with("slicer/record/") ||
                       file.path.starts_with("slicer/stitch/") ||
                       file.path.starts_with("launch/emulate/run/") ||
                       file.path.starts_with("launch/emulate/clock/") ||
                       file.path.starts_with("launch/inputs/measured_") ||
                       file.path == "slicer/import/kineto/kineto_import.cc" ||
                       file.path == "replayer/ineffective_perturbations.h";
    std::string text;
    for (const std::string& line : file.lines) {
      text += warns ? line + "\n" : "";
    }
    for (std::sregex_iterator it(text.begin(), text.end(), emitted), end; it != end; ++it) {
      for (size_t group = 1; group < it->size(); ++group) {
        if ((*it)[group].matched) {
          codes.insert((*it)[group]);
        }
      }
    }
  }
  return codes;
}

TEST(WarningCodes, every_code_of_the_sources_is_listed) {
  const std::set<std::string> emitted = EmittedCodes();
  EXPECT_GE(emitted.size(), 50U);
  for (const std::string& code : emitted) {
    EXPECT_NE(FindWarningCode(code), nullptr) << code << " is not in graph/warning_codes.cc";
  }
}

TEST(WarningCodes, every_listed_code_is_emitted_somewhere) {
  const std::set<std::string> emitted = EmittedCodes();
  for (const WarningCode& known : WarningCodes()) {
    EXPECT_TRUE(emitted.contains(std::string(known.code))) << known.code;
  }
}

TEST(WarningCodes, the_list_is_in_order_and_each_code_says_what_it_means) {
  EXPECT_TRUE(std::ranges::is_sorted(WarningCodes(), {}, &WarningCode::code));
  for (const WarningCode& known : WarningCodes()) {
    EXPECT_FALSE(known.meaning.empty() || known.meaning.ends_with('.')) << known.code;
  }
}

TEST(WarningCodes, a_refused_function_is_found_by_the_beginning_of_its_code) {
  ASSERT_NE(FindWarningCode("refused_cusparseLtInit"), nullptr);
  EXPECT_EQ(FindWarningCode("refused_cusparseLtInit")->code, "refused_");
  EXPECT_EQ(FindWarningCode("odd_iterations"), nullptr);
  EXPECT_TRUE(IsShownFirst("odd_iteration"));
  EXPECT_FALSE(IsShownFirst("role_split"));
}

}  // namespace
}  // namespace prism::graph
