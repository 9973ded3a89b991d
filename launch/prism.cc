// prism: the verbs beside the main job. Dispatch, --help, --version and exit codes; what a verb
// does is in its verb_*.cc.
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launch/exit_codes.h"
#include "launch/process/mpi_session.h"
#include "launch/verbs/verb.h"
#include "launch/version.h"

namespace prism::launch {
namespace {

constexpr const char* kHelpTail =
    "\nprism VERB --help shows the options of one verb. The main job is prism-emulate.\n";

std::vector<Verb> AllVerbs() {
  return {ReplayVerb(), ReportVerb(), GraphShowVerb(), GraphValidateVerb(),
          DiffVerb(),   MemVerb(),    ImportVerb(),    ExportVerb(),
          FlightVerb(), SearchVerb(), PresetsVerb(),   BenchVerb()};
}

// Under mpirun all processes come to the same output; process 0 speaks for them. False where the
// text could not be written.
bool Print(std::FILE* file, const std::string& text) {
  if (MpiSession::LaunchedRank() != 0) {
    return true;
  }
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  return std::fflush(file) == 0 && written;
}

// mpirun ends all processes as soon as one has failed. One that process 0 speaks for stays until
// that has failed as well, or could have; mpirun ends it earlier.
constexpr std::chrono::seconds kStayFor(5);

// What the machine lacks may differ between processes: each says so itself.
int Fail(std::string_view who, const Status& status) {
  const std::string text = fmt::format("{}: {}\n", who, status.message());
  const bool of_machine =
      status.code() == StatusCode::kBadFile || status.code() == StatusCode::kEnvironment;
  if (of_machine && MpiSession::LaunchedRank() != 0) {
    fmt::print(stderr, "process {}: {}", MpiSession::LaunchedRank(), text);
  } else if (MpiSession::LaunchedRank() != 0) {
    std::this_thread::sleep_for(kStayFor);
  } else {
    Print(stderr, text);
  }
  return ExitCode(status);
}

std::string HelpText(const std::vector<Verb>& verbs) {
  std::string text =
      "prism: look at, replay, edit and compare what prism-emulate has written; search for plans.\n"
      "\n"
      "Usage: prism VERB [arguments] [options]\n"
      "\n"
      "Verbs:\n";
  for (const Verb& verb : verbs) {
    text += fmt::format("  {:<28}{}\n", fmt::format("{} {}", verb.spec.name, verb.spec.operands),
                        verb.spec.summary);
  }
  text += "  --help, --version\n";
  return text + kHelpTail + kExitCodesHelp;
}

// How many of the first words name `verb`: 0 when they do not.
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
  std::vector<std::string> names;
  std::vector<std::string> family;  // verbs of two words that begin with this one
  for (const Verb& verb : verbs) {
    names.emplace_back(verb.spec.name);
    if (names.back().starts_with(first + " ")) {
      family.push_back(names.back());
    }
  }
  if (!family.empty() && (words.size() < 2 || words[1].starts_with('-'))) {
    return InvalidArgument(
        fmt::format("'{}' alone is no verb; there are {}", first, fmt::join(family, " and ")));
  }
  const std::string said = family.empty() ? first : fmt::format("{} {}", first, words[1]);
  const std::string near = NearestName(said, names);
  return InvalidArgument(fmt::format(
      "unknown verb '{}'; {}", said,
      near.empty() ? std::string("see prism --help") : fmt::format("did you mean '{}'?", near)));
}

int RunVerb(const Verb& verb, const std::vector<std::string>& rest) {
  const std::string who = fmt::format("prism {}", verb.spec.name);
  const Result<VerbArguments> arguments = VerbArguments::Parse(verb.spec, rest);
  if (!arguments.ok()) {
    return Fail(who, arguments.status());
  }
  if (arguments->help()) {
    Print(stdout, VerbHelp(verb.spec));
    return kExitOk;
  }
  const Result<VerbOutput> output = verb.run(*arguments);
  if (!output.ok()) {
    return Fail(who, output.status());
  }
  if (!Print(stdout, output->text)) {
    return Fail(who, EnvironmentLacks(fmt::format("standard output cannot be written: {}",
                                                  std::strerror(errno))));
  }
  return output->gate.ok() ? kExitOk : Fail(who, output->gate);
}

int Run(const std::vector<std::string>& words) {
  const std::vector<Verb> verbs = AllVerbs();
  if (!words.empty() && (words[0] == "--help" || words[0] == "-h")) {
    Print(stdout, HelpText(verbs));
    return kExitOk;
  }
  if (!words.empty() && words[0] == "--version") {
    Print(stdout, fmt::format("prism {}\n", kVersion));
    return kExitOk;
  }
  for (const Verb& verb : verbs) {
    if (const size_t taken = WordsOf(verb, words); taken > 0) {
      return RunVerb(verb, {words.begin() + static_cast<std::ptrdiff_t>(taken), words.end()});
    }
  }
  return Fail("prism", UnknownVerb(verbs, words));
}

}  // namespace
}  // namespace prism::launch

int main(int argc, char** argv) {
  return prism::launch::Run(std::vector<std::string>(argv + 1, argv + argc));
}
