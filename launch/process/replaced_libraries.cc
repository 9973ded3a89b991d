#include "launch/process/replaced_libraries.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <regex>
#include <sstream>

#include "graph/base/fnv.h"
#include "graph/base/split.h"
#include "launch/process/library_calls.h"

namespace prism::launch {
namespace {

// Bytes of LibraryCall, in the order of library_call.h: action, handle, precision, arguments.
constexpr std::array<std::string_view, 12> kActions = {"done",   "create", "number",    "destroy",
                                                       "stream", "run",    "workspace", "elements",
                                                       "vector", "scalar", "column",    "product"};
constexpr uint8_t kNoArgument = 255;
constexpr int kHandleShift = 8;
constexpr int kPrecisionShift = 16;
constexpr int kArgumentShift = 24;
constexpr size_t kMostArguments = 4;

struct Description {
  std::string library;
  std::regex names;
  uint64_t call;
};

std::vector<Description> ReadDescriptions() {
  std::vector<Description> descriptions;
  for (const std::string_view line : SplitAt(kLibraryCalls, '\n')) {
    std::istringstream words{std::string(line)};
    const std::vector<std::string> all{std::istream_iterator<std::string>(words), {}};
    if (all.empty() || all[0].starts_with('#')) {
      continue;
    }
    const auto action = std::find(kActions.begin(), kActions.end(), all[1]) - kActions.begin();
    auto call = static_cast<uint64_t>(action);
    for (size_t i = 0; i < kMostArguments; ++i) {
      const bool is_given = i + 3 < all.size() && all[i + 2] != "-";
      const uint64_t argument = is_given ? std::stoul(all[i + 2]) : kNoArgument;
      call |= argument << (kArgumentShift + 8 * i);
    }
    descriptions.push_back({all[0], std::regex(all.back()), call});
  }
  return descriptions;
}

// S, D, C, Z or H in the name of a cuBLAS call.
uint64_t PrecisionOf(std::string_view name) {
  constexpr std::string_view kBlas = "cublas";
  const bool has_letter = name.starts_with(kBlas) && name.size() > kBlas.size() + 1 &&
                          std::string_view("SDCZH").find(name[kBlas.size()]) != name.npos &&
                          std::islower(name[kBlas.size() + 1]) != 0;
  return has_letter ? static_cast<uint64_t>(name[kBlas.size()]) : 0;
}

bool IsOneOf(std::string_view name, const std::regex& names) {
  return std::regex_search(name.begin(), name.end(), names);
}

}  // namespace

// Codes: cudaErrorNotSupported and CUDA_ERROR_NOT_SUPPORTED 801, CUBLAS_STATUS_NOT_SUPPORTED 15,
// CUDNN_STATUS_NOT_SUPPORTED 3000, ncclInvalidUsage 5, CUSPARSE_STATUS_NOT_SUPPORTED 10 (cuSPARSELt
// too), CUSOLVER_STATUS_NOT_SUPPORTED 9, CUFFT_NOT_SUPPORTED 16, CURAND_STATUS_ARCH_MISMATCH 204
// (cuRAND has no other), CU_FILE_PLATFORM_NOT_SUPPORTED 5007, CUPTI_ERROR_NOT_SUPPORTED 27,
// CUDSS_STATUS_NOT_SUPPORTED 4, NVSHMEMX_ERROR_NOT_SUPPORTED 3, NVML_ERROR_NOT_SUPPORTED 3.
const std::vector<ReplacedLibrary>& ReplacedLibraries() {
  static const std::vector<ReplacedLibrary> libraries = {
      {"libcublas",
       "cublas",
       15,
       2,
       "cublas_api.h",
       {"CUBLAS_VER_MAJOR", "CUBLAS_VER_MINOR", "CUBLAS_VER_PATCH"},
       {10'000, 100, 1}},
      {"libcublasLt", "cublasLt", 15, 0, "", {}, {}},
      {"libcuda", "cu", 801, 0, "", {}, {}},
      {"libcudart", "cuda", 801, 0, "cuda_runtime_api.h", {"CUDART_VERSION"}, {1000, 10, 0}},
      {"libcudnn",
       "cudnn",
       3000,
       3,
       "cudnn_version.h",
       {"CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL"},
       {10'000, 100, 1}},
      {"libcudss", "cudss", 4, 0, "", {}, {}},
      {"libcufft", "cufft", 16, 1, "", {}, {}},
      {"libcufile", "cuFile", 5007, 0, "", {}, {}},
      {"libcupti", "cupti", 27, 0, "", {}, {}},
      {"libcurand", "curand", 204, 0, "", {}, {}},
      {"libcusolver", "cusolver", 9, 0, "", {}, {}},
      {"libcusparse", "cusparse", 10, 0, "", {}, {}},
      {"libcusparseLt", "cusparseLt", 10, 0, "", {}, {}},
      {"libnccl",
       "nccl",
       5,
       0,
       "nccl.h",
       {"NCCL_MAJOR", "NCCL_MINOR", "NCCL_PATCH"},
       {10'000, 100, 1}},
      {"libnvshmem_host", "nvshmem", 3, 0, "", {}, {}},
      {"libnvidia-ml", "nvml", 3, 0, "", {}, {}}};
  return libraries;
}

const ReplacedLibrary* FindReplaced(std::string_view soname) {
  const std::string_view stem = soname.substr(0, soname.find(".so"));
  for (const ReplacedLibrary& library : ReplacedLibraries()) {
    if (library.stem == stem) {
      return &library;
    }
  }
  return nullptr;
}

const ReplacedLibrary* OwnerOf(std::string_view name) {
  const ReplacedLibrary* owner = nullptr;
  for (const ReplacedLibrary& library : ReplacedLibraries()) {
    const std::string_view prefix = library.prefix;
    const bool fits = name.starts_with(prefix) && name.size() > prefix.size();
    const bool is_word = fits && (prefix != "cu" || std::isupper(name[prefix.size()]) != 0);
    if (is_word && (owner == nullptr || prefix.size() > owner->prefix.size())) {
      owner = &library;
    }
  }
  return owner;
}

bool IsCall(std::string_view name) {
  constexpr std::array<std::string_view, 5> kBegins = {"cu", "__cuda", "nccl", "pnccl", "nvshmem"};
  return std::any_of(kBegins.begin(), kBegins.end(),
                     [&](std::string_view begin) { return name.starts_with(begin); });
}

std::optional<int64_t> DescribedCall(const ReplacedLibrary& library, std::string_view name) {
  static const std::vector<Description> descriptions = ReadDescriptions();
  static const std::regex own_objects("Descriptor(Ex|_v9)?$");
  for (const Description& each : descriptions) {
    if (each.library == library.stem && std::regex_match(name.begin(), name.end(), each.names)) {
      // A descriptor that is a cuDNN call's first argument is an object of its own.
      const uint64_t kind = IsOneOf(name, own_objects) ? 0 : library.handle;
      return static_cast<int64_t>(each.call | kind << kHandleShift |
                                  PrecisionOf(name) << kPrecisionShift);
    }
  }
  return std::nullopt;
}

// cuFileRead and cuFileWrite return a negative error in a count of bytes.
int64_t RefusalOf(const ReplacedLibrary& library, std::string_view name) {
  static const std::regex addresses(
      "^nvshmem(x)?_(malloc|calloc|align|ptr|mc_ptr|buffer_register_symmetric)$");
  if (IsOneOf(name, addresses)) {
    return 0;
  }
  return name == "cuFileRead" || name == "cuFileWrite" ? -library.refusal : library.refusal;
}

bool ReturnsText(std::string_view name) {
  static const std::regex texts(
      "(Get(Error|Status|Result|Last)\\w*(String|Name|Error)|op_status_error)$");
  return IsOneOf(name, texts);
}

std::vector<std::string_view> AdditionalNames(const ReplacedLibrary& library) {
  if (library.stem == "libcublasLt") {
    return {"cublasLtGroupedMatrixLayoutInit_internal"};  // 13.2; Transformer Engine 2.14 links it
  }
  return library.stem == "libcuda" ? SplitAt(kDriverCalls, '\n') : std::vector<std::string_view>();
}

uint64_t ReplacedLibrariesHash() {
  uint64_t hash = FnvHash(kDriverCalls, FnvHash(kLibraryCalls));
  for (const ReplacedLibrary& library : ReplacedLibraries()) {
    hash = FnvHash(library.stem, hash);
    hash = FnvByte(library.handle, FnvBytes(&library.refusal, sizeof(library.refusal), hash));
  }
  return hash;
}

}  // namespace prism::launch
