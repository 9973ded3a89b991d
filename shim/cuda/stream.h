// Streams and events of the virtual GPU as small dense ids.
#pragma once

#include <cstdint>

namespace prism::shim {

// Dense index of a stream handle: 0 for the default streams (null, legacy, per thread), else in
// order of creation. `stream` is a cudaStream_t or CUstream.
uint16_t StreamIndex(const void* stream);

}  // namespace prism::shim
