#include "launch/emulate/sandbox/stack_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace prism::launch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(StackText, python_frames_begin_with_the_programs_own) {
  EXPECT_THAT(InnermostFrames("Thread 0x01 (most recent call first):\n"
                              "  File \"/lib/threading.py\", line 3 in wait\n"
                              "\n"
                              "Current thread 0x02 (most recent call first):\n"
                              "  File \"/v/site-packages/torch/c10d.py\", line 9 in all_reduce\n"
                              "  File \"train.py\", line 41 in step\n"
                              "  File \"train.py\", line 50 in main\n"
                              "  File \"train.py\", line 60 in <module>\n",
                              2),
              ElementsAre("\"train.py\", line 41 in step", "\"train.py\", line 50 in main"));
}

TEST(StackText, frames_of_packages_stay_where_the_program_has_none) {
  EXPECT_THAT(InnermostFrames("Current thread 0x02 (most recent call first):\n"
                              "  File \"/v/site-packages/torch/c10d.py\", line 9 in all_reduce\n",
                              4),
              ElementsAre("\"/v/site-packages/torch/c10d.py\", line 9 in all_reduce"));
}

TEST(StackText, machine_frames_are_demangled_and_begin_behind_the_wait) {
  EXPECT_THAT(InnermostFrames("/lib/libc.so.6(syscall+0x19)[0x7f]\n"
                              "/b/lib/libprism_shim.so(pncclAllReduce+0x222)[0x7f]\n"
                              "/v/torch/lib/libtorch_cuda.so(_ZN4c10d4WorkC1Ev+0x19)[0x7f]\n"
                              "/b/train(+0x396e)[0x55]\n",
                              4),
              ElementsAre("libtorch_cuda.so: c10d::Work::Work()", "train+0x396e"));
}

TEST(StackText, nothing_comes_of_nothing) {
  EXPECT_THAT(InnermostFrames("", 4), IsEmpty());
}

}  // namespace
}  // namespace prism::launch
