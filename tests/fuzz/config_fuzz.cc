// libFuzzer target for the launcher's readers. Run: bin/config_fuzz -max_len=16384 CORPUS
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/config_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  prism::testing::TryConfig({reinterpret_cast<const char*>(data), size});
  return 0;
}
