// libFuzzer target of the store's protocol. Run: bin/store_fuzz -max_len=4096 CORPUS
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/store_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  prism::testing::TryStore({reinterpret_cast<const char*>(data), size});
  return 0;
}
