// Which torch a Python interpreter would import, and where its libraries and headers are.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"

namespace prism::launch {

// What is not known, or not there, is "" or empty.
struct TorchInstall {
  std::string python;          // the interpreter's own path: sys.executable; "" of a C++ program
  std::string python_version;  // "3.11.7"
  std::string folder;          // .../site-packages/torch, or that of libtorch
  std::string version;         // "2.8.0+cu128"
  std::string cuda;            // "12.8"; "" of one without CUDA
  bool cxx11_abi = true;       // of its std::string; 2.6's wheels have the old one
  // Those that exist: its own, NVIDIA's packages beside it, the environment's, the CUDA toolkit's.
  std::vector<std::string> library_folders;
  std::vector<std::string> include_folders;

  [[nodiscard]] std::string minor() const;       // "2.8"
  [[nodiscard]] std::string cuda_major() const;  // "12"
};

// The oldest releases that programs may use.
inline constexpr int kOldestTorchMinor = 6;    // of torch 2
inline constexpr int kOldestPythonMinor = 10;  // of Python 3

// Asks an interpreter, given as the words before its own options ("env", "A=1", "python"), without
// importing torch. What was found may be of no use: CheckTorch. kEnvironment if the interpreter is
// not found, fails or takes more than a minute.
Result<TorchInstall> AskInterpreter(const std::vector<std::string>& interpreter);

// The same for a folder with a lib/ of libtorch, whose interpreter, if any, is known.
TorchInstall ReadTorchFolder(const std::string& folder, const std::string& prefix);

// kEnvironment, with what to install, for no torch, one without CUDA, one that is too old, and a
// Python that is too old.
Status CheckTorch(const TorchInstall& torch);

// Both.
Result<TorchInstall> FindTorch(const std::string& interpreter);

}  // namespace prism::launch
