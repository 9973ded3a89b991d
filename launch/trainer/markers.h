// Named ranges of the program ("iteration", "micro-batch 3", "layer 7") as libtorch user scopes. An
// observer that listens to user scopes sees them; without one they cost next to nothing.
#pragma once

#include <string>
#include <utility>

#include <ATen/record_function.h>

#include "shim/observer/torch_versions.h"

namespace prism::launch {

class Marker {
 public:
  explicit Marker(std::string name) : name_(std::move(name)), scope_(at::RecordScope::USER_SCOPE) {
    if (scope_.isActive()) {
#if PRISM_TORCH_VIEWS_NAMES
      scope_.before(std::string_view(name_));
#else
      scope_.before(name_);
#endif
    }
  }

  Marker(const Marker&) = delete;
  Marker& operator=(const Marker&) = delete;

 private:
  std::string name_;  // declared before scope_, which keeps a view of it
  at::RecordFunction scope_;
};

}  // namespace prism::launch
