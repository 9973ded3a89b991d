#include "tests/support/recorded_program.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <span>
#include <sstream>

#include "shim/channel/channel.h"
#include "shim/channel/value_book.h"
#include "shim/standalone_config.h"
#include "slicer/record/definitions.h"
#include "tests/support/channel_drain.h"
#include "tests/support/preload.h"

namespace prism::testing {
namespace {

using channel::Record;
using channel::RecordKind;
using channel::Table;

pid_t Start(const ProgramSpec& spec, int channel_descriptor, int output) {
  std::vector<char*> arguments;
  for (const std::string& argument : spec.arguments) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  const std::string preload = testing::PreloadOf(spec.library_dir);
  const std::string libraries = spec.library_dir + "/prism";
  const std::string descriptor = std::to_string(channel_descriptor);
  const pid_t process = fork();
  if (process == 0) {
    if (!spec.shows_output) {
      dup2(output, STDOUT_FILENO);
      dup2(output, STDERR_FILENO);
    }
    setenv("LD_PRELOAD", preload.c_str(), 1);
    setenv("LD_LIBRARY_PATH", libraries.c_str(), 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    setenv("PRISM_CHANNEL_FD", descriptor.c_str(), 1);
    for (const auto& [name, value] : spec.environment) {
      setenv(name.c_str(), value.c_str(), 1);
    }
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  return process;
}

class Keeper {
 public:
  Keeper(ProgramRun* run, const ProgramSpec& spec)
      : run_(run), rank_(spec.config.rank), keeps_ops_(spec.keeps_ops) {}

  void Take(const Record& record, std::span<const std::byte> payload) {
    switch (record.kind) {
      case RecordKind::kDefine:
        if (!definitions_.Add(record.define, payload).ok()) {
          run_->output += "a definition that cannot be read\n";
        }
        if (record.define.table == Table::kContext) {
          run_->contexts.push_back(ContextOf(record.define.id));
        }
        return;
      case RecordKind::kCounter:
        run_->counters[NameOf(Table::kCounterName, record.counter.name)] = record.counter.count;
        return;
      case RecordKind::kAllocatorStats:
        run_->peaks = record.stats;
        return;
      case RecordKind::kValue:
        KeepValue(record.value, payload);
        return;
      case RecordKind::kSegmentAlloc:
        run_->device_peak_bytes =
            std::max(run_->device_peak_bytes, record.segment.device_used_bytes);
        break;
      case RecordKind::kBlockAlloc:
      case RecordKind::kBlockFree:
        return;
      default:
        break;
    }
    if (keeps_ops_) {
      Keep(record);
    }
  }

 private:
  std::string NameOf(Table table, uint32_t id) const {
    const Result<std::string> name = definitions_.Name(table, id);
    return name.ok() ? *name : "?";
  }

  std::string ContextOf(uint32_t id) const {
    const Result<slicer::FrameworkContext> context = definitions_.Context(id);
    return !context.ok() || context->op.empty() ? "" : slicer::DescribeContext(*context);
  }

  // The iteration is not known: all count as the steady one.
  void KeepValue(channel::ValueHead head, std::span<const std::byte> value) {
    head.producer = rank_;
    head.iteration = 0;
    channel::AppendValue(head, value, &run_->values);
  }

  void Keep(const Record& record) {
    IssuedOp op;
    op.kind = record.kind;
    op.stream = record.stream;
    op.record = record;
    op.launched_with_previous = (record.flags & channel::kLaunchedWithPrevious) != 0;
    if (record.kind == RecordKind::kKernel) {
      op.name = NameOf(Table::kKernelName, record.kernel.name);
    } else if (record.kind == RecordKind::kMatmul) {
      op.name = NameOf(Table::kKernelName, record.matmul.name);
    } else if (record.kind == RecordKind::kMarker) {
      op.name = NameOf(Table::kMarkerName, record.marker.name);
    }
    op.framework = ContextOf(record.context);
    run_->ops.push_back(std::move(op));
  }

  ProgramRun* run_;
  int32_t rank_;
  bool keeps_ops_;
  slicer::Definitions definitions_;
};

std::string ReadAll(int descriptor) {
  std::string text;
  std::array<char, 4096> buffer{};
  lseek(descriptor, 0, SEEK_SET);
  for (ssize_t got = 0; (got = read(descriptor, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  return text;
}

}  // namespace

int ProgramRun::CountKernels(const std::string& name, const std::string& framework) const {
  return static_cast<int>(std::ranges::count_if(ops, [&](const IssuedOp& op) {
    return (op.kind == RecordKind::kKernel || op.kind == RecordKind::kMatmul) &&
           op.name.find(name) != std::string::npos &&
           op.framework.find(framework) != std::string::npos;
  }));
}

std::string ProgramRun::Said(const std::string& key) const {
  std::istringstream stream(output);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with(key + " ")) {
      return line.substr(key.size() + 1);
    }
  }
  return "";
}

channel::Config H100Config() {
  channel::Config config = shim::StandaloneConfig();
  config.mode = channel::Mode::kRecord;
  return config;
}

ProgramRun RunRecorded(const ProgramSpec& spec) {
  ProgramRun run;
  channel::Consumer consumer(spec.config);
  const int output = memfd_create("program-output", 0);
  if (!consumer.valid() || output < 0) {
    return run;
  }
  const pid_t process = Start(spec, consumer.descriptor(), output);
  Keeper keeper(&run, spec);
  DrainChannel(&consumer, process, [&](const Record& record, std::span<const std::byte> payload) {
    keeper.Take(record, payload);
  });
  int status = 0;
  waitpid(process, &status, 0);
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  run.output += ReadAll(output);
  close(output);
  return run;
}

}  // namespace prism::testing
