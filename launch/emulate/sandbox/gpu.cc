#include "launch/emulate/sandbox/gpu.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <cstdlib>
#include <memory>

#include <fmt/format.h>

namespace prism::launch {
namespace {

// cuda.h: CUresult is an int, a CUdevice an ordinal.
using Init = int (*)(unsigned int);
using ReadNumber = int (*)(int*);
using DeviceName = int (*)(char*, int, int);

constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};

}  // namespace

Result<Gpu> FindGpu(std::string_view option) {
  const char* const test_device = std::getenv("PRISM_TEST_DEVICE");
  const std::string driver = test_device != nullptr ? test_device : "libcuda.so.1";
  const std::string instead =
      fmt::format("; install NVIDIA's driver, or use {} virtual or auto", option);
  const std::unique_ptr<void, CloseLibrary> library(dlopen(driver.c_str(), RTLD_NOW | RTLD_LOCAL));
  void* const handle = library.get();
  const auto find = [handle](const char* name) {
    return handle == nullptr ? nullptr : dlsym(handle, name);
  };
  const auto init = reinterpret_cast<Init>(find("cuInit"));
  const auto count = reinterpret_cast<ReadNumber>(find("cuDeviceGetCount"));
  const auto name = reinterpret_cast<DeviceName>(find("cuDeviceGetName"));
  const int code = init == nullptr ? kNoDevice : init(0);
  if (code != 0 && code != kNoDevice) {
    return EnvironmentLacks(
        fmt::format("{} cuda: {} fails with error {}{}", option, driver, code, instead));
  }
  Gpu gpu;
  if (code != 0 || count == nullptr || count(&gpu.count) != 0 || gpu.count == 0) {
    return EnvironmentLacks(fmt::format("{} cuda: {} shows no GPU{}", option, driver, instead));
  }
  const auto version = reinterpret_cast<ReadNumber>(find("cuDriverGetVersion"));
  if (version == nullptr || version(&gpu.cuda_version) != 0) {
    gpu.cuda_version = 0;
  }
  gpu.is_test = test_device != nullptr;
  link_map* map = nullptr;
  gpu.driver = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : driver;
  std::array<char, 256> text = {};
  if (name != nullptr && name(text.data(), static_cast<int>(text.size()), 0) == 0) {
    gpu.name = text.data();
  }
  return gpu;
}

}  // namespace prism::launch
