// prism: the verbs. Dispatch, --help, --version and exit codes; what a verb does is in its
// verb_*.cc.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launch/cli/verb.h"
#include "launch/exit_codes.h"
#include "launch/process/install_paths.h"
#include "launch/process/output.h"
#include "launch/process/torch_libraries.h"

namespace prism::launch {
namespace {

constexpr const char* kHelpTail =
    "\n"
    "prism VERB --help shows the options of a verb. Runs are made by prism run.\n";

std::string HelpText(const std::vector<Verb>& verbs) {
  std::string text =
      "prism: inspect, replay, edit and compare what prism-emulate has written; search for plans.\n"
      "\n"
      "Usage: prism VERB [arguments] [options]\n"
      "\n"
      "Verbs:\n";
  text += fmt::format("  {:<28}{}\n", "run [-- PROGRAM ARGS...]", kRunSummary);
  for (const Verb& verb : verbs) {
    text += fmt::format("  {:<28}{}\n", fmt::format("{} {}", verb.spec.name, verb.spec.operands),
                        verb.spec.summary);
  }
  text += "  --help, --version\n";
  return text + kHelpTail + kExitCodesHelp;
}

// How many of the first words name `verb`; 0 if they do not.
size_t WordsOf(const Verb& verb, const std::vector<std::string>& words) {
  const std::string_view name = verb.spec.name;
  const size_t space = name.find(' ');
  if (words.empty() || words[0] != name.substr(0, space)) {
    return 0;
  }
  if (space == std::string_view::npos) {
    return 1;
  }
  return words.size() > 1 && words[1] == name.substr(space + 1) ? 2 : 0;
}

Status UnknownVerb(const std::vector<Verb>& verbs, const std::vector<std::string>& words) {
  if (words.empty()) {
    return InvalidArgument("no verb given; see prism --help");
  }
  const std::string& first = words.front();
  if (first.starts_with('-')) {
    return InvalidArgument(fmt::format("unknown option {}; see prism --help", first));
  }
  std::vector<std::string> names = {"run"};
  std::vector<std::string> family;  // verbs of two words that begin with this one
  for (const Verb& verb : verbs) {
    names.emplace_back(verb.spec.name);
    if (names.back().starts_with(first + " ")) {
      family.push_back(names.back());
    }
  }
  if (!family.empty() && (words.size() < 2 || words[1].starts_with('-'))) {
    return InvalidArgument(
        fmt::format("'{}' needs a second word: {}", first, fmt::join(family, " or ")));
  }
  const std::string said = family.empty() ? first : fmt::format("{} {}", first, words[1]);
  const std::string near = NearestName(said, names);
  if (near.empty() && !family.empty()) {
    return InvalidArgument(
        fmt::format("unknown verb '{}'; choose {}", said, fmt::join(family, " or ")));
  }
  return InvalidArgument(fmt::format(
      "unknown verb '{}'; {}", said,
      near.empty() ? std::string("see prism --help") : fmt::format("did you mean '{}'?", near)));
}

// Beyond it no allocation succeeds, and the program ends (main).
Status LimitMemory(double gib) {
  constexpr double kGiB = 1 << 30;
  rlimit limit = {};
  if (gib == 0 || getrlimit(RLIMIT_DATA, &limit) != 0) {
    return OkStatus();
  }
  limit.rlim_cur = std::min(limit.rlim_max, static_cast<rlim_t>(gib * kGiB));
  return setrlimit(RLIMIT_DATA, &limit) == 0
             ? OkStatus()
             : EnvironmentLacks("--max-memory: the machine does not limit memory");
}

int RunVerb(const Verb& verb, const std::vector<std::string>& rest) {
  const std::string who = fmt::format("prism {}", verb.spec.name);
  const Result<VerbArguments> arguments = VerbArguments::Parse(verb.spec, rest);
  if (!arguments.ok()) {
    return Fail(who, arguments.status());
  }
  if (arguments->help()) {
    return Say(who, VerbHelp(verb.spec));
  }
  if (const Status limited = LimitMemory(arguments->max_memory()); !limited.ok()) {
    return Fail(who, limited);
  }
  const Result<VerbOutput> output = verb.run(*arguments);
  if (!output.ok()) {
    return Fail(who, output.status());
  }
  const int said = Say(who, output->text);
  return said != kExitOk || output->gate.ok() ? said : Fail(who, output->gate);
}

// The help of all verbs of two words that begin with `first`; "" if there are none.
std::string FamilyHelp(const std::vector<Verb>& verbs, const std::string& first) {
  std::string text;
  for (const Verb& verb : verbs) {
    if (std::string_view(verb.spec.name).starts_with(first + " ")) {
      text += text.empty() ? "" : "\n";
      text += VerbHelp(verb.spec);
    }
  }
  return text;
}

int Run(const std::vector<std::string>& words) {
  const std::vector<Verb> verbs = AllVerbs();
  if (!words.empty() && (words[0] == "--help" || words[0] == "-h")) {
    return Say("prism", HelpText(verbs));
  }
  if (!words.empty() && words[0] == "--version") {
    return Say("prism", VersionText("prism"));
  }
  if (!words.empty() && words[0] == "run") {
    return Fail("prism run", BecomeProgram("prism-emulate", {words.begin() + 1, words.end()}));
  }
  for (const Verb& verb : verbs) {
    if (const size_t taken = WordsOf(verb, words); taken > 0) {
      return RunVerb(verb, {words.begin() + static_cast<std::ptrdiff_t>(taken), words.end()});
    }
  }
  if (words.size() == 2 && (words[1] == "--help" || words[1] == "-h")) {
    if (const std::string help = FamilyHelp(verbs, words[0]); !help.empty()) {
      return Say("prism", help);
    }
  }
  return Fail("prism", UnknownVerb(verbs, words));
}

}  // namespace
}  // namespace prism::launch

int main(int argc, char** argv) {
  // On any thread: nothing half-written is renamed to its place.
  std::set_new_handler([] {
    constexpr std::string_view kText =
        "prism: not enough memory; name fewer or smaller files, or allow more (--max-memory, "
        "ulimit -v)\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kText.data(), kText.size());
    _exit(static_cast<int>(prism::StatusCode::kEnvironment));
  });
  return prism::launch::Run(std::vector<std::string>(argv + 1, argv + argc));
}
