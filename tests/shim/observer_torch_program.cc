// A small training program of libtorch with a process group of four of eight ranks, started by
// observer_test under the preload as global rank 1. Prints how long each iteration took on its own
// clock, in nanoseconds.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <c10/cuda/CUDAFunctions.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

namespace {

c10::intrusive_ptr<c10d::ProcessGroupNCCL> MakeGroup() {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->group_name = "dp";
  options->group_desc = "dp";
  options->global_ranks_in_group = {1, 3, 5, 7};
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(c10::make_intrusive<c10d::HashStore>(), 0, 4,
                                                     options);
}

at::Tensor MakeWeight(const at::TensorOptions& options) {
  RECORD_USER_SCOPE("parameters");
  at::Tensor weight = at::zeros({64, 32}, options);
  weight.set_requires_grad(true);
  return weight;
}

void RunIteration(const at::Tensor& weight, c10d::ProcessGroupNCCL* group) {
  RECORD_USER_SCOPE("iteration");
  at::Tensor loss;
  {
    RECORD_USER_SCOPE("forward");
    const at::Tensor input = at::zeros({16, 64}, weight.options().requires_grad(false));
    loss = input.mm(weight).sum();
  }
  {
    RECORD_USER_SCOPE("backward");
    loss.backward();
  }
  std::vector<at::Tensor> gradients = {weight.grad()};
  group->allreduce(gradients)->wait();
  {
    RECORD_USER_SCOPE("optimizer");
    weight.detach().sub_(weight.grad());
    weight.grad().zero_();
  }
  usleep(5000);
  c10::cuda::device_synchronize();
}

}  // namespace

int main() {
  const at::TensorOptions options = at::device(at::kCUDA).dtype(at::kBFloat16);
  const c10::intrusive_ptr<c10d::ProcessGroupNCCL> group = MakeGroup();
  const at::Tensor weight = MakeWeight(options);
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    RunIteration(weight, group.get());
    const std::chrono::nanoseconds elapsed = std::chrono::steady_clock::now() - start;
    std::printf("%lld\n", static_cast<long long>(elapsed.count()));
  }
  group->shutdown();
  return 0;
}
