#include "launch/inputs/launchers.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/check.h"
#include "graph/base/executable.h"
#include "launch/inputs/accelerate_launch.h"
#include "launch/inputs/host_file.h"
#include "launch/inputs/launcher_line.h"
#include "launch/inputs/launcher_tables.h"
#include "launch/inputs/option_table.h"
#include "launch/inputs/program_command.h"
#include "shim/channel/launcher_names.h"

namespace prism::launch {
namespace {

using Words = std::vector<std::string>;
using Variables = LaunchVariables;

Words Joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void Set(const std::string& name, const std::string& format, Launch* launch) {
  std::erase_if(launch->variables, [&](const auto& variable) { return variable.first == name; });
  launch->variables.emplace_back(name, format);
}

// "NAME=value": what is to be in the environment.
void SetGiven(const std::string& text, Launch* launch) {
  if (const size_t equals = text.find('='); equals != text.npos) {
    Set(text.substr(0, equals), AsFormat(text.substr(equals + 1)), launch);
  }
}

Status CheckModule(const LauncherLine& line, bool is_module) {
  return is_module && line.Has("no-python")
             ? line.Wrong("--module and --no-python exclude each other; leave one out")
             : OkStatus();
}

// Python with the program, or the program.
Status UsePython(const LauncherLine& line, bool is_module, Launch* launch) {
  PRISM_RETURN_IF_ERROR(CheckModule(line, is_module));
  if (!line.Has("no-python")) {
    launch->program = {launch->interpreter, "-u"};
    if (is_module) {
      launch->program.emplace_back("-m");
    }
  }
  launch->program = Joined(launch->program, line.program());
  return OkStatus();
}

// torchrun's options may be in the environment, too.
void AddTorchEnvironment(LauncherLine* line) {
  for (const char* name : {"nnodes", "nproc-per-node", "role", "rdzv-id", "max-restarts"}) {
    const std::string variable = "PET_" + OptionRow{.flag = name}.variable().substr(6);
    if (const char* text = std::getenv(variable.c_str())) {
      line->Add(name, text);
    }
  }
}

Status ReadTorchSize(LauncherLine* line, Launch* launch) {
  AddTorchEnvironment(line);
  launch->asks_for_ranks = line->Has("nnodes") || line->Has("nproc-per-node");
  const std::string nodes = line->Text("nnodes", "1");
  if (const size_t colon = nodes.find(':'); colon != nodes.npos) {
    const std::string text = nodes.substr(colon + 1);
    if (nodes.substr(0, colon) != text) {
      launch->notes.push_back(fmt::format("--nnodes {} is elastic: taken as {}", nodes, text));
    }
    LauncherLine highest;
    highest.Add("nnodes", text);
    PRISM_RETURN_IF_ERROR(highest.ReadCount("nnodes", &launch->nodes));
  } else {
    line->Add("nnodes", nodes);
    PRISM_RETURN_IF_ERROR(line->ReadCount("nnodes", &launch->nodes));
  }
  const std::string ranks = line->Text("nproc-per-node", "1");
  if (ranks == "gpu" || ranks == "auto") {
    launch->notes.push_back(
        fmt::format("--nproc-per-node {}: the GPUs of a node of the cluster", ranks));
    return OkStatus();
  }
  line->Add("nproc-per-node", ranks);
  return line->ReadCount("nproc-per-node", &launch->ranks_per_node);
}

Status ReadTorchrun(LauncherLine* line, Launch* launch) {
  PRISM_RETURN_IF_ERROR(ReadTorchSize(line, launch));
  launch->variables = kTorchVariables;
  Set("ROLE_NAME", AsFormat(line->Text("role", "default")), launch);
  Set("TORCHELASTIC_RUN_ID", AsFormat(line->Text("rdzv-id", "none")), launch);
  Set("TORCHELASTIC_MAX_RESTARTS", AsFormat(line->Text("max-restarts", "0")), launch);
  if (const char* handling = std::getenv("TORCH_NCCL_ASYNC_ERROR_HANDLING")) {
    Set("TORCH_NCCL_ASYNC_ERROR_HANDLING", AsFormat(handling), launch);
  }
  return UsePython(*line, line->Has("m"), launch);
}

// Puts an argument that is a format in front of the script's own.
void InsertLocalRank(const LauncherLine& line, const char* format, Launch* launch) {
  launch->local_rank_word = launch->program.size() - line.program().size() + 1;
  launch->program.insert(launch->program.begin() + static_cast<ptrdiff_t>(launch->local_rank_word),
                         format);
}

Status ReadTorchLaunch(LauncherLine* line, Launch* launch) {
  PRISM_RETURN_IF_ERROR(ReadTorchrun(line, launch));
  if (!line->Has("use-env")) {
    InsertLocalRank(*line, "--local-rank={local}", launch);
  }
  return OkStatus();
}

Status ReadDeepSpeed(LauncherLine* line, Launch* launch) {
  PRISM_RETURN_IF_ERROR(line->ReadCount("num-nodes", &launch->nodes));
  PRISM_RETURN_IF_ERROR(line->ReadCount("num-gpus", &launch->ranks_per_node));
  PRISM_RETURN_IF_ERROR(ReadHosts(*line, &launch->nodes, &launch->ranks_per_node));
  if (!launch->nodes) {
    launch->nodes = 1;
  }
  launch->variables = kDeepSpeedVariables;
  PRISM_RETURN_IF_ERROR(UsePython(*line, line->Has("module"), launch));
  if (!line->Has("no-local-rank")) {
    InsertLocalRank(*line, "--local_rank={local}", launch);
  }
  return OkStatus();
}

// `total` ranks on `nodes`, as far as given.
Status SetRanks(const LauncherLine& line,
                std::optional<int32_t> total,
                std::optional<int32_t> per_node,
                Launch* launch) {
  if (total && per_node && *total > *per_node && *total % *per_node != 0) {
    return line.Wrong(fmt::format("{} ranks do not fill nodes of {}", *total, *per_node));
  }
  launch->ranks = total;
  launch->ranks_per_node = per_node;
  if (total && launch->nodes && !per_node) {
    if (*total % *launch->nodes != 0) {
      return line.Wrong(
          fmt::format("{} ranks do not divide over {} nodes", *total, *launch->nodes));
    }
    launch->ranks_per_node = *total / *launch->nodes;
  }
  return OkStatus();
}

Status ReadSrun(LauncherLine* line, Launch* launch) {
  for (const auto& [name, variable] :
       {std::pair("n", "SLURM_NTASKS"), std::pair("N", "SLURM_NNODES"),
        std::pair("ntasks-per-node", "SLURM_NTASKS_PER_NODE")}) {
    if (const char* text = std::getenv(variable)) {
      line->Add(name, text);
    }
  }
  std::optional<int32_t> total;
  std::optional<int32_t> per_node;
  PRISM_RETURN_IF_ERROR(line->ReadCount("n", &total));
  PRISM_RETURN_IF_ERROR(line->ReadCount("N", &launch->nodes));
  PRISM_RETURN_IF_ERROR(line->ReadCount("ntasks-per-node", &per_node));
  if (launch->nodes && !total && !per_node) {
    per_node = 1;
  }
  launch->asks_for_ranks = total || launch->nodes;
  PRISM_RETURN_IF_ERROR(SetRanks(*line, total, per_node, launch));
  launch->variables = kSlurmVariables;
  std::istringstream exports(line->Text("export"));
  for (std::string entry; std::getline(exports, entry, ',');) {
    SetGiven(entry, launch);
  }
  launch->program = line->program();
  return OkStatus();
}

Status ReadMpirun(LauncherLine* line, Launch* launch) {
  std::optional<int32_t> total;
  constexpr std::string_view kPerNode = "ppr:";
  const std::string map = line->Text("map-by");
  if (map.starts_with(kPerNode) && map.find(":node") != map.npos) {
    line->Add("npernode", map.substr(kPerNode.size(), map.find(":node") - kPerNode.size()));
  }
  std::optional<int32_t> per_node;
  PRISM_RETURN_IF_ERROR(line->ReadCount("n", &total));
  PRISM_RETURN_IF_ERROR(line->ReadCount("npernode", &per_node));
  launch->asks_for_ranks = total.has_value();
  PRISM_RETURN_IF_ERROR(SetRanks(*line, total, per_node, launch));
  launch->variables = kOpenMpiVariables;
  for (const std::string& text : line->Texts("x")) {
    SetGiven(text, launch);
  }
  for (const char* option : {"genv", "env"}) {
    for (std::string text : line->Texts(option)) {
      text[text.find(' ')] = '=';
      SetGiven(text, launch);
    }
  }
  launch->program = line->program();
  return OkStatus();
}

Status ReadAccelerate(LauncherLine* line, Launch* launch) {
  PRISM_ASSIGN_OR_RETURN(const AccelerateLaunch read, ReadAccelerateLaunch(*line));
  launch->nodes = read.nodes;
  PRISM_RETURN_IF_ERROR(SetRanks(*line, read.ranks, std::nullopt, launch));
  launch->asks_for_ranks = read.ranks.has_value();
  launch->notes = read.notes;
  if (read.starts == AccelerateLaunch::Starts::kTorchrun) {
    launch->variables = kTorchVariables;
  } else if (read.starts == AccelerateLaunch::Starts::kDeepSpeed) {
    launch->variables = kDeepSpeedVariables;
  }
  for (const auto& [name, value] : read.variables) {
    Set(name, AsFormat(value), launch);
  }
  PRISM_RETURN_IF_ERROR(UsePython(*line, line->Has("m"), launch));
  return OkStatus();
}

struct Launcher {
  std::string_view names;  // with spaces around each
  const LauncherOptions* options;
  Status (*read)(LauncherLine* line, Launch* launch);
  bool starts_python = true;
};

const Launcher kLaunchers[] = {
    {" torchrun torch.distributed.run torch.distributed.elastic.launch ", &kTorchrun, ReadTorchrun},
    {" torch.distributed.launch ", &kTorchLaunch, ReadTorchLaunch},
    {" accelerate accelerate-launch accelerate.commands.launch ", &kAccelerate, ReadAccelerate},
    {" deepspeed deepspeed.launcher.runner ", &kDeepSpeed, ReadDeepSpeed},
    {" srun ", &kSrun, ReadSrun, false},
    {" mpirun mpiexec ", &kMpirun, ReadMpirun, false}};

// The interpreter in the first lines of a script: "#!/opt/env/bin/python", or, where that would be
// too long for the system, a line of shell that starts it.
std::string InterpreterIn(const std::string& path) {
  std::ifstream file(path);
  std::string first;
  std::string second;
  std::getline(file, first);
  std::getline(file, second);
  constexpr std::string_view kShellLine = "'''exec' ";
  if (first.starts_with("#!") && first.ends_with("sh") && second.starts_with(kShellLine)) {
    const std::string rest = second.substr(kShellLine.size());
    return rest.starts_with('"') ? rest.substr(1, rest.find('"', 1) - 1)
                                 : rest.substr(0, rest.find(' '));
  }
  std::istringstream words(first.starts_with("#!") ? first.substr(2) : "");
  std::string interpreter;
  words >> interpreter;
  if (channel::FileNameOf(interpreter) == "env") {
    words >> interpreter;
  }
  return channel::FileNameOf(interpreter).starts_with("python") ? interpreter : "";
}

// Python behind the launcher that is at `place` of the words.
Result<std::string> InterpreterOf(const Words& words, size_t first, size_t place) {
  if (place > first) {
    return words[first];
  }
  const std::string path = FindExecutable(words[first]);
  if (path.empty()) {
    return BadFile(fmt::format("{}: not found; activate the environment that it is installed in",
                               words[first]));
  }
  const std::string interpreter = InterpreterIn(path);
  return interpreter.empty()
             ? Result<std::string>(BadFile(fmt::format(
                   "{}: does not begin with the path of a Python; start it as -- python -m ...",
                   path)))
             : interpreter;
}

// How a launcher's process sees itself if it starts one process a node.
std::string NodeFormat(std::string format) {
  for (const auto& [name, other] :
       {std::pair("{rank}", "{node}"), std::pair("{world}", "{nodes}"), std::pair("{local}", "0"),
        std::pair("{local_world}", "1"), std::pair("{tasks}", "1")}) {
    for (size_t at = format.find(name); at != format.npos; at = format.find(name)) {
      format.replace(at, std::string_view(name).size(), other);
    }
  }
  return format;
}

// One launcher: `words` from `first` on, behind what env sets.
Result<Launch> ReadOne(const Words& words, size_t first, size_t place) {
  const std::string name(channel::FileNameOf(words[place]));
  const auto* const launcher = std::ranges::find_if(kLaunchers, [&](const Launcher& candidate) {
    return candidate.names.find(" " + name + " ") != std::string_view::npos;
  });
  PRISM_CHECK(launcher != std::end(kLaunchers));
  const size_t verb = name == "accelerate" ? 1 : 0;
  PRISM_ASSIGN_OR_RETURN(LauncherLine line,
                         LauncherLine::Split(*launcher->options, words, place + 1 + verb));
  Launch launch;
  launch.names = {launcher->options->name};
  launch.ignored = line.ignored();
  if (launcher->starts_python) {
    PRISM_ASSIGN_OR_RETURN(launch.interpreter, InterpreterOf(words, first, place));
  }
  if (std::ranges::find(line.program(), ":") != line.program().end()) {
    return line.Wrong("several programs, with ':' between them, cannot be emulated; name one");
  }
  PRISM_RETURN_IF_ERROR(launcher->read(&line, &launch));
  launch.program =
      Joined({words.begin(), words.begin() + static_cast<ptrdiff_t>(first)}, launch.program);
  launch.local_rank_word += launch.local_rank_word > 0 ? first : 0;
  return launch;
}

// What an inner launcher asks for, inside what an outer one does.
Launch Within(const Launch& outer, Launch inner) {
  const auto put_in_front = [](const auto& first, auto* rest) {
    rest->insert(rest->begin(), first.begin(), first.end());
  };
  put_in_front(outer.names, &inner.names);
  put_in_front(outer.ignored, &inner.ignored);
  put_in_front(outer.notes, &inner.notes);
  put_in_front(NodeVariables(outer), &inner.variables);
  if (!inner.asks_for_ranks && outer.asks_for_ranks && !outer.names.empty()) {
    inner.nodes = outer.nodes;
    inner.ranks = outer.ranks;
    inner.ranks_per_node = outer.ranks_per_node;
    inner.asks_for_ranks = true;
  }
  return inner;
}

std::vector<const char*> PointersFrom(const Words& words, size_t first) {
  std::vector<const char*> pointers;
  for (size_t i = first; i < words.size(); ++i) {
    pointers.push_back(words[i].c_str());
  }
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Result<Launch> ReadLaunch(const std::vector<std::string>& command) {
  Launch launch;
  launch.program = command;
  while (true) {
    const size_t first = FirstWordOf(launch.program);
    const int place = channel::LauncherPlace(PointersFrom(launch.program, first).data());
    if (place < 0) {
      return launch;
    }
    PRISM_ASSIGN_OR_RETURN(Launch inner,
                           ReadOne(launch.program, first, first + static_cast<size_t>(place)));
    inner.command = command;
    for (std::string& option : inner.ignored) {
      option = inner.names.front() + " " + option;
    }
    launch = Within(launch, std::move(inner));
  }
}

Launch ScriptLaunch(const Launch& outer, Launch inner) {
  inner = Within(outer, std::move(inner));
  inner.command = outer.command;
  inner.reached = std::exchange(inner.program, outer.program);
  inner.local_rank_word = 0;
  inner.variables = outer.variables;
  inner.in_script = true;
  return inner;
}

Variables NodeVariables(const Launch& launch) {
  Variables variables = launch.variables;
  for (auto& [name, format] : variables) {
    format = NodeFormat(format);
  }
  return variables;
}

std::string PlaceText(const LaunchPlace& place) {
  return fmt::format("{}:{}:{}:{}", place.rank, place.world, place.local_world, place.local);
}

LaunchPlace PlaceFrom(const std::string& text) {
  LaunchPlace place;
  std::istringstream numbers(text);
  char colon = 0;
  numbers >> place.rank >> colon >> place.world >> colon >> place.local_world >> colon >>
      place.local;
  return place;
}

std::string AsFormat(const std::string& text) {
  std::string format;
  for (const char c : text) {
    format.append(c == '{' || c == '}' ? 2 : 1, c);
  }
  return format;
}

namespace {

std::string Formatted(const std::string& format, const LaunchPlace& place) {
  const int64_t nodes = std::max<int64_t>(1, place.world / place.local_world);
  std::string gpus = "0";
  for (int64_t gpu = 1; gpu < place.local_world; ++gpu) {
    gpus += fmt::format(",{}", gpu);
  }
  return fmt::format(
      fmt::runtime(format), fmt::arg("rank", place.rank), fmt::arg("world", place.world),
      fmt::arg("local", place.local), fmt::arg("local_world", place.local_world),
      fmt::arg("node", place.rank / place.local_world), fmt::arg("nodes", nodes),
      fmt::arg("gpus", gpus),
      fmt::arg("tasks", nodes == 1 ? fmt::format("{}", place.local_world)
                                   : fmt::format("{}(x{})", place.local_world, nodes)),
      fmt::arg("hosts", nodes == 1 ? "node0" : fmt::format("node[0-{}]", nodes - 1)));
}

}  // namespace

Variables RankVariables(const Launch& launch, const LaunchPlace& place) {
  Variables variables = launch.variables;
  if (launch.names.empty()) {
    variables = kTorchVariables;
    variables.insert(variables.end(), kSlurmVariables.begin(),
                     kSlurmVariables.begin() + ptrdiff_t{kSlurmOfAll});
  }
  for (auto& [name, value] : variables) {
    value = Formatted(value, place);
  }
  return variables;
}

std::vector<std::string> RankProgram(const Launch& launch, const LaunchPlace& place) {
  std::vector<std::string> program = launch.program;
  if (launch.local_rank_word > 0) {
    std::string& word = program[launch.local_rank_word];
    word = Formatted(word, place);
  }
  return program;
}

}  // namespace prism::launch
