// prism-workload: one rank of a Megatron-style training job on libtorch (program.h).
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "launch/trainer/program.h"

int main(int argc, char** argv) {
  const int code = prism::launch::RunWorkload(std::vector<std::string>(argv + 1, argv + argc), {});
  // Skips libtorch's static destructors, which take 0.1 s and would free what the system frees
  // anyway.
  std::fflush(nullptr);
  _exit(code);
}
