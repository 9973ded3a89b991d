// The built-in workload with planted behaviour, for tests that it is noticed:
//
//   planted_workload [--plant PLANT]... <arguments of prism-workload>
//
// extra-op:RANK                           an op that no other rank has, in every iteration
// extra-collective:RANK:ITERATION         a collective that the other members do not join
// sleep:STAGE:ITERATION:MICROBATCH:SECONDS  the host sleeps before a forward
//
// Iterations and micro-batches count from 0.
#include <time.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "launch/trainer/parallel_groups.h"
#include "launch/trainer/program.h"
#include "launch/trainer/schedule.h"

namespace prism::launch {
namespace {

struct Plant {
  std::string kind;
  std::vector<double> numbers;
};

Plant ParsePlant(const std::string& text) {
  std::istringstream stream(text);
  Plant plant;
  std::getline(stream, plant.kind, ':');
  for (std::string number; std::getline(stream, number, ':');) {
    plant.numbers.push_back(std::stod(number));
  }
  const size_t wanted = plant.kind == "extra-op"           ? 1
                        : plant.kind == "extra-collective" ? 2
                        : plant.kind == "sleep"            ? 4
                                                           : 0;
  if (wanted == 0 || plant.numbers.size() != wanted) {
    std::fprintf(stderr, "planted_workload: no such plant: %s\n", text.c_str());
    std::exit(2);
  }
  return plant;
}

void Sleep(double seconds) {
  timespec duration = {};
  duration.tv_sec = static_cast<time_t>(seconds);
  duration.tv_nsec = std::lround((seconds - std::floor(seconds)) * 1e9);
  nanosleep(&duration, nullptr);
}

void Act(const Plant& plant, const TrainingMoment& moment) {
  const auto is = [&](size_t index, int64_t value) {
    return std::llround(plant.numbers[index]) == value;
  };
  if (plant.kind == "sleep") {
    if (is(0, moment.config.pp_rank()) && is(1, moment.iteration) &&
        is(2, moment.pass.microbatch)) {
      Sleep(plant.numbers[3]);
    }
    return;
  }
  const bool begins = moment.pass.microbatch == 0 && moment.pass.chunk == 0;
  if (!begins || !is(0, moment.config.rank.value())) {
    return;
  }
  const at::TensorOptions options = at::TensorOptions().device(at::kCUDA).dtype(at::kFloat);
  if (plant.kind == "extra-op") {
    at::ones({16}, options).mul_(2);
  } else if (is(1, moment.iteration)) {
    AllReduce(moment.groups.tp, at::empty({16}, options));  // no kernel before it
  }
}

}  // namespace
}  // namespace prism::launch

int main(int argc, char** argv) {
  using prism::launch::Plant;
  std::vector<Plant> plants;
  std::vector<std::string> args(argv + 1, argv + argc);
  while (args.size() >= 2 && args[0] == "--plant") {
    plants.push_back(prism::launch::ParsePlant(args[1]));
    args.erase(args.begin(), args.begin() + 2);
  }
  prism::launch::TrainingHooks hooks;
  hooks.before_forward = [&plants](const prism::launch::TrainingMoment& moment) {
    for (const Plant& plant : plants) {
      prism::launch::Act(plant, moment);
    }
  };
  const int code = prism::launch::RunWorkload(args, hooks);
  std::fflush(nullptr);
  _exit(code);
}
