// Our libraries that need libtorch: opened once a program turns out to use libtorch.
#pragma once

namespace prism::shim {

// The folder of the libraries for the program's torch, and that torch's own.
inline constexpr const char* kTorchLibrariesVariable = "PRISM_TORCH_LIBRARIES";
inline constexpr const char* kTorchVariable = "PRISM_TORCH";

// dlopen, with local symbols, of `name` among those libraries. nullptr, with the reason on stderr
// behind `loss`, when it cannot be opened or the process has another torch than they are for.
void* OpenForTorch(const char* name, const char* loss);

}  // namespace prism::shim
