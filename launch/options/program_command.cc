#include "launch/options/program_command.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include <fmt/format.h>

namespace prism::launch {
namespace {

std::string FileName(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

// What env is to start: "python" of "env NAME=VALUE python -u train.py". The end where nothing is.
size_t FirstWord(const std::vector<std::string>& program) {
  size_t first = 0;
  if (FileName(program[0]) == "env") {
    do {
      ++first;
    } while (first < program.size() && program[first].find('=') != std::string::npos);
  }
  return first;
}

// Where the program's own name is: the script or module of an interpreter, else the first word.
size_t NameWord(const std::vector<std::string>& program) {
  const size_t first = FirstWord(program);
  if (first == program.size() || !FileName(program[first]).starts_with("python")) {
    return first == program.size() ? 0 : first;
  }
  for (size_t i = first + 1; i < program.size(); ++i) {
    if (program[i] == "-m" && i + 1 < program.size()) {
      return i + 1;
    }
    if (!program[i].starts_with("-")) {
      return i;
    }
  }
  return first;
}

}  // namespace

std::string ProgramName(const std::vector<std::string>& program) {
  const size_t word = NameWord(program);
  if (word <= FirstWord(program)) {
    return FileName(program[word]);
  }
  return program[word - 1] == "-m" ? program[word]
                                   : std::filesystem::path(program[word]).stem().string();
}

Status RefuseLauncher(const std::vector<std::string>& program) {
  constexpr const char* kLaunchers[] = {"torchrun",
                                        "torch.distributed.run",
                                        "torch.distributed.launch",
                                        "accelerate",
                                        "accelerate.commands.launch",
                                        "deepspeed",
                                        "mpirun",
                                        "mpiexec",
                                        "srun"};
  const std::string name = FileName(program[NameWord(program)]);
  if (std::find(std::begin(kLaunchers), std::end(kLaunchers), name) == std::end(kLaunchers)) {
    return OkStatus();
  }
  return InvalidArgument(fmt::format(
      "{} starts ranks, and so does prism-emulate, with the environment that torchrun gives them: "
      "name what {} would start, as in -- python train.py",
      name, name));
}

}  // namespace prism::launch
