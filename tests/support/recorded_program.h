// Runs an ordinary program on the virtual device as a worker would, and keeps what it issued.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "shim/channel/messages.h"

namespace prism::testing {

struct ProgramSpec {
  std::vector<std::string> arguments;  // path of the program first
  std::vector<std::pair<std::string, std::string>> environment;
  std::string library_dir;  // folder of libprism_shim.so
  channel::Config config;   // of the channel; mode kRecord
  bool keeps_ops = true;    // else only counters and peaks; for long programs
  bool shows_output =
      false;  // the program's output goes where this process's does, and is not kept
};

// A kernel, copy or other op on a stream, in words.
struct IssuedOp {
  channel::RecordKind kind = channel::RecordKind::kKernel;
  uint16_t stream = 0;
  bool launched_with_previous = false;
  std::string name;       // of a kernel or marker
  std::string framework;  // "aten::mm [16,64] float32, [64,32] float32"
  channel::Record record = {};
};

struct ProgramRun {
  int exit_code = -1;
  std::string output;  // standard output and error
  std::vector<IssuedOp> ops;
  std::map<std::string, int64_t> counters;
  std::vector<std::string> contexts;  // framework ops that were ever named, in order
  channel::AllocatorStatsBody peaks = {};
  int64_t device_peak_bytes = 0;
  std::string values;  // that it sent to absent ranks: a part of a value book

  // How many kernels have these texts in their name and framework op.
  [[nodiscard]] int CountKernels(const std::string& name, const std::string& framework = "") const;
  // The rest of the line of the output that begins with `key` and a space; empty without one.
  [[nodiscard]] std::string Said(const std::string& key) const;
};

// What a program without a worker sees (shim/standalone_config.h), but recording: one H100.
channel::Config H100Config();

ProgramRun RunRecorded(const ProgramSpec& spec);

}  // namespace prism::testing
