#include "launch/trainer/iteration_log.h"

#include <fmt/format.h>

namespace prism::launch {
namespace {

constexpr double kBytesPerGib = 1024.0 * 1024.0 * 1024.0;

}  // namespace

std::string IterationLine(const IterationLog& log) {
  std::string line = fmt::format(" iteration {:>8}/{:>8} | elapsed time per iteration (ms): {:.1f}",
                                 log.iteration, log.iterations, log.milliseconds);
  if (log.loss.has_value()) {
    line += fmt::format(" | loss: {:.6E}", *log.loss);
  }
  return line + fmt::format(" | grad norm: {:.3f} | max allocated (GiB): {:.2f}", log.grad_norm,
                            static_cast<double>(log.max_allocated_bytes) / kBytesPerGib);
}

}  // namespace prism::launch
