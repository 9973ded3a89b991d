#include "launch/process/cpu_turn.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <string_view>
#include <utility>

namespace prism::launch {
namespace {

constexpr size_t kSteps = 1000;
constexpr size_t kStack = 64;

int64_t ThreadCpuNs() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

uint64_t Step(uint8_t instruction, std::array<uint64_t, kStack>& stack, uint64_t value) {
  uint64_t& top = stack[value % kStack];
  switch (instruction % 8) {
    case 0:
      return top++ + value;
    case 1:
      return value * 0x9E3779B97F4A7C15U;
    case 2:
      return top ^= value >> 7U;
    case 3:
      return (value & 1U) != 0 ? value + top : value - top;
    case 4:
      return (value << 13U) ^ (value >> 3U);
    case 5:
      return std::exchange(top, value);
    case 6:
      return value / (top % 7 + 1);
    default:
      return stack[top % kStack] + 1;
  }
}

}  // namespace

double MeasureCpuTurn() {
  constexpr int kTurns = 20;  // of one measurement
  constexpr int kMeasurements = 200;
  std::array<uint8_t, kSteps> program = {};
  uint64_t value = 1;
  for (uint8_t& instruction : program) {
    value = value * 6364136223846793005U + 1442695040888963407U;
    instruction = static_cast<uint8_t>(value >> 56U);
  }
  std::array<uint64_t, kStack> stack = {};
  int64_t least_ns = INT64_MAX;
  for (int i = 0; i < kMeasurements; ++i) {
    const int64_t begin_ns = ThreadCpuNs();
    for (int turn = 0; turn < kTurns; ++turn) {
      for (const uint8_t instruction : program) {
        value = Step(instruction, stack, value);
      }
    }
    least_ns = std::min(least_ns, ThreadCpuNs() - begin_ns);
  }
  // The result is used, so that the loop is not left out.
  volatile uint64_t result = value;
  static_cast<void>(result);
  return static_cast<double>(least_ns) / kTurns;
}

std::string CpuName() {
  constexpr std::string_view kKey = "model name";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with(kKey) && colon != line.npos) {
      return line.substr(colon + 2);
    }
  }
  return "";
}

}  // namespace prism::launch
