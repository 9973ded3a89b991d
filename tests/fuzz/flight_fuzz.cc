// libFuzzer target of flight recorder dumps. Run: bin/flight_fuzz -max_len=65536 CORPUS
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/flight_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  prism::testing::TryFlightDump({reinterpret_cast<const char*>(data), size});
  return 0;
}
