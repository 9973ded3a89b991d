// What a launcher's command asks for: torchrun, python -m torch.distributed.run, accelerate launch,
// deepspeed, srun, mpirun. Such a command is read, not started: Prism starts the ranks, with the
// environment that the launcher would give them.
//
// What launchers take is in one table (launchers.cc); an option that is not in it is refused, since
// the words behind it could not be told apart.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/status.h"

namespace prism::launch {

// A rank as its launcher numbers it.
struct LaunchPlace {
  int64_t rank = 0;
  int64_t world = 1;
  int64_t local_world = 1;  // ranks of a node
  int64_t local = 0;        // its GPU
};

// "RANK:WORLD:LOCAL_WORLD:LOCAL", for the program that stands in for a launcher.
std::string PlaceText(const LaunchPlace& place);
LaunchPlace PlaceFrom(const std::string& text);

struct Launch {
  std::vector<std::string> names;    // from the outside in: "srun", "torchrun"; none: a program
  std::vector<std::string> command;  // as given; empty for a program
  std::vector<std::string> program;  // what each rank runs
  size_t local_rank_word = 0;        // the program's word that is a format; 0: none
  std::optional<int32_t> nodes;
  std::optional<int32_t> ranks_per_node;  // unset: the cluster's GPUs per node
  std::optional<int32_t> ranks;           // in total, if not by nodes
  bool asks_for_ranks = true;             // the numbers above are more than defaults
  std::vector<std::pair<std::string, std::string>> variables;  // values are formats of LaunchPlace
  std::vector<std::string> ignored;  // options of no meaning here: "--rdzv-id=7"
  std::vector<std::string> notes;    // how an option was taken
  std::string interpreter;           // Python that runs the program, as far as a launcher says
  std::vector<std::string> reached;  // what the launcher inside of a script starts
  bool in_script = false;            // the program is a script that starts its launcher

  bool operator==(const Launch&) const = default;
};

// kInvalidArgument for what cannot be read, kBadFile for a file that it names.
Result<Launch> ReadLaunch(const std::vector<std::string>& command);

// What the rank's environment is given: without a launcher that of torchrun, and Slurm's numbers.
std::vector<std::pair<std::string, std::string>> RankVariables(const Launch& launch,
                                                               const LaunchPlace& place);

std::vector<std::string> RankProgram(const Launch& launch, const LaunchPlace& place);

// Where a launcher starts a script that starts another launcher, it starts one process a node: the
// outer one's variables with the numbers of nodes.
std::vector<std::pair<std::string, std::string>> NodeVariables(const Launch& launch);

// A script that `outer` starts, with what the launcher inside of it asks for.
Launch ScriptLaunch(const Launch& outer, Launch inner);

// A text that is to appear in a format as it is.
std::string AsFormat(const std::string& text);

}  // namespace prism::launch
