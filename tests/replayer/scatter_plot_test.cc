#include "replayer/report/scatter_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace prism::replayer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ScatterPlot, writes_names_as_text) {
  const std::string svg = ScatterSvg({"a<b&c", "x", "y>z"}, {{1, 2, "1 < 2", false}});
  EXPECT_THAT(svg, HasSubstr("a&lt;b&amp;c</text>"));
  EXPECT_THAT(svg, HasSubstr("y&gt;z (logarithmic)</text>"));
  EXPECT_THAT(svg, HasSubstr("<title>1 &lt; 2</title>"));
}

TEST(ScatterPlot, leaves_out_what_has_no_logarithm) {
  const std::string svg = ScatterSvg({"t", "x", "y"}, {{1, 2, "a", false}, {3, 0, "b", true}});
  EXPECT_THAT(svg, HasSubstr("1 of 2 left out"));
  EXPECT_THAT(svg, HasSubstr("x (logarithmic)"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

}  // namespace
}  // namespace prism::replayer
