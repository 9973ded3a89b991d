// Which definition of a function of libtorch the shim calls, where a lookup finds its own as well.
#include "shim/observer/torch_symbol.h"

#include <atomic>
#include <cstdlib>

#include <gtest/gtest.h>

extern "C" __attribute__((visibility("default"))) void prism_test_replacement() {
}

namespace prism::shim {
namespace {

constexpr const char* kOwn = "prism_test_replacement";
constexpr const char* kForeign = "gnu_get_libc_version";
constexpr const char* kEverything = nullptr;  // this program and all that it depends on

TEST(TorchSymbol, own_definition_is_passed_over) {
  void* const foreign = dlsym(RTLD_DEFAULT, kForeign);
  ASSERT_NE(dlsym(RTLD_DEFAULT, kOwn), nullptr);
  for (const bool own_is_first : {true, false}) {
    std::atomic<void*> found{nullptr};
    EXPECT_EQ(TorchSymbol(kEverything, own_is_first ? kOwn : kForeign,
                          own_is_first ? kForeign : kOwn, &found),
              foreign);
    EXPECT_EQ(found.load(), foreign);
  }
  std::atomic<void*> none{nullptr};
  EXPECT_EQ(TorchSymbol(kEverything, kOwn, nullptr, &none), nullptr);
  EXPECT_EQ(TorchSymbol("libnot_loaded.so", kForeign, nullptr, &none), nullptr);
}

}  // namespace
}  // namespace prism::shim
