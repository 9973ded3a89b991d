#include "launch/inputs/environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "launch/inputs/options.h"

namespace prism::launch {
namespace {

// Whether the names differ by one letter added, missing or different.
bool IsOneLetterOff(std::string_view name, std::string_view meant) {
  const auto begin = static_cast<size_t>(std::ranges::mismatch(name, meant).in1 - name.begin());
  name.remove_prefix(begin);
  meant.remove_prefix(begin);
  while (!name.empty() && !meant.empty() && name.back() == meant.back()) {
    name.remove_suffix(1);
    meant.remove_suffix(1);
  }
  return std::max(name.size(), meant.size()) == 1;
}

// What the shim, the tests and the stand-ins for a driver read.
constexpr auto kOwnVariables = std::to_array<std::string_view>(
    {"BLOCK_EVENTS", "CHANNEL_FD", "CHANNEL_PATH", "DRIVER", "EXCHANGE", "FAKE_GPU", "FAKE_GPU_LOG",
     "GOLDEN_UPDATE", "GUARD", "HOLD", "STACK_FD", "STORE", "TEST_DEVICE", "VALUES",
     "VALUES_BYTES"});

}  // namespace

Result<std::vector<std::string>> UnknownVariables() {
  constexpr size_t kShortest = 6;
  std::vector<std::string> known;
  for (const OptionSpec& spec : OptionTable()) {
    known.push_back(EnvironmentName(spec).substr(kVariableBeginning.size()));
  }
  std::vector<std::string> unknown;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!text.starts_with(kVariableBeginning)) {
      continue;
    }
    const std::string_view variable = text.substr(0, text.find('='));
    const std::string_view name = variable.substr(kVariableBeginning.size());
    const auto meant = std::ranges::find_if(
        known, [&](const std::string& option) { return IsOneLetterOff(name, option); });
    if (std::ranges::find(known, name) != known.end() ||
        std::ranges::find(kOwnVariables, name) != kOwnVariables.end()) {
      continue;
    }
    if (meant != known.end() && name.size() >= kShortest) {
      return InvalidArgument(fmt::format(
          "{} is set, but there is no such option; did you mean {}{}? Rename or unset it", variable,
          kVariableBeginning, *meant));
    }
    unknown.emplace_back(variable);
  }
  std::ranges::sort(unknown);
  return unknown;
}

}  // namespace prism::launch
