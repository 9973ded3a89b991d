#include "launch/process/progress.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include <fmt/format.h>

namespace prism::launch {
namespace {

constexpr std::chrono::milliseconds kRedraw(200);
constexpr std::chrono::seconds kPlainPeriod(10);

void WriteError(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

Progress::Progress(std::string program, bool quiet, std::chrono::seconds silent)
    : program_(std::move(program)),
      quiet_(quiet),
      silent_(silent),
      terminal_(isatty(STDERR_FILENO) != 0) {
}

Progress::~Progress() {
  Clear();
}

void Progress::BeginStage(const std::string& name, const std::string& detail) {
  stage_ = name;
  detail_ = detail;
  endless_.clear();
  begin_ = Clock::now();
  last_ = begin_;
  if (quiet_ || silent_.count() > 0) {
    return;
  }
  if (terminal_) {
    Clear();
    drawn_ = true;
    WriteError(fmt::format("{:<8} {}", stage_, detail_));
  } else {
    WriteError(fmt::format("{}: {} {}\n", program_, stage_, detail_));
  }
}

void Progress::Update(double share, const std::string& done) {
  const Clock::time_point now = Clock::now();
  const bool due = terminal_ ? now - last_ >= kRedraw : now - last_ >= kPlainPeriod;
  if (quiet_ || !due || now - begin_ < silent_) {
    return;
  }
  last_ = now;
  const double elapsed = std::chrono::duration<double>(now - begin_).count();
  std::string text = fmt::format("{:<8} {:3.0f} %", stage_, 100 * share);
  if (!done.empty()) {
    text += ", " + done;
  }
  if (!endless_.empty()) {
    text += ", " + endless_;
  } else if (share > 0) {
    text += fmt::format(", {:.0f} s left", elapsed / share - elapsed);
  }
  text += fmt::format("  {}", detail_);
  if (terminal_) {
    drawn_ = true;
    WriteError("\r\033[K" + text);
  } else {
    WriteError(fmt::format("{}: {}\n", program_, text));
  }
}

void Progress::Clear() {
  if (drawn_) {
    WriteError("\r\033[K");
    drawn_ = false;
  }
}

}  // namespace prism::launch
