#include "graph/base/log.h"

#include <unistd.h>

#include <algorithm>
#include <mutex>

namespace prism {
namespace {

// One write per line: lines of several processes on one terminal do not mix.
void WriteToStderr(std::string_view line) {
  while (!line.empty()) {
    const ssize_t count = write(STDERR_FILENO, line.data(), line.size());
    if (count <= 0) {
      return;  // nowhere left to complain
    }
    line.remove_prefix(static_cast<size_t>(count));
  }
}

}  // namespace

struct Logger::Output {
  std::mutex mutex;
  Sink sink;
};

Logger::Logger(LogLevel level) : Logger(level, WriteToStderr) {
}

Logger::Logger(LogLevel level, Sink sink) : level_(level), output_(std::make_shared<Output>()) {
  output_->sink = std::move(sink);
}

void Logger::Log(LogLevel level, std::string_view message) const {
  if (!Enabled(level)) {
    return;
  }
  std::string line = fmt::format("{}: {}", NameOf(kLogLevelNames, level), message);
  std::replace(line.begin(), line.end(), '\n', ' ');
  line.push_back('\n');
  const std::lock_guard<std::mutex> lock(output_->mutex);
  output_->sink(line);
}

}  // namespace prism
