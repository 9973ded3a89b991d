// A small libtorch program for device_torch_test: what it prints is compared there. It knows
// nothing of the shim. With RUN_LAYERS in its environment it runs more layers, for
// device_forward_test.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/torch.h>

namespace {

void ShowProperties() {
  const cudaDeviceProp* const properties = at::cuda::getCurrentDeviceProperties();
  std::printf("device %s sm %d capability %d.%d count %d\n", properties->name,
              properties->multiProcessorCount, properties->major, properties->minor,
              static_cast<int>(torch::cuda::device_count()));
}

void ShowCopies() {
  const auto values = torch::arange(6, torch::kFloat32).to(torch::kCUDA);
  const auto copy = values.clone();
  const auto part = copy.slice(0, 2, 4).to(torch::kCPU);
  std::printf("copy %g %g item %g zero %g\n", part[0].item<double>(), part[1].item<double>(),
              values[5].item<double>(), torch::zeros({8}, torch::kCUDA)[3].item<double>());
}

void ShowTraining() {
  torch::nn::Linear layer(64, 32);
  layer->to(torch::kCUDA);
  torch::optim::Adam optimizer(layer->parameters(), 1e-3);
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    const auto input = torch::randn({16, 64}, torch::kCUDA);
    const auto loss = torch::gelu(layer->forward(input)).pow(2).mean();
    loss.backward();
    optimizer.step();
  }
  torch::cuda::synchronize();
  std::printf("trained gradient %d\n", layer->weight.grad().defined() ? 1 : 0);
}

void ShowEvents() {
  at::cuda::CUDAEvent start(cudaEventDefault);
  at::cuda::CUDAEvent end(cudaEventDefault);
  const auto stream = at::cuda::getStreamFromPool();
  start.record(stream);
  end.record(stream);
  end.block(at::cuda::getCurrentCUDAStream());
  end.synchronize();
  std::printf("events ready %d elapsed %g\n", end.query() ? 1 : 0,
              static_cast<double>(start.elapsed_time(end)));
}

void ShowOutOfMemory() {
  try {
    torch::empty({int64_t{90} << 30}, torch::dtype(torch::kUInt8).device(torch::kCUDA));
  } catch (const c10::OutOfMemoryError& error) {
    const std::string text = error.what_without_backtrace();
    std::printf("error %s\n", text.substr(0, text.find(". GPU")).c_str());
  }
}

// A name that this version of the library lacks and extensions link against.
void ShowLaterNames() {
  const void* const name = dlsym(RTLD_DEFAULT, "cublasLtGroupedMatrixLayoutInit_internal");
  std::printf("later name %d\n", name != nullptr ? 1 : 0);
}

// Library calls that are one op each.
void RunLayers() {
  const auto image =
      torch::randn({2, 4, 8, 8}, torch::kCUDA).contiguous(at::MemoryFormat::ChannelsLast);
  torch::nn::BatchNorm2d norm(4);
  torch::nn::LSTM recurrent(8, 16);
  norm->to(torch::kCUDA);
  recurrent->to(torch::kCUDA);
  const auto sequence = norm->forward(image).contiguous().view({8, 8, 8});
  std::get<0>(recurrent->forward(sequence)).sum().backward();
  torch::fft_rfft(sequence);
  torch::linalg_qr(sequence[0]);
  torch::cuda::synchronize();
}

}  // namespace

int main() {
  ShowProperties();
  ShowCopies();
  ShowTraining();
  ShowEvents();
  ShowOutOfMemory();
  ShowLaterNames();
  if (std::getenv("RUN_LAYERS") != nullptr) {
    RunLayers();
  }
  return 0;
}
