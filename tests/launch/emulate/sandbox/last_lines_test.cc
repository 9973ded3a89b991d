#include "launch/emulate/sandbox/last_lines.h"

#include <string>

#include <gtest/gtest.h>

namespace prism::launch {
namespace {

const std::string kTraceback =
    "[rank3]: Traceback (most recent call last):\n"
    "[rank3]:   File \"train.py\", line 9, in <module>\n"
    "[rank3]:     build(model)\n"
    "[rank3]:     ^^^^^^^^^^^^\n";

TEST(TellingLines, are_the_last_ones_that_are_not_aside) {
  EXPECT_EQ(TellingLines("loading\n" + kTraceback +
                             "[rank3]: ValueError: no layer\n"
                             "[rank3]:[W1] Warning: destroy_process_group() was not called\n\n",
                         3),
            "[rank3]:   File \"train.py\", line 9, in <module>\n"
            "[rank3]:     build(model)\n"
            "[rank3]: ValueError: no layer");
  EXPECT_EQ(TellingLines("one\n\ntwo\nthree", 2), "two\nthree");
  EXPECT_EQ(TellingLines("", 3), "");
}

TEST(TellingLines, keep_the_first_line_of_a_long_message) {
  const std::string long_message =
      "[rank3]: ValueError: no layer in stage 3\n"
      "[rank3]: Model(\n"
      "[rank3]:   (0): Linear()\n"
      "[rank3]: )\n";
  EXPECT_EQ(TellingLines(kTraceback + long_message, 3),
            "[rank3]: ValueError: no layer in stage 3\n"
            "[rank3]:   (0): Linear()\n"
            "[rank3]: )");
  EXPECT_EQ(TellingLines(kTraceback + long_message, 4),
            long_message.substr(0, long_message.size() - 1));
  EXPECT_EQ(TellingLines(kTraceback + long_message, 1), "[rank3]: )");
}

TEST(LacksFile, asks_the_last_exception_alone) {
  EXPECT_TRUE(LacksFile(kTraceback + "[rank3]: FileNotFoundError: [Errno 2] 'x.bin'\n"));
  EXPECT_TRUE(LacksFile(kTraceback + "[rank3]: OSError: no file named model.safetensors\n"));
  EXPECT_FALSE(LacksFile(kTraceback + "[rank3]: ValueError: no layer\n"));
  EXPECT_FALSE(LacksFile("FileNotFoundError: caught\n"));
}

// A program may go on after an exception, and end by something else.
TEST(TellingLines, end_with_the_last_one) {
  EXPECT_EQ(
      TellingLines(kTraceback + "[rank3]: ImportError: no flash_attn\n"
                                "falling back\nstep 1\nstep 2\nprism shim: cuFoo is not supported\n"
                                "step 3\nterminate called\nwhat(): bad\n",
                   3),
      "[rank3]: ImportError: no flash_attn\n"
      "prism shim: cuFoo is not supported\n"
      "what(): bad");
}

TEST(TellingLines, of_several_tracebacks_come_from_the_last) {
  EXPECT_EQ(TellingLines("Traceback (most recent call last):\n"
                         "  File \"a.py\", line 1\n"
                         "KeyError: 'first'\n\n"
                         "During handling of the above exception, another one occurred:\n\n"
                         "Traceback (most recent call last):\n"
                         "  File \"b.py\", line 2\n"
                         "ValueError: second\n  of\n  many\n  lines\n",
                         2),
            "ValueError: second\n  lines");
}

TEST(TellingLines, keep_the_last_refusal) {
  EXPECT_EQ(TellingLines("prism shim: cuFoo is not supported\n" + kTraceback +
                             "[rank3]: RuntimeError: CUDA error\n",
                         3),
            "prism shim: cuFoo is not supported\n"
            "[rank3]:     build(model)\n"
            "[rank3]: RuntimeError: CUDA error");
  EXPECT_EQ(
      TellingLines("prism shim: cuFoo is not supported\nprism shim: cuBar is not supported\n" +
                       kTraceback + "[rank3]: RuntimeError: CUDA error\nfor\ndebugging\n",
                   3),
      "prism shim: cuBar is not supported\n"
      "[rank3]: RuntimeError: CUDA error\n"
      "debugging");
}

}  // namespace
}  // namespace prism::launch
