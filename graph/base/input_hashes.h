// Which files went into a result: the hash of the bytes that were read, by path. For run.json, so
// that a result can be checked against its inputs later.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "graph/base/status.h"

namespace prism {

using InputHashes = std::map<std::string, std::string>;

// 16 hexadecimal digits of Hash64.
std::string HashText(std::string_view bytes);

// Puts the file's hash into `read`, if `read` is not null.
void NoteInput(const std::string& path, std::string_view bytes, InputHashes* read);

// The hash of a whole file; kBadFile when it cannot be read.
Result<std::string> HashOfFile(const std::string& path);

}  // namespace prism
