#include "shim/virtual_device/library_versions.h"

#include <dlfcn.h>

#include <cublas_v2.h>
#include <cudnn_version.h>

#include "shim/channel/versions.h"

namespace prism::shim {
namespace {

int VersionOf(const char* name, int compiled_with) {
  const void* const found = dlsym(RTLD_DEFAULT, name);
  return found == nullptr ? compiled_with : *static_cast<const int*>(found);
}

}  // namespace

int CudaVersion() {
  static const int version = VersionOf("prism_version_of_libcudart", channel::kCudaVersion);
  return version;
}

int BlasVersion() {
  static const int version = VersionOf("prism_version_of_libcublas", CUBLAS_VERSION);
  return version;
}

int DnnVersion() {
  static const int version = VersionOf("prism_version_of_libcudnn", CUDNN_VERSION);
  return version;
}

int NcclVersion() {
  static const int version = VersionOf("prism_version_of_libnccl", channel::kNcclVersion);
  return version;
}

}  // namespace prism::shim
