// prism-workload: one rank of a Megatron-style training job on libtorch (program.h).
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "launch/trainer/program.h"

int main(int argc, char** argv) {
  // Under Prism's recording (shim/session.h) alike micro-batches need not all run.
  prism::launch::TrainingHooks hooks;
  hooks.rounds_to_skip =
      reinterpret_cast<int32_t (*)(int32_t)>(dlsym(RTLD_DEFAULT, "prism_shim_rounds_to_skip"));
  const int code =
      prism::launch::RunWorkload(std::vector<std::string>(argv + 1, argv + argc), hooks);
  // Skips libtorch's static destructors, which take 0.1 s and would free what the system frees
  // anyway.
  std::fflush(nullptr);
  _exit(code);
}
