// Splits a command line into options and operands; shared by prism-emulate and the verbs of prism.
// The caller interprets the texts. The only place that knows CLI11.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/base/status.h"

namespace prism::launch {

// An option that a command has. "--help" and "--version" are ordinary switches.
struct FlagSpec {
  std::string name;  // without dashes: "micro-batch-size"
  bool is_switch = false;
  bool repeatable = false;
};

struct SplitCommandLine {
  // Values by name, in the order given; {"on"} for a switch. Contains only options that were given.
  std::map<std::string, std::vector<std::string>, std::less<>> texts;
  std::vector<std::string> operands;
};

// Options may be anywhere, as --name value or --name=value; underscores in a name count as
// dashes; -h is --help. kInvalidArgument, with the nearest known name, for an unknown option, for
// one without its value, and for a second value of one that is not repeatable. `help` is the
// command that messages point to: "prism replay --help".
Result<SplitCommandLine> SplitArguments(const std::vector<FlagSpec>& flags,
                                        const std::vector<std::string>& arguments,
                                        const std::string& help);

// One option of a --help text: "  --name VALUE", then what it does, with its default in brackets,
// wrapped at 100 columns.
std::string OptionHelp(const std::string& flag_and_value,
                       const std::string& help,
                       const std::string& default_text);

}  // namespace prism::launch
