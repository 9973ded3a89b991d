// Where iterations begin in a program whose optimizers step in hooks of a backward pass.
#include <algorithm>
#include <cstdint>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/slicer/record_script.h"
#include "tests/slicer/script_recording.h"

namespace prism::slicer {
namespace {

using graph::OpKind;
using ::testing::HasSubstr;

// A hook of each parameter steps its own optimizer as soon as the gradient is ready.
void AddBackwardWithSteps(RecordScript* script, int layers, uint16_t thread = 3) {
  for (int layer = 0; layer < layers; ++layer) {
    script->Matmul(16);  // the forward pass
  }
  script->OnThread(thread);
  script->InBackward(true);
  for (int layer = 0; layer < layers; ++layer) {
    script->Matmul(32);
    script->Marker("Optimizer.step#SGD.step", true, true);
    script->Kernel("sgd");
    script->Marker("Optimizer.step#SGD.step", false, true);
  }
  script->OnThread(0);
  script->InBackward(false);
}

TEST(StepsInHooks, steps_inside_of_a_backward_pass_make_one_iteration_of_it) {
  RecordScript script;
  for (int i = 0; i < 5; ++i) {
    AddBackwardWithSteps(&script, 4);
  }
  const Result<graph::Fragment> fragment = RecordAll(script, 0, 0);
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  EXPECT_EQ(std::ranges::count(fragment->program.kind, OpKind::kKernel), 12);
  EXPECT_EQ(fragment->iterations, 3);
  EXPECT_THAT(fragment->iteration_begin, HasSubstr("inside a backward pass"));
}

// As with torch.autograd.set_multithreading_enabled(False).
TEST(StepsInHooks, a_backward_pass_with_steps_may_run_on_the_thread_of_the_forward_pass) {
  RecordScript script;
  for (int i = 0; i < 5; ++i) {
    AddBackwardWithSteps(&script, 4, 0);
  }
  const Result<graph::Fragment> fragment = RecordAll(script, 0, 0);
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  EXPECT_EQ(std::ranges::count(fragment->program.kind, OpKind::kKernel), 12);
  EXPECT_EQ(fragment->iterations, 3);
}

// A thread that prepares batches launches kernels whenever it likes.
TEST(StepsInHooks, a_kernel_of_a_loader_begins_none_in_the_middle_of_a_backward_pass) {
  RecordScript script;
  for (int i = 0; i < 6; ++i) {
    AddBackwardWithSteps(&script, 2);
    script.OnThread(3);
    script.InBackward(true);
    script.OnThread(5);
    script.InBackward(false);
    script.Kernel("normalise");
    script.OnThread(3);
    script.InBackward(true);
    script.Matmul(64);
    script.OnThread(0);
    script.InBackward(false);
    script.Kernel("loss");
  }
  const Result<graph::Fragment> fragment = RecordAll(script, 0, 0);
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  const auto first = std::ranges::find(fragment->program.kind, OpKind::kKernel);
  const auto op = static_cast<size_t>(first - fragment->program.kind.begin());
  const graph::KernelSignature& signature = fragment->signatures[fragment->program.signature[op]];
  EXPECT_EQ(fragment->strings[signature.name.value()], "loss");
}

TEST(StepsInHooks, a_step_behind_a_backward_pass_with_steps_begins_the_iteration) {
  RecordScript script;
  for (int i = 0; i < 5; ++i) {
    AddBackwardWithSteps(&script, 4);
    script.Kernel("clip");
    script.Marker("Optimizer.step#AdamW.step", true);
    script.Kernel("adam");
    script.Marker("Optimizer.step#AdamW.step", false);
  }
  const Result<graph::Fragment> fragment = RecordAll(script, 0, 0);
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  EXPECT_EQ(std::ranges::count(fragment->program.kind, OpKind::kKernel), 14);
  EXPECT_EQ(fragment->iteration_begin, "the range \"Optimizer.step#AdamW.step\"");
}

}  // namespace
}  // namespace prism::slicer
