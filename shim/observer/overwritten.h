// Which of its arguments an op overwrites, from its schema. What no rule computes must not keep the
// value from before: a small integer counts as never written then, so that reading it is counted.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

namespace prism::shim {

struct OverwrittenArguments {
  // By a kernel of the op itself; other ops call ops that have one.
  std::vector<size_t> places;
  // From here on the arguments are only written ("out").
  size_t first_out = std::numeric_limits<size_t>::max();
  bool is_copy = false;
};

// Slow: once per op.
OverwrittenArguments OverwrittenBy(const at::RecordFunction& function);

// Takes the values of small integers among these arguments away.
void ForgetOverwritten(const OverwrittenArguments& overwritten,
                       c10::ArrayRef<const c10::IValue> inputs);

}  // namespace prism::shim
