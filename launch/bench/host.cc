// `prism bench host`: a recording whose host time is measured, by prism-emulate.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "graph/base/file.h"
#include "launch/bench/bench.h"
#include "launch/process/command_output.h"
#include "launch/process/install_paths.h"
#include "launch/process/program_torch.h"

namespace prism::launch {
namespace {

namespace fs = std::filesystem;

constexpr double kMostSeconds = 6 * 3600.0;
constexpr const char* kSteadyIterations = "20";  // that are measured, if the program runs them

// Each sort of op that a training step consists of, many times a step: element-wise and products
// with and without views before them, modules, backward, collectives, optimizers by lists.
constexpr const char* kBuiltIn = R"py(import os

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, s, 3, 8, h // 8).permute(2, 0, 3, 1, 4)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, h))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


model = torch.nn.Sequential(*[Block(256) for _ in range(12)]).cuda().bfloat16()
optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
x = torch.randn(2, 128, 256, device="cuda", dtype=torch.bfloat16)
bucket = torch.zeros(1 << 20, device="cuda")
for _ in range(40):
    a = x
    for _ in range(30):
        a = torch.relu(a * 2 + x)
        a = a.view(256, 256).t().reshape(2, 128, 256)
    for _ in range(4):
        dist.all_reduce(bucket)
    loss = model(a).float().pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
)py";

std::string ReasonOf(const CommandOutput& run) {
  return run.in_time ? LastLine(run.text) : "it did not end, or was interrupted";
}

// Into the folder, which exists.
Result<std::string> RecordHostTimes(const std::string& folder,
                                    int32_t ranks,
                                    std::vector<std::string> program) {
  if (program.empty()) {
    const std::string script = folder + "/host_ops.py";
    PRISM_RETURN_IF_ERROR(WriteFileAtomically(script, kBuiltIn));
    program = {DefaultPython(), script};
  }
  std::vector<std::string> command = {InstallRoot() + "/bin/prism-emulate",
                                      "--target-gpus",
                                      fmt::format("{}", ranks),
                                      "--host-time",
                                      "measured:1",
                                      "--iterations",
                                      kSteadyIterations,
                                      "--sandbox-ranks",
                                      "none",
                                      "--out",
                                      folder + "/run",
                                      "--"};
  command.insert(command.end(), program.begin(), program.end());
  const CommandOutput run = RunCommand(command, kMostSeconds);
  if (run.exit_code != 0 || !run.in_time) {
    const std::string message =
        fmt::format("{} cannot be measured: {}", program.back(), ReasonOf(run));
    return Status(run.exit_code == static_cast<int>(StatusCode::kEnvironment)
                      ? StatusCode::kEnvironment
                      : StatusCode::kRunFailed,
                  message);
  }
  return ReadFile(folder + "/run/host.toml");
}

}  // namespace

Result<std::string> BenchHost(int32_t ranks, const std::vector<std::string>& program) {
  std::string folder = (fs::temp_directory_path() / "prism-host-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    return EnvironmentLacks(fmt::format("cannot create the folder {}", folder));
  }
  Result<std::string> text = RecordHostTimes(folder, ranks, program);
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return text;
}

}  // namespace prism::launch
