#include "launch/inputs/program_command.h"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "graph/base/executable.h"
#include "graph/base/file.h"
#include "shim/channel/launcher_names.h"

namespace prism::launch {
namespace {

std::string FileName(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

// The options of a command (env, python) that come before the program that it starts.
struct WordOptions {
  std::string_view letters;                  // without a value; several may be in one word: "-uB"
  std::string_view valued;                   // whose value is the rest of the word, or the next one
  std::string_view ending;                   // after which the next word is what is started
  std::vector<std::string_view> names;       // "--name"
  std::vector<std::string_view> with_value;  // "--name=value", or the value is the next word
};

// GNU env, except "-i" and "-S" (CheckProgram).
const WordOptions& EnvOptions() {
  static const WordOptions options = {
      .letters = "v0",
      .valued = "uC",
      .ending = "",
      .names = {"--debug", "--null", "--block-signal", "--default-signal", "--ignore-signal"},
      .with_value = {"--unset", "--chdir"}};
  return options;
}

const WordOptions& PythonOptions() {
  static const WordOptions options = {.letters = "bBdEiIOPqRsStuvVx",
                                      .valued = "WX",
                                      .ending = "cm",
                                      .names = {},
                                      .with_value = {"--check-hash-based-pycs"}};
  return options;
}

// Where options end.
struct OptionsEnd {
  size_t word = 0;       // after them
  bool unknown = false;  // the word is an unknown option
  char last = 0;         // the letter that ended them, as Python's "-m" does
};

bool Contains(std::string_view letters, char letter) {
  return letters.find(letter) != letters.npos;
}

// For a word of single letters: how many words it takes, 0 for an unknown letter.
size_t LettersTake(std::string_view word, const WordOptions& options, char* last) {
  for (size_t i = 1; i < word.size(); ++i) {
    const char letter = word[i];
    if (Contains(options.valued, letter)) {
      return i + 1 < word.size() ? 1 : 2;
    }
    if (Contains(options.ending, letter)) {
      *last = letter;
      return i + 1 < word.size() ? 0 : 1;
    }
    if (!Contains(options.letters, letter)) {
      return 0;
    }
  }
  return 1;
}

size_t NameTakes(std::string_view word, const WordOptions& options) {
  const std::string_view name = word.substr(0, word.find('='));
  if (std::ranges::find(options.names, name) != options.names.end()) {
    return 1;
  }
  const bool known = std::ranges::find(options.with_value, name) != options.with_value.end();
  return known ? (name.size() < word.size() ? 1 : 2) : 0;
}

OptionsEnd SkipOptions(const std::vector<std::string>& program,
                       size_t begin,
                       const WordOptions& options) {
  OptionsEnd end = {.word = begin};
  while (end.word < program.size() && program[end.word].starts_with("-") &&
         program[end.word] != "-" && end.last == 0) {
    const std::string& word = program[end.word];
    if (word == "--") {
      ++end.word;
      break;
    }
    const size_t words =
        word.starts_with("--") ? NameTakes(word, options) : LettersTake(word, options, &end.last);
    if (words == 0) {
      end.unknown = true;
      break;
    }
    end.word += words;
  }
  end.word = std::min(end.word, program.size());
  return end;
}

// What env is to start: "python" in "env -u A NAME=VALUE python -u train.py". The end if there is
// nothing.
OptionsEnd FirstWord(const std::vector<std::string>& program) {
  if (FileName(program[0]) != "env") {
    return {};
  }
  OptionsEnd first = SkipOptions(program, 1, EnvOptions());
  while (!first.unknown && first.word < program.size() &&
         program[first.word].find('=') != std::string::npos) {
    ++first.word;
  }
  return first;
}

// Where the program's own name is: the script or module of an interpreter, else the first word.
OptionsEnd NameWord(const std::vector<std::string>& program) {
  const OptionsEnd first = FirstWord(program);
  if (first.unknown || first.word == program.size()) {
    return first;
  }
  if (!FileName(program[first.word]).starts_with("python")) {
    return first;
  }
  OptionsEnd name = SkipOptions(program, first.word + 1, PythonOptions());
  if (name.word == program.size() || name.last == 'c') {
    name.word = first.word;  // the interpreter itself, or code in the command line
  }
  return name;
}

bool TakesEnvironmentAway(const std::string& word) {
  return word == "-" || word == "--ignore-environment" ||
         (word.starts_with("-") && !word.starts_with("--") && word.find('i') != word.npos &&
          word.find_first_of("uCS") == word.npos);
}

// Whether env starts the program in another folder.
bool ChangesFolder(const std::vector<std::string>& program, size_t first_word) {
  return std::any_of(
      program.begin(), program.begin() + static_cast<ptrdiff_t>(first_word),
      [](const std::string& word) {
        return word.starts_with("--chdir") ||
               (word.starts_with("-") && !word.starts_with("--") && word.find('C') != word.npos);
      });
}

constexpr std::string_view kShells[] = {"sh", "bash", "dash", "zsh", "ksh"};

constexpr size_t kMostScriptBytes = size_t{1} << 20U;

// Whether a launcher's name is a word of the text, in quotes or not: not --deepspeed.
bool NamesLauncher(const std::string& text) {
  std::istringstream stream(text);
  std::string before;
  for (std::string word; stream >> word; before = word) {
    word = FileName(word.substr(word.find_last_of("\"'`(=;|&") + 1));
    const bool is_program =
        word != "accelerate" && channel::IsOneOf(word, channel::kLauncherPrograms);
    if (is_program || (before.ends_with("accelerate") && word == "launch") ||
        (before.ends_with("m") && channel::IsOneOf(word, channel::kLauncherModules))) {
      return true;
    }
  }
  return false;
}

// Whether `timeout 60 ...` or `uv run ...` starts a launcher, or a script that may.
bool StarterMayStart(const std::vector<std::string>& words) {
  std::vector<const char*> pointers;
  for (const std::string& word : words) {
    pointers.push_back(word.c_str());
  }
  pointers.push_back(nullptr);
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string name = FileName(words[i]);
    if (channel::LauncherPlace(pointers.data() + i) >= 0) {
      return true;
    }
    if (name.starts_with("python")) {
      return false;
    }
    if (channel::IsOneOf(name, kShells) || name.ends_with(".sh")) {
      return MayStartLauncher({words.begin() + static_cast<ptrdiff_t>(i), words.end()});
    }
  }
  return false;
}

}  // namespace

std::string ProgramScript(const std::vector<std::string>& program) {
  const size_t first = FirstWord(program).word;
  if (first + 1 < program.size() && channel::IsOneOf(FileName(program[first]), kShells) &&
      !program[first + 1].starts_with("-")) {
    return ChangesFolder(program, first) ? "" : program[first + 1];
  }
  const OptionsEnd name = NameWord(program);
  const bool is_script = name.word > first && name.word < program.size() && name.last == 0 &&
                         !name.unknown && program[name.word].ends_with(".py");
  return is_script && !ChangesFolder(program, first) ? program[name.word] : "";
}

std::string ProgramName(const std::vector<std::string>& program) {
  const OptionsEnd name = NameWord(program);
  const std::string& word = program[name.word < program.size() ? name.word : 0];
  if (name.last == 'm') {
    return FileName(word);
  }
  const bool is_script = name.word > FirstWord(program).word;
  return is_script ? std::filesystem::path(word).stem().string() : FileName(word);
}

Status CheckProgram(const std::vector<std::string>& program) {
  if (FileName(program[0]) == "env" && program.size() > 1 && TakesEnvironmentAway(program[1])) {
    return InvalidArgument(
        fmt::format("env {} removes the environment that makes the program a rank (RANK, "
                    "WORLD_SIZE, LD_PRELOAD); leave it out, or unset single variables with -u",
                    program[1]));
  }
  const OptionsEnd end = NameWord(program);
  if (end.unknown) {
    return InvalidArgument(
        fmt::format("prism-emulate does not know the option {} in front of the program, so it "
                    "cannot tell what is started; leave it out, or put the command into a script",
                    program[end.word]));
  }
  return OkStatus();
}

size_t FirstWordOf(const std::vector<std::string>& program) {
  return program.empty() ? 0 : FirstWord(program).word;
}

bool MayStartLauncher(const std::vector<std::string>& program) {
  const size_t first = FirstWordOf(program);
  if (first >= program.size()) {
    return false;
  }
  const std::string name = FileName(program[first]);
  const std::vector<std::string> words(program.begin() + static_cast<ptrdiff_t>(first) + 1,
                                       program.end());
  if (StartsAnother(name)) {
    return StarterMayStart(words);
  }
  if (channel::IsOneOf(name, kShells)) {
    const auto is_script = [](const std::string& word) { return !word.starts_with("-"); };
    const auto script = std::ranges::find_if(words, is_script);
    return script != words.end() &&
           (NamesLauncher(*script) || NamesLauncher(ReadBeginning(*script, kMostScriptBytes)));
  }
  const std::string text = ReadBeginning(FindExecutable(program[first]), kMostScriptBytes);
  const std::string head = text.substr(0, text.find('\n'));
  return head.starts_with("#!") && head.find("sh") != head.npos &&
         head.find("python") == head.npos && NamesLauncher(text);
}

}  // namespace prism::launch
