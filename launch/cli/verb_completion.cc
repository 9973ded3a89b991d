// prism completion: scripts with which a shell completes the commands of prism and prism-emulate,
// made from the tables that read those commands.
//
// zsh runs the script of bash through its bashcompinit. Where neither names anything, bash and zsh
// complete files, as -o default says.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/json_writer.h"
#include "launch/cli/verb.h"

namespace prism::launch {
namespace {

// A command whose options differ from those of others: "prism-emulate", "prism graph show".
struct CompletedCommand {
  std::string name;
  std::string summary;
  std::vector<OptionRow> rows;
  std::vector<std::string> words;  // of its first operand
};

std::vector<CompletedCommand> CompletedCommands() {
  std::vector<CompletedCommand> commands = {{"prism-emulate", "", RowsOf(OptionTable()), {}},
                                            {"prism run", kRunSummary, RowsOf(OptionTable()), {}}};
  for (const Verb& verb : AllVerbs()) {
    commands.push_back({fmt::format("prism {}", verb.spec.name), verb.spec.summary,
                        RowsOf(verb.spec), verb.spec.words});
  }
  for (CompletedCommand& command : commands) {
    command.rows.push_back({.flag = "help"});
  }
  return commands;
}

// What may follow `words` of a command's name, each word once: "replay", "graph"; "show".
std::vector<std::string> NextWords(const std::string& words) {
  std::vector<std::string> next;
  for (const CompletedCommand& command : CompletedCommands()) {
    if (command.name.starts_with(words + " ")) {
      const std::string rest = command.name.substr(words.size() + 1);
      next.push_back(rest.substr(0, rest.find(' ')));
    }
  }
  next.erase(std::unique(next.begin(), next.end()), next.end());
  return next;
}

constexpr const char* kBashHead = R"(_prism() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options= words=
  [[ $current == = ]] && current=
  [[ $before == = ]] && before=${COMP_WORDS[COMP_CWORD-2]}
  local command=${COMP_WORDS[0]##*/}
  [[ $command == prism ]] && ((COMP_CWORD > 1)) && command+=" ${COMP_WORDS[1]}"
  [[ $command == "prism graph" ]] && ((COMP_CWORD > 2)) && command+=" ${COMP_WORDS[2]}"
  case "$command" in
)";

constexpr const char* kBashTail = R"(  esac
  [[ ${command##* } == "${before##*/}" ]] || words=
  [[ $current == -* ]] && words=$options
  case "$command $before" in
)";

std::string BashScript() {
  std::string commands;
  std::string values;
  for (const std::string words : {"prism", "prism graph"}) {
    commands +=
        fmt::format("    \"{}\") words=\"{}\" ;;\n", words, fmt::join(NextWords(words), " "));
  }
  for (const CompletedCommand& command : CompletedCommands()) {
    std::vector<std::string> options;
    for (const OptionRow& row : command.rows) {
      options.push_back(row.dashed());
      if (!row.alias.empty()) {
        options.push_back("--" + row.alias);
      }
      if (!row.words.empty()) {
        values += fmt::format("    \"{} {}\") words=\"{}\" ;;\n", command.name, row.dashed(),
                              fmt::join(row.words, " "));
      }
    }
    commands += fmt::format("    \"{}\")\n      options=\"{}\"\n      words=\"{}\" ;;\n",
                            command.name, fmt::join(options, " "), fmt::join(command.words, " "));
  }
  return kBashHead + commands + kBashTail + values +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "}\n"
         "complete -o default -F _prism prism prism-emulate\n";
}

// As fish reads a text in single quotes.
std::string FishText(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    quoted += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  }
  return quoted + "'";
}

constexpr const char* kFishHead = R"(function __prism_is
  set -l words (commandline -opc)
  set -e words[1]
  test "$words" = "$argv"
end
function __prism_in
  set -l words (commandline -opc)
  set -e words[1]
  string match -q -- "$argv *" "$words "
end
)";

std::string FishOption(const OptionRow& row) {
  std::string line = fmt::format(" -{} {}", row.flag.size() == 1 ? "s" : "l", row.flag);
  line += row.alias.empty() ? "" : " -l " + row.alias;
  if (!row.words.empty()) {
    line += fmt::format(" -{} -a '{}'", row.names_file() ? "rF" : "x", fmt::join(row.words, " "));
  } else if (!row.is_switch()) {
    line += " -r";
  }
  return row.help.empty() ? line : line + " -d " + FishText(row.help);
}

std::string FishScript() {
  std::string text = kFishHead;
  for (const std::string& word : NextWords("prism")) {
    if (const auto family = NextWords("prism " + word); !family.empty()) {
      text += fmt::format("complete -c prism -n __prism_is -f -a {} -d '{}'\n", word,
                          fmt::join(family, ", "));
    }
  }
  for (const CompletedCommand& command : CompletedCommands()) {
    const size_t space = command.name.find(' ');
    const std::string program = command.name.substr(0, space);
    std::string in;
    if (space != std::string::npos) {
      const std::string verb = command.name.substr(space + 1);
      const size_t last = command.name.rfind(' ');
      const std::string before = last == space ? "" : command.name.substr(space, last - space);
      in = fmt::format(" -n '__prism_in {}'", verb);
      text += fmt::format("complete -c prism -n '__prism_is{}' -f -a {} -d {}\n", before,
                          command.name.substr(last + 1), FishText(command.summary));
      if (!command.words.empty()) {
        text += fmt::format("complete -c prism -n '__prism_is {}' -a '{}'\n", verb,
                            fmt::join(command.words, " "));
      }
    }
    for (const OptionRow& row : command.rows) {
      text += fmt::format("complete -c {}{}{}\n", program, in, FishOption(row));
    }
  }
  return text;
}

Result<VerbOutput> RunCompletion(const VerbArguments& arguments) {
  const std::string& shell = arguments.operands().front();
  VerbOutput output;
  if (shell == "bash") {
    output.text = BashScript();
  } else if (shell == "zsh") {
    output.text = "autoload -U +X bashcompinit && bashcompinit\n" + BashScript();
  } else if (shell == "fish") {
    output.text = FishScript();
  } else {
    return InvalidArgument("SHELL: " + UnknownWord(shell, CompletionVerb().spec.words));
  }
  if (arguments.as_json()) {
    std::string text;
    JsonWriter(&text).BeginObject().Field("shell", shell).Field("script", output.text).EndObject();
    output.text = text + "\n";
  }
  return output;
}

}  // namespace

Verb CompletionVerb() {
  return {{"completion",
           "SHELL",
           "print a script that completes commands in a shell",
           "SHELL is bash, zsh or fish. In one's start-up file:\n"
           "  source <(prism completion bash)     ~/.bashrc\n"
           "  source <(prism completion zsh)      ~/.zshrc, after compinit\n"
           "  prism completion fish | source      ~/.config/fish/config.fish\n"
           "It completes verbs, options, their choices and presets, for prism and prism-emulate.\n",
           1,
           1,
           {},
           {"bash", "zsh", "fish"}},
          RunCompletion};
}

}  // namespace prism::launch
