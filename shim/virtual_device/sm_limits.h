// How many threads and blocks a multiprocessor holds at a time, by compute capability: the CUDA C++
// programming guide, "Technical specifications per compute capability". CUDA 13's ptxas takes
// .minnctapersm up to the same blocks, and up to the same threads with .maxntid.
#pragma once

namespace prism::shim {

struct SmLimits {
  int threads;
  int blocks;
  bool known = true;  // false: of a capability that the table lacks, taken as its generation's
};

constexpr SmLimits SmLimitsOf(int major, int minor) {
  constexpr struct {
    int major;
    int minor;
    SmLimits limits;
  } kTable[] = {
      {7, 0, {2048, 32}},  {7, 5, {1024, 16}},  {8, 0, {2048, 32}},  {8, 6, {1536, 16}},
      {8, 7, {1536, 16}},  {8, 8, {1536, 16}},  {8, 9, {1536, 24}},  {9, 0, {2048, 32}},
      {10, 0, {2048, 32}}, {10, 3, {2048, 32}}, {11, 0, {1536, 24}}, {12, 0, {1536, 24}},
      {12, 1, {1536, 24}},
  };
  for (const auto& entry : kTable) {
    if (entry.major == major && entry.minor == minor) {
      return entry.limits;
    }
  }
  return minor == 0 ? SmLimits{2048, 32, false} : SmLimits{1536, 24, false};
}

}  // namespace prism::shim
