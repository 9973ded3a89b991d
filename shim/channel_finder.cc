#include "shim/channel_finder.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shim/channel/channel.h"

namespace prism::shim {
namespace {

constexpr const char* kPath = "PRISM_CHANNEL_PATH";

channel::Header* MapInherited(int descriptor) {
  channel::Header* const header = channel::MapChannel(descriptor);
  if (header != nullptr) {
    char path[64] = {};
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", static_cast<int>(getpid()), descriptor);
    setenv(kPath, path, 0);
  }
  return header;
}

channel::Header* MapByPath() {
  const char* const path = getenv(kPath);
  const int opened = path == nullptr ? -1 : open(path, O_RDWR | O_CLOEXEC);
  if (opened < 0) {
    return nullptr;
  }
  channel::Header* const header = channel::MapChannel(opened);
  close(opened);
  return header;
}

}  // namespace

// Variable and descriptor are left for whatever this process executes or starts: a shell or `env`
// in front of the program is not the one that uses the channel.
FoundChannel FindChannel() {
  const char* const text = getenv("PRISM_CHANNEL_FD");
  if (text == nullptr) {
    return {};
  }
  char* end = nullptr;
  const long descriptor = strtol(text, &end, 10);
  if (end == text || *end != '\0' || descriptor < 0) {
    return {.error = "PRISM_CHANNEL_FD is not a descriptor number"};
  }
  channel::Header* header = MapInherited(static_cast<int>(descriptor));
  if (header == nullptr) {
    header = MapByPath();
  }
  if (header == nullptr) {
    return {.error = "the channel of PRISM_CHANNEL_FD cannot be mapped"};
  }
  return {.header = header};
}

}  // namespace prism::shim
