#include "launch/process/elf_writer.h"

#include <elf.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

namespace prism::launch {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kStubBytes = 32;
constexpr uint64_t kDataAlignment = 64;
constexpr uint16_t kSomeSection = 1;  // of what is defined; there is no table of sections
constexpr uint32_t kBloomShift = 6;
constexpr uint16_t kHidden = 0x8000;

uint32_t GnuHash(std::string_view name) {
  uint32_t hash = 5381;
  for (const char letter : name) {
    hash = hash * 33 + static_cast<unsigned char>(letter);
  }
  return hash;
}

uint32_t SysvHash(std::string_view name) {
  uint32_t hash = 0;
  for (const char letter : name) {
    hash = (hash << 4) + static_cast<unsigned char>(letter);
    hash = (hash ^ ((hash & 0xf0000000U) >> 24)) & 0x0fffffffU;
  }
  return hash;
}

// Addresses are offsets in the file, in every segment.
class LibraryWriter {
 public:
  explicit LibraryWriter(const LibraryImage& image) : image_(image), members_(image.members) {
    buckets_ = std::max<size_t>(1, members_.size() / 4);
    std::stable_sort(members_.begin(), members_.end(), [&](const auto& a, const auto& b) {
      return GnuHash(a.name) % buckets_ < GnuHash(b.name) % buckets_;
    });
  }

  std::string Write() {
    file_.resize(sizeof(Elf64_Ehdr) + kSegments * sizeof(Elf64_Phdr));
    AddTexts();
    numbers_ = Align(sizeof(uint64_t));
    for (const LibraryMember& member : members_) {
      if (member.kind == MemberKind::kNumber) {
        Add(static_cast<int32_t>(member.value));
      }
    }
    AddHash();
    AddVersions();
    // What follows is filled in once the addresses are known.
    symbols_ = Reserve((1 + image_.targets.size() + members_.size()) * sizeof(Elf64_Sym));
    relocations_ = Reserve(image_.targets.size() * sizeof(Elf64_Rela));
    code_ = Align(kPage);
    file_.resize(file_.size() + std::max<size_t>(1, members_.size()) * kStubBytes, '\xcc');
    slots_ = Align(kPage);
    file_.resize(file_.size() + image_.targets.size() * sizeof(uint64_t));
    AddDynamic();
    FillMembers();
    FillHeader();
    return std::move(file_);
  }

 private:
  static constexpr size_t kSegments = 5;

  template <typename Object>
  void Add(const Object& object) {
    file_.append(reinterpret_cast<const char*>(&object), sizeof(object));
  }

  template <typename Object>
  void Put(uint64_t offset, const Object& object) {
    std::memcpy(file_.data() + offset, &object, sizeof(object));
  }

  uint64_t Align(uint64_t bytes) {
    file_.resize((file_.size() + bytes - 1) / bytes * bytes);
    return file_.size();
  }

  uint64_t Reserve(uint64_t bytes) {
    const uint64_t offset = Align(sizeof(uint64_t));
    file_.resize(offset + bytes);
    return offset;
  }

  // The offset of a text among the texts.
  uint32_t TextOf(std::string_view text) {
    const auto [place, is_new] = text_offsets_.emplace(text, file_.size() - texts_);
    if (is_new) {
      file_.append(text).push_back('\0');
    }
    return static_cast<uint32_t>(place->second);
  }

  void AddTexts() {
    texts_ = file_.size();
    TextOf("");
    for (const std::string& text : {image_.soname, image_.needed, image_.search_path}) {
      TextOf(text);
    }
    for (const std::string& version : image_.versions) {
      TextOf(version);
    }
    for (const std::string& target : image_.targets) {
      TextOf(target);
    }
    for (const LibraryMember& member : members_) {
      TextOf(member.name);
    }
    text_bytes_ = file_.size() - texts_;
  }

  void AddHash() {
    hash_ = Align(sizeof(uint64_t));
    const auto first = static_cast<uint32_t>(1 + image_.targets.size());
    std::vector<uint64_t> bloom(std::bit_ceil(members_.size() / 8 + 1));
    std::vector<uint32_t> buckets(buckets_);
    std::vector<uint32_t> chains;
    for (size_t i = 0; i < members_.size(); ++i) {
      const uint32_t hash = GnuHash(members_[i].name);
      bloom[hash / 64 % bloom.size()] |=
          uint64_t{1} << hash % 64 | uint64_t{1} << (hash >> kBloomShift) % 64;
      uint32_t& bucket = buckets[hash % buckets_];
      if (bucket == 0) {
        bucket = first + static_cast<uint32_t>(i);
        if (!chains.empty()) {
          chains.back() |= 1;
        }
      }
      chains.push_back(hash & ~1U);
    }
    if (!chains.empty()) {
      chains.back() |= 1;
    }
    for (const auto word : {static_cast<uint32_t>(buckets_), first,
                            static_cast<uint32_t>(bloom.size()), kBloomShift}) {
      Add(word);
    }
    for (const uint64_t word : bloom) {
      Add(word);
    }
    for (const std::vector<uint32_t>* const words : {&buckets, &chains}) {
      for (const uint32_t word : *words) {
        Add(word);
      }
    }
  }

  [[nodiscard]] uint16_t VersionIndex(const LibraryMember& member) const {
    const auto found = std::find(image_.versions.begin(), image_.versions.end(), member.version);
    if (member.version.empty() || found == image_.versions.end()) {
      return VER_NDX_GLOBAL;
    }
    const auto place = static_cast<uint16_t>(found - image_.versions.begin());
    return static_cast<uint16_t>((place + 2) | (member.is_hidden_version ? kHidden : 0));
  }

  void AddVersions() {
    if (image_.versions.empty()) {
      return;
    }
    symbol_versions_ = Align(sizeof(uint64_t));
    Add(uint16_t{VER_NDX_LOCAL});
    for (size_t i = 0; i < image_.targets.size(); ++i) {
      Add(uint16_t{VER_NDX_GLOBAL});
    }
    for (const LibraryMember& member : members_) {
      Add(VersionIndex(member));
    }
    versions_ = Align(sizeof(uint64_t));
    for (size_t i = 0; i <= image_.versions.size(); ++i) {
      const std::string& name = i == 0 ? image_.soname : image_.versions[i - 1];
      constexpr uint32_t kEntry = sizeof(Elf64_Verdef) + sizeof(Elf64_Verdaux);
      Add(Elf64_Verdef{.vd_version = VER_DEF_CURRENT,
                       .vd_flags = i == 0 ? uint16_t{VER_FLG_BASE} : uint16_t{0},
                       .vd_ndx = static_cast<uint16_t>(i + 1),
                       .vd_cnt = 1,
                       .vd_hash = SysvHash(name),
                       .vd_aux = sizeof(Elf64_Verdef),
                       .vd_next = i == image_.versions.size() ? 0 : kEntry});
      Add(Elf64_Verdaux{.vda_name = TextOf(name), .vda_next = 0});
    }
  }

  void AddDynamic() {
    dynamic_ = file_.size();
    const auto add = [&](int64_t tag, uint64_t value) {
      Add(Elf64_Dyn{.d_tag = tag, .d_un = {.d_val = value}});
    };
    add(DT_SONAME, TextOf(image_.soname));
    add(DT_NEEDED, TextOf(image_.needed));
    add(DT_RUNPATH, TextOf(image_.search_path));
    add(DT_GNU_HASH, hash_);
    add(DT_STRTAB, texts_);
    add(DT_STRSZ, text_bytes_);
    add(DT_SYMTAB, symbols_);
    add(DT_SYMENT, sizeof(Elf64_Sym));
    add(DT_RELA, relocations_);
    add(DT_RELASZ, image_.targets.size() * sizeof(Elf64_Rela));
    add(DT_RELAENT, sizeof(Elf64_Rela));
    if (!image_.versions.empty()) {
      add(DT_VERSYM, symbol_versions_);
      add(DT_VERDEF, versions_);
      add(DT_VERDEFNUM, image_.versions.size() + 1);
    }
    add(DT_NULL, 0);
  }

  // An instruction's operand: the distance from its end to `address`.
  void AddDistance(std::string* code, uint64_t begin, uint64_t address) {
    const auto distance =
        static_cast<int32_t>(static_cast<int64_t>(address - (begin + code->size() + 4)));
    code->append(reinterpret_cast<const char*>(&distance), sizeof(distance));
  }

  void PutStub(uint64_t begin, const LibraryMember& member) {
    const uint64_t name = texts_ + TextOf(member.name);
    const bool keeps_arguments = member.kind == MemberKind::kCall;
    std::string code = "\xf3\x0f\x1e\xfa";                      // endbr64
    code += keeps_arguments ? "\x4c\x8d\x15" : "\x48\x8d\x3d";  // lea name(%rip), %r10 or %rdi
    AddDistance(&code, begin, name);
    code += keeps_arguments ? "\x49\xbb" : "\x48\xbe";  // movabs $value, %r11 or %rsi
    code.append(reinterpret_cast<const char*>(&member.value), sizeof(member.value));
    code += "\xff\x25";  // jmp *slot(%rip)
    AddDistance(&code, begin, slots_ + member.target * sizeof(uint64_t));
    std::memcpy(file_.data() + begin, code.data(), code.size());
  }

  void PutSymbol(size_t place, const Elf64_Sym& symbol) {
    Put(symbols_ + place * sizeof(symbol), symbol);
  }

  void FillMembers() {
    for (size_t i = 0; i < image_.targets.size(); ++i) {
      PutSymbol(1 + i, {.st_name = TextOf(image_.targets[i]),
                        .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE),
                        .st_other = STV_DEFAULT,
                        .st_shndx = SHN_UNDEF,
                        .st_value = 0,
                        .st_size = 0});
      Put(relocations_ + i * sizeof(Elf64_Rela),
          Elf64_Rela{.r_offset = slots_ + i * sizeof(uint64_t),
                     .r_info = ELF64_R_INFO(1 + i, R_X86_64_GLOB_DAT),
                     .r_addend = 0});
    }
    uint64_t number = numbers_;
    zeroes_end_ = file_.size();
    for (size_t i = 0; i < members_.size(); ++i) {
      const LibraryMember& member = members_[i];
      uint64_t address = code_ + i * kStubBytes;
      uint64_t bytes = kStubBytes;
      if (member.kind == MemberKind::kNumber) {
        address = number;
        bytes = sizeof(int32_t);
        number += bytes;
      } else if (member.kind == MemberKind::kZeroes) {
        address = (zeroes_end_ + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
        bytes = static_cast<uint64_t>(member.value);
        zeroes_end_ = address + bytes;
      } else {
        PutStub(address, member);
      }
      const bool is_function = member.kind <= MemberKind::kCall;
      PutSymbol(1 + image_.targets.size() + i,
                {.st_name = TextOf(member.name),
                 .st_info = static_cast<unsigned char>(
                     ELF64_ST_INFO(STB_GLOBAL, is_function ? STT_FUNC : STT_OBJECT)),
                 .st_other = STV_DEFAULT,
                 .st_shndx = kSomeSection,
                 .st_value = address,
                 .st_size = bytes});
    }
  }

  void PutSegment(size_t place, uint32_t type, uint32_t flags, uint64_t begin, uint64_t end) {
    const uint64_t in_file = std::min<uint64_t>(end, file_.size()) - begin;
    Put(sizeof(Elf64_Ehdr) + place * sizeof(Elf64_Phdr),
        Elf64_Phdr{.p_type = type,
                   .p_flags = flags,
                   .p_offset = begin,
                   .p_vaddr = begin,
                   .p_paddr = begin,
                   .p_filesz = in_file,
                   .p_memsz = end - begin,
                   .p_align = type == PT_LOAD ? kPage : sizeof(uint64_t)});
  }

  void FillHeader() {
    Elf64_Ehdr header = {};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = ET_DYN;
    header.e_machine = EM_X86_64;
    header.e_version = EV_CURRENT;
    header.e_phoff = sizeof(Elf64_Ehdr);
    header.e_ehsize = sizeof(Elf64_Ehdr);
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = kSegments;
    Put(0, header);
    PutSegment(0, PT_LOAD, PF_R, 0, code_);
    PutSegment(1, PT_LOAD, PF_R | PF_X, code_, slots_);
    PutSegment(2, PT_LOAD, PF_R | PF_W, slots_, zeroes_end_);
    PutSegment(3, PT_DYNAMIC, PF_R | PF_W, dynamic_, file_.size());
    PutSegment(4, PT_GNU_STACK, PF_R | PF_W, 0, 0);
  }

  const LibraryImage& image_;
  std::vector<LibraryMember> members_;  // in the order of their buckets
  size_t buckets_ = 1;
  std::string file_;
  std::map<std::string, uint64_t, std::less<>> text_offsets_;
  uint64_t texts_ = 0;
  uint64_t text_bytes_ = 0;
  uint64_t numbers_ = 0;
  uint64_t hash_ = 0;
  uint64_t symbol_versions_ = 0;
  uint64_t versions_ = 0;
  uint64_t symbols_ = 0;
  uint64_t relocations_ = 0;
  uint64_t code_ = 0;
  uint64_t slots_ = 0;
  uint64_t dynamic_ = 0;
  uint64_t zeroes_end_ = 0;
};

}  // namespace

std::string WriteLibrary(const LibraryImage& image) {
  return LibraryWriter(image).Write();
}

}  // namespace prism::launch
