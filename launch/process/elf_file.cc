#include "launch/process/elf_file.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace prism::launch {
namespace {

constexpr uint16_t kVersionIndex = 0x7fff;
constexpr uint16_t kHiddenVersion = 0x8000;
constexpr uint16_t kMostVersions = 4096;  // of a chain: one that leads back to itself ends

}  // namespace

template <typename Object>
bool ElfFile::Read(uint64_t offset, Object* object) const {
  const std::string_view bytes = file_.bytes();
  if (offset > bytes.size() || sizeof(Object) > bytes.size() - offset) {
    return false;
  }
  std::memcpy(object, bytes.data() + offset, sizeof(Object));
  return true;
}

Result<ElfFile> ElfFile::Open(const std::string& path) {
  PRISM_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(path));
  ElfFile file(std::move(mapped));
  const Status status = file.ReadDynamic();
  if (!status.ok()) {
    return status.WithContext(path);
  }
  return file;
}

// Addresses outside of every segment lead past the end.
uint64_t ElfFile::OffsetOf(uint64_t address) const {
  for (const Segment& segment : segments_) {
    if (address >= segment.address && address - segment.address < segment.bytes) {
      return segment.offset + (address - segment.address);
    }
  }
  return file_.bytes().size();
}

std::string_view ElfFile::Text(uint64_t offset) const {
  if (offset >= texts_.size()) {
    return {};
  }
  const std::string_view rest = texts_.substr(offset);
  return rest.substr(0, std::min(rest.find('\0'), rest.size()));
}

void ElfFile::ReadEntry(int64_t tag, uint64_t value) {
  switch (tag) {
    case DT_SONAME:
      soname_ = Text(value);
      break;
    case DT_NEEDED:
      needed_.push_back(Text(value));
      break;
    case DT_RPATH:
    case DT_RUNPATH:
      search_path_ = Text(value);
      break;
    case DT_SYMTAB:
      tables_.symbols = OffsetOf(value);
      break;
    case DT_HASH:
      tables_.hash = OffsetOf(value);
      break;
    case DT_GNU_HASH:
      tables_.gnu_hash = OffsetOf(value);
      break;
    case DT_VERSYM:
      tables_.symbol_versions = OffsetOf(value);
      break;
    case DT_VERDEF:
      tables_.defined = OffsetOf(value);
      break;
    case DT_VERDEFNUM:
      tables_.defined_count = std::min<uint64_t>(value, kMostVersions);
      break;
    case DT_VERNEED:
      tables_.required = OffsetOf(value);
      break;
    case DT_VERNEEDNUM:
      tables_.required_count = std::min<uint64_t>(value, kMostVersions);
      break;
    default:
      break;
  }
}

Status ElfFile::ReadDynamic() {
  Elf64_Ehdr header = {};
  if (!Read(0, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64) {
    return BadFile("not a program or library for x86-64");
  }
  Elf64_Phdr dynamic = {};
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment = {};
    if (!Read(header.e_phoff + i * sizeof(segment), &segment)) {
      return BadFile("its table of segments is cut off");
    }
    if (segment.p_type == PT_LOAD) {
      segments_.push_back({segment.p_vaddr, segment.p_offset, segment.p_filesz});
    } else if (segment.p_type == PT_DYNAMIC) {
      dynamic = segment;
    }
  }
  std::vector<Elf64_Dyn> entries;
  for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic.p_filesz; at += sizeof(Elf64_Dyn)) {
    Elf64_Dyn entry = {};
    if (!Read(dynamic.p_offset + at, &entry) || entry.d_tag == DT_NULL) {
      break;
    }
    if (entry.d_tag == DT_STRTAB) {
      texts_ = file_.bytes().substr(std::min(OffsetOf(entry.d_un.d_ptr), file_.bytes().size()));
    }
    entries.push_back(entry);
  }
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_STRSZ) {
      texts_ = texts_.substr(0, entry.d_un.d_val);
    }
  }
  for (const Elf64_Dyn& entry : entries) {
    ReadEntry(entry.d_tag, entry.d_un.d_val);
  }
  return OkStatus();
}

// The GNU table does not say how many there are: the last chain's end does.
uint64_t ElfFile::SymbolCount() const {
  uint32_t words[4] = {};  // of DT_HASH: buckets, symbols; else buckets, first symbol, bloom words
  if (tables_.hash != 0 && Read(tables_.hash, &words)) {
    return words[1];
  }
  if (tables_.gnu_hash == 0 || !Read(tables_.gnu_hash, &words)) {
    return 0;
  }
  const uint64_t buckets = tables_.gnu_hash + sizeof(words) + uint64_t{words[2]} * sizeof(uint64_t);
  const uint64_t chains = buckets + uint64_t{words[0]} * sizeof(uint32_t);
  uint32_t last = 0;
  uint32_t word = 0;
  for (uint64_t i = 0; i < words[0] && Read(buckets + i * sizeof(word), &word); ++i) {
    last = std::max(last, word);
  }
  if (last < words[1]) {
    return words[1];
  }
  while (Read(chains + uint64_t{last - words[1]} * sizeof(word), &word) && (word & 1) == 0) {
    ++last;
  }
  return uint64_t{last} + 1;
}

std::vector<ElfFile::Version> ElfFile::DefinedVersions() const {
  std::vector<Version> versions;
  uint64_t at = tables_.defined;
  for (uint64_t i = 0; at != 0 && i < tables_.defined_count; ++i) {
    Elf64_Verdef definition = {};
    Elf64_Verdaux name = {};
    if (!Read(at, &definition) || !Read(at + definition.vd_aux, &name)) {
      break;
    }
    if ((definition.vd_flags & VER_FLG_BASE) == 0) {
      versions.push_back({definition.vd_ndx, Text(name.vda_name), {}});
    }
    at = definition.vd_next == 0 ? 0 : at + definition.vd_next;
  }
  return versions;
}

std::vector<ElfFile::Version> ElfFile::RequiredVersions() const {
  std::vector<Version> versions;
  uint64_t at = tables_.required;
  for (uint64_t i = 0; at != 0 && i < tables_.required_count; ++i) {
    Elf64_Verneed need = {};
    if (!Read(at, &need)) {
      break;
    }
    uint64_t each = at + need.vn_aux;
    for (uint16_t k = 0; k < std::min(need.vn_cnt, kMostVersions); ++k) {
      Elf64_Vernaux name = {};
      if (!Read(each, &name) || versions.size() >= kMostVersions) {
        break;
      }
      versions.push_back({name.vna_other, Text(name.vna_name), Text(need.vn_file)});
      each += name.vna_next;
    }
    at = need.vn_next == 0 ? 0 : at + need.vn_next;
  }
  return versions;
}

std::vector<std::string_view> ElfFile::Versions() const {
  std::vector<std::string_view> names;
  for (const Version& version : DefinedVersions()) {
    names.push_back(version.name);
  }
  return names;
}

std::vector<ElfSymbol> ElfFile::Symbols() const {
  std::vector<Version> versions = DefinedVersions();
  const std::vector<Version> required = RequiredVersions();
  versions.insert(versions.end(), required.begin(), required.end());
  std::vector<ElfSymbol> symbols;
  const uint64_t count = tables_.symbols == 0 ? 0 : SymbolCount();
  for (uint64_t i = 1; i < count; ++i) {  // the first is empty
    Elf64_Sym entry = {};
    if (!Read(tables_.symbols + i * sizeof(entry), &entry)) {
      break;
    }
    ElfSymbol symbol;
    symbol.name = Text(entry.st_name);
    symbol.bytes = entry.st_size;
    const unsigned type = ELF64_ST_TYPE(entry.st_info);
    symbol.is_defined = entry.st_shndx != SHN_UNDEF;
    symbol.is_function = type == STT_FUNC || type == STT_GNU_IFUNC;
    symbol.is_data = type == STT_OBJECT && entry.st_shndx != SHN_ABS;  // not a version's own name
    uint16_t index = 0;
    if (tables_.symbol_versions != 0 &&
        !Read(tables_.symbol_versions + i * sizeof(index), &index)) {
      break;
    }
    symbol.is_hidden_version = (index & kHiddenVersion) != 0;
    const auto version = std::find_if(versions.begin(), versions.end(), [&](const Version& each) {
      return each.index == (index & kVersionIndex);
    });
    if (version != versions.end()) {
      symbol.version = version->name;
      symbol.file = version->file;
    }
    if (!symbol.name.empty() && ELF64_ST_BIND(entry.st_info) != STB_LOCAL) {
      symbols.push_back(symbol);
    }
  }
  return symbols;
}

}  // namespace prism::launch
