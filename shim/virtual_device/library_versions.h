// The versions of the libraries that the program was made for. Its stand-ins carry them
// (launch/process/facades.h); a program without stand-ins gets those that the shim is compiled
// with.
#pragma once

namespace prism::shim {

int CudaVersion();  // of CUDA, as CUDART_VERSION
int BlasVersion();  // as CUBLAS_VERSION
int DnnVersion();   // as CUDNN_VERSION
int NcclVersion();  // as NCCL_VERSION_CODE

// The major, minor or patch number (0 to 2) of such a version of cuBLAS or cuDNN.
inline int VersionPart(int version, int part) {
  return part == 0 ? version / 10'000 : part == 1 ? version / 100 % 100 : version % 100;
}

// CUDA 12's forms of structures and calls differ (older_calls.cc).
inline bool IsCuda12() {
  return CudaVersion() / 1000 == 12;
}

}  // namespace prism::shim
