// libFuzzer target of the graph file. Run: bin/graph_fuzz -max_len=65536 CORPUS
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/graph_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  prism::testing::TryGraphFile({reinterpret_cast<const char*>(data), size});
  return 0;
}
