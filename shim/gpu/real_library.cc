#include "shim/gpu/real_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string_view>

namespace prism::shim {
namespace {

const char* TestDevice() {
  static const char* const path = getenv("PRISM_TEST_DEVICE");
  return path;
}

// By prefix, longest first.
struct Library {
  const char* prefix;
  const char* soname;  // nullptr: the driver
};

constexpr Library kLibraries[] = {
    {"cupti", "libcupti.so.13"},       {"cublasLt", "libcublasLt.so.13"},
    {"cublas", "libcublas.so.13"},     {"cudnn", "libcudnn.so.9"},
    {"cuda", "libcudart.so.13"},       {"cufft", "libcufft.so.12"},
    {"cusolver", "libcusolver.so.12"}, {"cusparse", "libcusparse.so.12"},
    {"__cuda", "libcudart.so.13"},     {"cu", nullptr},
    {"prism_shim_", nullptr}};
constexpr size_t kLibraryCount = sizeof(kLibraries) / sizeof(kLibraries[0]);

void* Open(const Library& library) {
  if (TestDevice() != nullptr) {
    // Its own calls must not resolve to ours.
    return dlopen(TestDevice(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  }
  return dlopen(library.soname == nullptr ? RealDriver() : library.soname, RTLD_LAZY | RTLD_LOCAL);
}

}  // namespace

thread_local int WithinReal::depth_ = 0;

const char* RealDriver() {
  const char* const found = getenv("PRISM_DRIVER");
  return TestDevice() != nullptr ? TestDevice() : found != nullptr ? found : "libcuda.so.1";
}

void* LookForReal(const char* name) {
  static void* opened[kLibraryCount];
  for (size_t i = 0; i < kLibraryCount; ++i) {
    if (!std::string_view(name).starts_with(kLibraries[i].prefix)) {
      continue;
    }
    if (opened[i] == nullptr) {
      opened[i] = Open(kLibraries[i]);  // a second thread gets the same
    }
    return opened[i] == nullptr ? nullptr : dlsym(opened[i], name);
  }
  return nullptr;
}

void* FindReal(const char* name) {
  void* const found = LookForReal(name);
  if (found == nullptr) {
    const char* const reason = dlerror();
    fprintf(stderr, "prism shim: no %s below: %s\n", name,
            reason == nullptr ? "the library lacks it" : reason);
    syscall(SYS_exit_group, 1);
  }
  return found;
}

}  // namespace prism::shim

extern "C" __attribute__((visibility("hidden"))) void* prism_device_real(const char* name);

void* prism_device_real(const char* name) {
  return prism::shim::FindReal(name);
}
