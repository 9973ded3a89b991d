// The verbs of `prism`: what a verb is, and how it reads its part of the command line. Each verb
// lives in its own verb_*.cc file and returns its output as text; only prism.cc prints.
//
// Conventions are those of prism-emulate (command_line.h); every fault of the command line is
// kInvalidArgument.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/enum_names.h"
#include "graph/base/status.h"
#include "launch/inputs/options.h"

namespace prism::launch {

struct VerbOption {
  const char* flag;        // without dashes
  std::string value_name;  // as --help shows it; "" for a switch
  const char* default_text;
  std::string help;
  bool repeatable = false;
};

// What --help says about a verb, and what its command line may contain.
struct VerbSpec {
  const char* name;      // "graph show": one word or two
  const char* operands;  // "GRAPH"
  const char* summary;   // one line
  const char* notes;     // further lines of its --help, such as exit codes; "": none
  size_t min_operands = 0;
  size_t max_operands = 0;
  std::vector<VerbOption> options;  // besides --format and --help, which every verb has
};

// A verb's command line. The Read functions use an option's last value; an absent option leaves
// `target` unchanged.
class VerbArguments {
 public:
  static Result<VerbArguments> Parse(const VerbSpec& spec,
                                     const std::vector<std::string>& arguments);

  // As they were given.
  [[nodiscard]] const std::vector<std::string>& words() const { return words_; }

  [[nodiscard]] bool help() const { return Has("help"); }
  [[nodiscard]] OutputFormat format() const { return format_; }
  [[nodiscard]] const std::vector<std::string>& operands() const { return operands_; }

  [[nodiscard]] bool Has(std::string_view flag) const;
  [[nodiscard]] std::vector<std::string> Texts(std::string_view flag) const;
  // The option's last value; `fallback` if the option is absent.
  [[nodiscard]] std::string Text(std::string_view flag, const std::string& fallback = {}) const;
  Status ReadInt(std::string_view flag, int64_t lowest, int64_t highest, int64_t* target) const;
  Status ReadNumber(std::string_view flag, double* target) const;  // above 0
  // Fails early if the file that an option names could not be written when the work is done, or is
  // also named elsewhere on the command line, or is one of `more`, which are read.
  Status CheckOutput(std::string_view flag, const std::vector<std::string>& more = {}) const;
  Status ReadChoice(std::string_view flag,
                    const std::vector<std::string>& choices,
                    std::string* target) const;
  template <typename Enum, size_t N>
  Status ReadEnum(std::string_view flag,
                  const std::array<EnumName<Enum>, N>& names,
                  Enum* target) const {
    std::string name = NameOf(names, *target);
    PRISM_RETURN_IF_ERROR(ReadChoice(flag, AllNames(names), &name));
    *target = *ValueNamed(names, name);
    return OkStatus();
  }

 private:
  std::vector<std::string> words_;
  OutputFormat format_ = OutputFormat::kText;
  std::vector<std::string> operands_;
  std::map<std::string, std::vector<std::string>, std::less<>> texts_;  // by flag
  std::set<std::string> file_flags_;                                    // whose values are files
};

// What a verb prints when it has done its work, and the gate that was not met, if any.
struct VerbOutput {
  std::string text;  // for stdout
  Status gate;       // kGateNotMet decides the exit code; the text is printed all the same
};

struct Verb {
  VerbSpec spec;
  Result<VerbOutput> (*run)(const VerbArguments& arguments);
};

Verb BenchVerb();
Verb DiffVerb();
Verb ExportVerb();
Verb FlightVerb();
Verb GraphShowVerb();
Verb GraphValidateVerb();
Verb ImportVerb();
Verb MemVerb();
Verb PresetsVerb();
Verb ReplayVerb();
Verb ReportVerb();
Verb SearchVerb();

// The text of `prism VERB --help`.
std::string VerbHelp(const VerbSpec& spec);

}  // namespace prism::launch
