// Between a worker and its fork server (shim/fork_server/fork_server.h), on a socket of packets.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace prism::channel {

// Environment of a fork server: the number of its socket's descriptor, then the names of the
// variables by which ranks differ, each after a colon.
inline constexpr const char* kForkServerVariable = "PRISM_FORK_SERVER";

// What it sends once it has come to where the rank is needed; anything else is the reason why it
// cannot be forked. Later, a packet of sizeof(pid_t) for each rank.
inline constexpr const char* kForkServerReady = "ready";

// A request: "NAME=value" for each variable of the rank, "NAME" for one that it does not have, each
// with a 0 at its end; with descriptors of output, channel and stacks.
inline constexpr size_t kMaxForkRequest = size_t{64} << 10U;
inline constexpr int kForkDescriptors = 3;

// Requests of one character, without descriptors: to import ahead (shim/fork_server/imports.h),
// answered by kForkServerReady, and to undo that.
inline constexpr const char* kImportAhead = "+";
inline constexpr const char* kForkWithoutImports = "-";

// Environment of a rank that is started by itself beside a fork server, and of that server: the
// path of an ImportLog, which the former writes and the latter reads.
inline constexpr const char* kImportsVariable = "PRISM_IMPORTS";

// In the order in which they happened, each with a 0 at its end: "+MODULE" has been begun to be
// imported, "=NAME=VALUE" was set in the environment, "=NAME" unset.
struct ImportLog {
  std::atomic<uint32_t> bytes;  // written or about to be, perhaps beyond the end of `text`
  std::array<char, (size_t{4} << 20U) - sizeof(uint32_t)> text;
};

}  // namespace prism::channel
