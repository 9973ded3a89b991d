// Brings libprism_observer.so into the process once libtorch is there. The observer is the only
// part of the shim that uses libtorch; programs without it never load it.
#pragma once

namespace prism::shim {

// Call where a program first uses the device, with no lock held. Does nothing when libtorch_cuda is
// not mapped yet (the next call checks again) or the observer is loaded. A missing or incompatible
// observer is counted ("observer_missing") and reported once on stderr.
void LoadObserver();

// A call of normal_ or uniform_: mean and deviation, or the bounds.
struct TorchFill {
  bool is_normal;
  void* tensor;  // at::Tensor
  double first;
  double second;
  void* generator;  // std::optional<at::Generator>
};

// The observer's prism_observer_fill: not 0 if it has filled the tensor (large_fills.cc); null
// while it is not loaded.
using LargeFill = int(const TorchFill* fill);
LargeFill* ObserversFill();

}  // namespace prism::shim
