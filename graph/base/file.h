// Whole files in, whole files out. Nobody ever sees a file half written: it has no name, or on file
// systems without such files a temporary one in the same folder, until it is complete. Failures
// carry the code that the outside contract gives them: kBadFile for what cannot be read,
// kEnvironment for a path that is not writable, kRunFailed for a disk that fills up.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"

namespace prism {

Result<std::string> ReadFile(const std::string& path);

// The first bytes of a file, at most so many: what a file is. "" if it cannot be read.
std::string ReadBeginning(const std::string& path, size_t most);

// A read-only mapping of a file that the user named. Movable; the view dies with it. A file that
// shrinks while mapped raises SIGBUS, so only files that are replaced by rename are mapped.
class MappedFile {
 public:
  static Result<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  [[nodiscard]] std::string_view bytes() const { return bytes_; }

  // Gives up the memory of that many first bytes, which are read anew if they are looked at again.
  void Release(size_t first) const;

 private:
  explicit MappedFile(std::string_view bytes) : bytes_(bytes) {}

  std::string_view bytes_;
};

// A file being written. Commit() puts it in place, replacing what was there; without it nothing
// is left, nor where the process is killed, except for a temporary name where files need one.
// After a failure the object only accepts destruction.
class AtomicFile {
 public:
  static Result<AtomicFile> Create(const std::string& path);

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Status Append(std::string_view bytes);
  Status Commit();

 private:
  AtomicFile(std::string path, std::string temporary, int descriptor)
      : path_(std::move(path)), temporary_(std::move(temporary)), descriptor_(descriptor) {}

  Status Name();

  std::string path_;
  std::string temporary_;  // "" while it has no name
  int descriptor_ = -1;
};

Status WriteFileAtomically(const std::string& path, std::string_view bytes);

// Files that begin with the same path and appear together: until Commit() they are in a temporary
// folder beside that path, and without it nothing is left of them, except for that folder where the
// process is killed. After a failure the object only accepts destruction.
class AtomicFileSet {
 public:
  explicit AtomicFileSet(std::string prefix);

  AtomicFileSet(const AtomicFileSet&) = delete;
  AtomicFileSet& operator=(const AtomicFileSet&) = delete;
  ~AtomicFileSet();

  // The file prefix + suffix; the suffix has no '/'.
  Status Write(const std::string& suffix, std::string_view bytes);

  // Puts all of them in place, replacing what was there.
  Status Commit();

 private:
  std::string prefix_;
  std::string folder_;
  std::vector<std::string> suffixes_;
};

}  // namespace prism
