// Seconds of the machine's clock.
#pragma once

#include <chrono>

namespace prism::launch {

class StopWatch {
 public:
  [[nodiscard]] double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace prism::launch
