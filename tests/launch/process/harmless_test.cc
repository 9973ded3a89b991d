// What a terminal would obey is spelled out.
#include <gtest/gtest.h>

#include "launch/process/output.h"

namespace prism::launch {
namespace {

TEST(Harmless, control_characters_and_no_others_are_spelled_out) {
  EXPECT_EQ(Harmless("kernel<4>\tµs → 1 \U0001F600\n"), "kernel<4>\tµs → 1 \U0001F600\n");
  EXPECT_EQ(Harmless("a\u202eb\u2066c\u200f"), "a\\u202eb\\u2066c\\u200f");
  EXPECT_EQ(Harmless("\x1b[2Jk\r\x7f"), "\\u001b[2Jk\\u000d\\u007f");
  EXPECT_EQ(Harmless("\xc2\x9b"
                     "31m"),
            "\\u009b31m");
  EXPECT_EQ(Harmless("\x9b"
                     "31m \xe2\x82"),
            "\\u009b31m \\u00e2\\u0082");
}

}  // namespace
}  // namespace prism::launch
