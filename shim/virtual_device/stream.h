// Streams and events of the virtual GPU as small dense ids.
#pragma once

#include <cstdint>

namespace prism::shim {

// Dense index of a stream handle: 0 for the legacy default stream, else in order of creation (a
// thread's own default stream: at its first use). `stream` is a cudaStream_t or CUstream.
uint16_t StreamIndex(const void* stream);

// The legacy default stream and the streams that synchronise with it (created without
// cudaStreamNonBlocking) take turns on a real device. Here they do not; that is counted where ops
// of both kinds follow each other.
void CountImplicitOrder(const void* stream);

}  // namespace prism::shim
