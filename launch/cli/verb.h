// The verbs of `prism`: what a verb is, and how it reads its part of the command line. Each verb
// lives in its own verb_*.cc file and returns its output as text; only prism.cc prints.
//
// Conventions are those of prism-emulate (launch/inputs/option_table.h); every fault of the command
// line is kInvalidArgument.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "launch/inputs/option_table.h"
#include "launch/inputs/options.h"

namespace prism::launch {

// What --help says about a verb, and what its command line may contain.
struct VerbSpec {
  const char* name;      // "graph show": one word or two
  const char* operands;  // "GRAPH"
  const char* summary;   // one line
  const char* notes;     // further lines of its --help, such as exit codes; "": none
  size_t min_operands = 0;
  size_t max_operands = 0;
  std::vector<OptionRow> options = {};  // besides --format and --help, which every verb has
  std::vector<std::string> words = {};  // what the first operand may be, for shell completion
  bool reads_large_files = false;       // of other tools: has --max-memory
};

// Options of more than one verb.
struct CommonOptions {
  OutputFormat format = OutputFormat::kText;
  double max_memory = 0;  // GiB; 0: what the machine has
};

// A verb's command line. The values of its options go to a struct of the verb (MakeVerb).
class VerbArguments {
 public:
  static Result<VerbArguments> Parse(const VerbSpec& spec,
                                     const std::vector<std::string>& arguments);

  // As they were given.
  [[nodiscard]] const std::vector<std::string>& words() const { return words_; }

  [[nodiscard]] bool help() const { return Has("help"); }
  [[nodiscard]] OutputFormat format() const { return common_.format; }
  [[nodiscard]] double max_memory() const { return common_.max_memory; }
  [[nodiscard]] bool as_json() const { return common_.format == OutputFormat::kJson; }
  [[nodiscard]] const std::vector<std::string>& operands() const { return operands_; }

  [[nodiscard]] bool Has(std::string_view flag) const;
  [[nodiscard]] std::vector<std::string> Texts(std::string_view flag) const;
  // The option's last value; `fallback` if the option is absent.
  [[nodiscard]] std::string Text(std::string_view flag, const std::string& fallback = {}) const;
  // For what depends on an operand. An absent option leaves `target` unchanged.
  Status ReadInt(std::string_view flag, int64_t lowest, int64_t highest, int64_t* target) const;
  Status ReadChoice(std::string_view flag,
                    const std::vector<std::string>& choices,
                    std::string* target) const;
  // Fails early if the file that an option names could not be written when the work is done, or is
  // also named elsewhere on the command line, or is one of `more`, which are read.
  Status CheckOutput(std::string_view flag, const std::vector<std::string>& more = {}) const;
  [[nodiscard]] const GivenOptions& given() const { return given_; }

 private:
  std::vector<std::string> words_;
  CommonOptions common_;
  std::vector<std::string> operands_;
  GivenOptions given_;           // without switches that are off
  std::vector<OptionRow> rows_;  // that the verb has
};

// What a verb prints when it has done its work, and the gate that was not met, if any.
struct VerbOutput {
  std::string text;  // for stdout
  Status gate = {};  // kGateNotMet decides the exit code; the text is printed all the same
};

struct Verb {
  VerbSpec spec;
  std::function<Result<VerbOutput>(const VerbArguments& arguments)> run;
};

// The verb with these options, which are read before it runs.
template <typename T>
Verb MakeVerb(VerbSpec spec,
              std::vector<Option<T>> table,
              Result<VerbOutput> (*run)(const VerbArguments& arguments, const T& options)) {
  spec.options = RowsOf(table);
  return {std::move(spec),
          [table = std::move(table), run](const VerbArguments& arguments) -> Result<VerbOutput> {
            T options;
            PRISM_RETURN_IF_ERROR(ReadOptions(table, arguments.given(), &options));
            return run(arguments, options);
          }};
}

// A rank; whether the graph has it is checked when it is loaded.
Kind<int64_t> AnyRank();
Status CheckRank(int64_t rank, const graph::Graph& graph);

std::vector<Verb> AllVerbs();  // in the order of --help

// `prism run`, which is no verb but prism-emulate.
inline constexpr const char* kRunSummary = "run a job: prism-emulate by a shorter name";

Verb BenchVerb();
Verb CalibrateVerb();
Verb CheckVerb();
Verb CompletionVerb();
Verb DiffVerb();
Verb DoctorVerb();
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

// The verb's options with --format.
std::vector<OptionRow> RowsOf(const VerbSpec& spec);

// The text of `prism VERB --help`.
std::string VerbHelp(const VerbSpec& spec);

}  // namespace prism::launch
