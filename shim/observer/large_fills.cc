// Random initial values of large tensors on the CPU. A program that makes its model there draws as
// many numbers, and touches as much memory, as the model has, on each rank, and yet none of them
// reaches the virtual device (kRealCopyBytesMax). So the values of a large tensor are those of its
// first part, repeated: by pages that it shares with itself until they are written to. That is done
// for tensors that require gradients, and for all before the first work on the device, since later
// ones may be the data of a step; fill_hook.cc calls it. Three things must hold for it to be right.
//
// - The generator ends in the state in which the op would have left it. The op draws a number, or
//   two for a double, for each element, and normal_ draws some anew if the count of elements is no
//   multiple of 16, in one of two ways (ATen/native/cpu/DistributionTemplates.h). Numbers that are
//   not wanted are left out by the recurrence of MT19937, without its tempering. What a release of
//   torch does is seen from a small tensor first; if it is anything else, its ops stay as they are.
// - Pages are replaced only where the memory is nobody else's: of torch's own allocator, in a block
//   that glibc has mapped for it, which goes back as a whole. Elsewhere the values are copied.
// - Nothing else changes: a view, a tensor with gaps, another generator take the usual way.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/normal_cpu_dispatch.h>
#include <ATen/ops/uniform_cpu_dispatch.h>
#include <c10/core/CPUAllocator.h>

#include "shim/observer/observer_calls.h"
#include "shim/observer/observer_loader.h"
#include "shim/virtual_device/device_memory.h"

namespace prism::shim {
namespace {

using OptionalGenerator = std::optional<at::Generator>;
using Fill = at::Tensor& (*)(at::Tensor&, double, double, OptionalGenerator);

enum class FillKind : uint8_t { kNormal, kUniform };

constexpr size_t kPageBytes = 4096;
constexpr int64_t kGroup = 16;  // elements that normal_ makes at a time
// What is drawn: a thirty-second of the tensor, so that the number of mappings stays far below what
// Linux allows a process (65,530), and at least this.
constexpr size_t kLeastDrawnBytes = size_t{1} << 20;
constexpr size_t kShareDrawn = 32;

constexpr std::array<c10::ScalarType, 4> kTypes = {c10::ScalarType::Float, c10::ScalarType::Double,
                                                   c10::ScalarType::Half,
                                                   c10::ScalarType::BFloat16};

// How many numbers an op draws, of a release of torch.
enum class DrawRule : uint8_t {
  kOther,
  kEach,    // for each element
  kRedraw,  // and again for the last group if it is cut off
  kGroups,  // for each group, and again for the last one instead of for what is cut off
};

int64_t Draws(DrawRule rule, c10::ScalarType type, int64_t elements) {
  const int64_t cut = elements % kGroup;
  const int64_t again = rule == DrawRule::kEach || cut == 0 ? 0
                        : rule == DrawRule::kRedraw         ? kGroup
                                                            : kGroup - cut;
  return (elements + again) * (type == c10::ScalarType::Double ? 2 : 1);
}

// The next 624 numbers of MT19937 (Matsumoto and Nishimura 1998), before tempering.
void NextState(std::array<uint32_t, at::MERSENNE_STATE_N>* state) {
  constexpr size_t kN = at::MERSENNE_STATE_N;
  constexpr size_t kM = at::MERSENNE_STATE_M;
  uint32_t* const p = state->data();
  const auto twist = [p](size_t i, size_t next, size_t other) {
    const uint32_t mixed = (p[i] & at::UMASK) | (p[next] & at::LMASK);
    p[i] = p[other] ^ (mixed >> 1U) ^ ((p[next] & 1U) != 0 ? at::MATRIX_A : 0U);
  };
  for (size_t i = 0; i < kN - kM; ++i) {
    twist(i, i + 1, i + kM);
  }
  for (size_t i = kN - kM; i < kN - 1; ++i) {
    twist(i, i + 1, i + kM - kN);
  }
  twist(kN - 1, 0, kM - 1);
}

// As if `draws` numbers had been drawn.
void LeaveOut(int64_t draws, at::mt19937_data_pod* data) {
  while (draws > 0) {
    if (data->left_ == 1) {
      NextState(&data->state_);
      data->left_ = at::MERSENNE_STATE_N + 1;
      data->next_ = 0;
    }
    const int64_t taken = std::min<int64_t>(draws, data->left_ - 1);
    data->left_ -= static_cast<int>(taken);
    data->next_ += static_cast<uint32_t>(taken);
    draws -= taken;
  }
}

void LeaveOut(int64_t draws, const at::Generator& generator) {
  auto* const cpu = generator.get<at::CPUGeneratorImpl>();
  const std::lock_guard<std::mutex> lock(cpu->mutex_);
  at::mt19937 engine = cpu->engine();
  at::mt19937_data_pod data = engine.data();
  LeaveOut(draws, &data);
  engine.set_data(data);
  cpu->set_engine(engine);
}

Fill FillOf(FillKind kind) {
  return kind == FillKind::kNormal ? static_cast<Fill>(&at::cpu::normal_)
                                   : static_cast<Fill>(&at::cpu::uniform_);
}

bool SameState(const at::mt19937_data_pod& a, const at::mt19937_data_pod& b) {
  return a.left_ == b.left_ && a.next_ == b.next_ && a.state_ == b.state_;
}

bool DrawsBy(DrawRule rule, FillKind kind, c10::ScalarType type) {
  for (const int64_t elements : {int64_t{4096}, int64_t{5003}}) {
    const at::Generator real = at::detail::createCPUGenerator(1);
    const at::Generator counted = at::detail::createCPUGenerator(1);
    at::Tensor tensor = at::empty({elements}, at::TensorOptions().dtype(type));
    FillOf(kind)(tensor, 0, 1, real);
    LeaveOut(Draws(rule, type, elements), counted);
    if (!SameState(real.get<at::CPUGeneratorImpl>()->engine().data(),
                   counted.get<at::CPUGeneratorImpl>()->engine().data())) {
      return false;
    }
  }
  return true;
}

// Of this release of torch.
DrawRule RuleOf(FillKind kind, c10::ScalarType type) {
  using Rules = std::array<std::array<DrawRule, kTypes.size()>, 2>;
  static const Rules rules = [] {
    Rules result = {};
    for (const FillKind each : {FillKind::kNormal, FillKind::kUniform}) {
      for (size_t i = 0; i < kTypes.size(); ++i) {
        for (const DrawRule rule : {DrawRule::kEach, DrawRule::kRedraw, DrawRule::kGroups}) {
          if (DrawsBy(rule, each, kTypes[i])) {
            result[static_cast<size_t>(each)][i] = rule;
          }
        }
      }
    }
    return result;
  }();
  const auto* const at = std::ranges::find(kTypes, type);
  return at == kTypes.end() ? DrawRule::kOther
                            : rules[static_cast<size_t>(kind)][at - kTypes.begin()];
}

// In front of a block, glibc keeps its size and flags, of which the second says that the block has
// been mapped for itself.
bool IsMappedAlone(const at::Tensor& tensor) {
  static const bool is_glibc = [] {
    Dl_info allocator = {};
    Dl_info library = {};
    return dladdr(dlsym(RTLD_DEFAULT, "malloc"), &allocator) != 0 &&
           dladdr(dlsym(RTLD_DEFAULT, "gnu_get_libc_version"), &library) != 0 &&
           allocator.dli_fbase == library.dli_fbase;
  }();
  constexpr size_t kIsMapped = 2;
  const c10::DataPtr& data = tensor.storage().data_ptr();
  if (!is_glibc || data.get() == nullptr ||
      data.get_deleter() != c10::GetCPUAllocator()->raw_deleter()) {
    return false;
  }
  size_t size_and_flags = 0;
  std::memcpy(&size_and_flags, static_cast<const char*>(data.get()) - sizeof(size_and_flags),
              sizeof(size_and_flags));
  return (size_and_flags & kIsMapped) != 0;
}

// Copies what is at `from` to the `bytes` behind it, again and again.
void RepeatByCopies(char* from, size_t period, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const size_t some = std::min(period, bytes - done);
    std::memcpy(from + period + done, from, some);
    done += some;
  }
}

// The whole pages among the `bytes` from `begin` on, which follow one period, become views of one
// file, whose bytes are the period from `begin` on. False: nothing was changed.
bool RepeatByPages(char* begin, size_t period, size_t bytes) {
  const int file = memfd_create("prism-fill", MFD_CLOEXEC);
  if (file < 0) {
    return false;
  }
  bool done = ftruncate(file, static_cast<off_t>(period)) == 0;
  void* const view =
      done ? mmap(nullptr, period, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  done = view != MAP_FAILED;
  if (done) {
    std::memcpy(view, begin - period, period);
    munmap(view, period);
  }
  for (size_t at = 0; done && at < bytes; at += period) {
    done = mmap(begin + at, std::min(period, bytes - at), PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_FIXED, file, 0) != MAP_FAILED;
  }
  close(file);
  return done;
}

void Repeat(const at::Tensor& tensor, size_t period) {
  char* const data = static_cast<char*>(tensor.data_ptr());
  const size_t bytes = static_cast<size_t>(tensor.nbytes());
  const auto address = reinterpret_cast<uintptr_t>(data);
  const size_t begin = (address + period + kPageBytes - 1) / kPageBytes * kPageBytes - address;
  const size_t end = (address + bytes) / kPageBytes * kPageBytes - address;
  if (!IsMappedAlone(tensor) || begin + kPageBytes > end) {
    RepeatByCopies(data, period, bytes - period);
    return;
  }
  RepeatByCopies(data, period, begin - period);
  if (!RepeatByPages(data + begin, period, end - begin)) {
    RepeatByCopies(data, period, bytes - period);
    return;
  }
  RepeatByCopies(data + end - period, period, bytes - end);
}

bool MayRepeat(const at::Tensor& tensor, FillKind kind, const OptionalGenerator& generator) {
  return tensor.is_cpu() && !generator.has_value() && tensor.is_contiguous() &&
         tensor.nbytes() > kRealCopyBytesMax &&
         (tensor.requires_grad() || prism_shim_has_worked() == 0) &&
         RuleOf(kind, tensor.scalar_type()) != DrawRule::kOther;
}

void FillLarge(FillKind kind, at::Tensor& tensor, double first, double second) {
  const size_t least = std::max(kLeastDrawnBytes, tensor.nbytes() / kShareDrawn);
  const size_t period = (least + kPageBytes - 1) / kPageBytes * kPageBytes;
  const auto drawn = static_cast<int64_t>(period / tensor.element_size());
  at::Tensor part = tensor.detach().view({-1}).narrow(0, 0, drawn);
  FillOf(kind)(part, first, second, std::nullopt);
  const c10::ScalarType type = tensor.scalar_type();
  const DrawRule rule = RuleOf(kind, type);
  LeaveOut(Draws(rule, type, tensor.numel()) - Draws(rule, type, drawn),
           at::detail::getDefaultCPUGenerator());
  Repeat(tensor, period);
  prism_shim_count("large_fills_repeated");
}

}  // namespace
}  // namespace prism::shim

extern "C" __attribute__((visibility("default"))) int prism_observer_fill(
    const prism::shim::TorchFill* fill) {
  using prism::shim::FillKind;
  at::Tensor& tensor = *static_cast<at::Tensor*>(fill->tensor);
  const FillKind kind = fill->is_normal ? FillKind::kNormal : FillKind::kUniform;
  const auto& generator = *static_cast<const std::optional<at::Generator>*>(fill->generator);
  if (!prism::shim::MayRepeat(tensor, kind, generator)) {
    return 0;
  }
  prism::shim::FillLarge(kind, tensor, fill->first, fill->second);
  return 1;
}
