// A shared library or program as the loader sees it: what it is called, what it needs, and the
// names that it gives and takes. Read through the dynamic segment; every offset is checked, so a
// damaged file is an error (kBadFile) or has fewer names, and never takes more memory than its size
// allows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/file.h"
#include "graph/base/status.h"

namespace prism::launch {

struct ElfSymbol {
  std::string_view name;
  std::string_view version;  // "" for none
  std::string_view file;  // of an undefined name with a version: the library that has to define it
  uint64_t bytes = 0;
  bool is_defined = false;
  bool is_function = false;
  bool is_data = false;
  bool is_hidden_version = false;  // an older version of the name
};

// Texts are views into the mapping.
class ElfFile {
 public:
  static Result<ElfFile> Open(const std::string& path);

  [[nodiscard]] std::string_view soname() const { return soname_; }
  [[nodiscard]] const std::vector<std::string_view>& needed() const { return needed_; }
  [[nodiscard]] std::string_view search_path() const { return search_path_; }  // $ORIGIN as written

  [[nodiscard]] std::vector<ElfSymbol> Symbols() const;

  // The versions that the library defines, without its own name.
  [[nodiscard]] std::vector<std::string_view> Versions() const;

 private:
  // A name with a number among the versions that the file defines or needs.
  struct Version {
    uint16_t index;
    std::string_view name;
    std::string_view file;
  };

  // Where tables are in the file; 0 for none.
  struct Tables {
    uint64_t symbols = 0;
    uint64_t hash = 0;
    uint64_t gnu_hash = 0;
    uint64_t symbol_versions = 0;
    uint64_t defined = 0;
    uint64_t defined_count = 0;
    uint64_t required = 0;
    uint64_t required_count = 0;
  };

  explicit ElfFile(MappedFile file) : file_(std::move(file)) {}

  template <typename Object>
  [[nodiscard]] bool Read(uint64_t offset, Object* object) const;

  Status ReadDynamic();
  void ReadEntry(int64_t tag, uint64_t value);
  [[nodiscard]] uint64_t OffsetOf(uint64_t address) const;
  [[nodiscard]] std::string_view Text(uint64_t offset) const;
  [[nodiscard]] uint64_t SymbolCount() const;
  [[nodiscard]] std::vector<Version> DefinedVersions() const;
  [[nodiscard]] std::vector<Version> RequiredVersions() const;

  struct Segment {
    uint64_t address;
    uint64_t offset;
    uint64_t bytes;
  };

  MappedFile file_;
  std::vector<Segment> segments_;
  std::string_view texts_;
  std::string_view soname_;
  std::vector<std::string_view> needed_;
  std::string_view search_path_;
  Tables tables_;
};

}  // namespace prism::launch
