// Splits a command line into options and operands; shared by prism-emulate and the verbs of prism.
// The caller interprets the texts. The only place that knows CLI11.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"

namespace prism::launch {

// What a switch may be set to ("--force=off", PRISM_FORCE=1): off and on by turns.
inline constexpr std::array<std::string_view, 6> kSwitchWords = {"off", "on",    "0",
                                                                 "1",   "false", "true"};

// An option that a command has. "--help" and "--version" are ordinary switches.
struct FlagSpec {
  std::string name;  // without dashes: "micro-batch-size"
  bool is_switch = false;
  bool repeatable = false;
};

struct SplitCommandLine {
  // Values by name, in the order given; one of kSwitchWords for a switch. Contains only options
  // that were given.
  std::map<std::string, std::vector<std::string>, std::less<>> texts;
  std::vector<std::string> operands;

  // Whether the switch was given, and not to turn it off.
  [[nodiscard]] bool IsOn(std::string_view name) const;
};

// Options may be anywhere, as --name value or --name=value; underscores in a name count as
// dashes; -h is --help. kInvalidArgument, with the nearest known name, for an unknown option, for
// one without its value (no value begins with "--"), and for a second value of one that is not
// repeatable. `help` is the command that messages point to: "prism replay --help". A command that
// takes no operands gets unknown options behind the first one as operands, too, for its message.
Result<SplitCommandLine> SplitArguments(const std::vector<FlagSpec>& flags,
                                        const std::vector<std::string>& arguments,
                                        const std::string& help,
                                        bool takes_operands = true);

// One option of a --help text: "  --name VALUE", then what it does, with its default in brackets,
// wrapped at 100 columns.
std::string OptionHelp(const std::string& flag_and_value,
                       const std::string& help,
                       const std::string& default_text);

}  // namespace prism::launch
