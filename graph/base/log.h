// Log records: one line each, to stderr unless a sink is given. A Logger is passed to whoever
// logs; there is no global one. Copies share the sink.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include <fmt/format.h>

#include "graph/base/enum_names.h"

namespace prism {

enum class LogLevel : uint8_t { kError, kWarning, kInfo };

inline constexpr EnumNames<LogLevel, 3> kLogLevelNames = {
    {{LogLevel::kError, "error"}, {LogLevel::kWarning, "warning"}, {LogLevel::kInfo, "info"}}};

class Logger {
 public:
  // Gets each record as one whole line with its newline; called by one thread at a time.
  using Sink = std::function<void(std::string_view line)>;

  explicit Logger(LogLevel level = LogLevel::kInfo);  // to stderr, one write per record
  Logger(LogLevel level, Sink sink);

  [[nodiscard]] bool Enabled(LogLevel level) const { return level <= level_; }

  // Line breaks inside the message become spaces, so that a record stays one line.
  void Log(LogLevel level, std::string_view message) const;

  template <typename... Args>
  void Warning(fmt::format_string<Args...> format, Args&&... args) const {
    if (Enabled(LogLevel::kWarning)) {
      Log(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
    }
  }

  template <typename... Args>
  void Info(fmt::format_string<Args...> format, Args&&... args) const {
    if (Enabled(LogLevel::kInfo)) {
      Log(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
    }
  }

 private:
  struct Output;

  LogLevel level_;
  std::shared_ptr<Output> output_;
};

}  // namespace prism
