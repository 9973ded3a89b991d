#include "launch/emulate/sandbox/stack_text.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include <cxxabi.h>

#include "launch/emulate/sandbox/last_lines.h"

namespace prism::launch {
namespace {

constexpr std::string_view kCurrentThread = "Current thread";
constexpr std::string_view kPythonFrame = "  File ";
// Where pip installs packages: a frame there is not the program's own.
constexpr std::string_view kInstalledPackages = "/site-packages/";

// "/lib/libx.so(_Z3foov+0x1f)[0x7f00]" → "libx.so: foo()".
std::string ReadableFrame(const std::string& line) {
  const size_t open = line.find('(');
  const size_t plus = line.find('+', open);
  if (open == line.npos || plus == line.npos) {
    return line;
  }
  const size_t slash = line.rfind('/', open);
  const std::string object = line.substr(slash + 1, open - slash - 1);
  const std::string symbol = line.substr(open + 1, plus - open - 1);
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, nullptr), &std::free);
  if (symbol.empty()) {
    return object + line.substr(plus, line.find(')', plus) - plus);
  }
  return object + ": " + (demangled == nullptr ? symbol : demangled.get());
}

// Whether the frame belongs to a thread's wait for its worker.
bool IsOfTheWait(const std::string& line) {
  return line.find("libc.so") != line.npos || line.find("libprism_shim.so") != line.npos;
}

std::vector<std::string> MachineFrames(std::vector<std::string> lines) {
  lines.erase(lines.begin(), std::find_if_not(lines.begin(), lines.end(), IsOfTheWait));
  std::transform(lines.begin(), lines.end(), lines.begin(), ReadableFrame);
  return lines;
}

// Frames of the first thread in `stacks`, the program's own ones first.
std::vector<std::string> PythonFrames(const std::vector<std::string>& lines) {
  std::vector<std::string> frames;
  for (const std::string& line : lines) {
    if (line.empty() && !frames.empty()) {
      break;  // the next thread
    }
    if (line.starts_with(kPythonFrame)) {
      frames.push_back(line.substr(kPythonFrame.size()));
    }
  }
  const auto own = std::find_if(frames.begin(), frames.end(), [](const std::string& frame) {
    return frame.find(kInstalledPackages) == frame.npos;
  });
  if (own != frames.end()) {
    frames.erase(frames.begin(), own);
  }
  return frames;
}

}  // namespace

std::vector<std::string> InnermostFrames(std::string_view stacks, size_t count) {
  const size_t current = stacks.find(kCurrentThread);
  const bool python = stacks.find(kPythonFrame) != stacks.npos;
  const auto own = LinesOf(stacks.substr(current == stacks.npos ? 0 : current));
  std::vector<std::string> lines(own.begin(), own.end());
  std::vector<std::string> frames = python ? PythonFrames(lines) : MachineFrames(std::move(lines));
  frames.resize(std::min(frames.size(), count));
  return frames;
}

}  // namespace prism::launch
