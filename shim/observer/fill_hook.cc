// normal_ and uniform_ on the CPU or a GPU, which libtorch calls as exported functions, so that
// these preloaded ones are called instead. The observer, which knows tensors, fills large ones
// (large_fills.cc). A program may come here before its first call of CUDA.
#include <atomic>

#include "shim/observer/observer_loader.h"
#include "shim/observer/torch_symbol.h"
#include "shim/session.h"

namespace {

// at::Tensor&, double, double, std::optional<at::Generator>, which goes by reference.
using Fill = void*(void*, double, double, void*);

#define PRISM_NORMAL "_ZN2at6native7normal_ERNS_6TensorEddSt8optionalINS_9GeneratorEE"
#define PRISM_UNIFORM "_ZN2at6native8uniform_ERNS_6TensorEddSt8optionalINS_9GeneratorEE"

using prism::shim::TorchFill;

bool FillsLarge(const TorchFill& fill) {
  const auto mode = prism::shim::SessionMode();
  if (mode == prism::channel::Mode::kStandalone || mode == prism::channel::Mode::kDevice) {
    return false;
  }
  prism::shim::LoadObserver();
  auto* const observer = prism::shim::ObserversFill();
  return observer != nullptr && observer(&fill) != 0;
}

void* FillTensor(const TorchFill& fill, const char* name, std::atomic<void*>* found) {
  if (FillsLarge(fill)) {
    return fill.tensor;
  }
  void* const real = prism::shim::TorchSymbol("libtorch_cpu.so", name, nullptr, found);
  return reinterpret_cast<Fill*>(real)(fill.tensor, fill.first, fill.second, fill.generator);
}

}  // namespace

extern "C" {

void* PrismNormal(void* tensor, double mean, double deviation, void* generator)
    PRISM_REPLACES(PRISM_NORMAL);
void* PrismUniform(void* tensor, double from, double to, void* generator)
    PRISM_REPLACES(PRISM_UNIFORM);

void* PrismNormal(void* tensor, double mean, double deviation, void* generator) {
  static std::atomic<void*> found{nullptr};
  return FillTensor({true, tensor, mean, deviation, generator}, PRISM_NORMAL, &found);
}

void* PrismUniform(void* tensor, double from, double to, void* generator) {
  static std::atomic<void*> found{nullptr};
  return FillTensor({false, tensor, from, to, generator}, PRISM_UNIFORM, &found);
}
}
