// MPI's own waits spin, and many processes may share few cores: every wait here is a test followed
// by a nap that doubles. A send never waits: a large message is complete only when its receiver
// takes it, so two processes that send to each other first would wait forever. Its bytes are kept
// until a later call finds it complete.
#include "launch/process/mpi_session.h"

#include <dlfcn.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <list>
#include <utility>

#include <fmt/format.h>

#include "launch/exit_codes.h"
#include "launch/process/host_watch.h"
#include "launch/process/interrupt.h"

namespace prism::launch {
namespace {

// First and longest sleep of a wait. A message arrives either within microseconds, or after seconds
// of work elsewhere.
constexpr int64_t kFirstNapNs = 50'000;
constexpr int64_t kLongestNapNs = 2'000'000;

// What Open MPI 2 to 5 agree on, as their mpi.h has it. Handles are addresses of objects inside of
// the library.
using Handle = void*;
struct MpiStatus {
  int source;
  int tag;
  int error;
  int cancelled;
  size_t bytes;
};
constexpr int kSuccess = 0;
constexpr int kAnySource = -1;
constexpr size_t kLongestVersion = 256;

// libmpi as this process has loaded it.
struct Mpi {
  Handle world = nullptr;
  Handle byte = nullptr;
  int (*init)(int*, char***) = nullptr;
  int (*finalize)() = nullptr;
  int (*abort)(Handle, int) = nullptr;
  int (*rank)(Handle, int*) = nullptr;
  int (*size)(Handle, int*) = nullptr;
  int (*version)(char*, int*) = nullptr;
  int (*barrier)(Handle, Handle*) = nullptr;
  int (*test)(Handle*, int*, MpiStatus*) = nullptr;
  int (*send)(const void*, int, Handle, int, int, Handle, Handle*) = nullptr;
  int (*probe)(int, int, Handle, int*, MpiStatus*) = nullptr;
  int (*count)(const MpiStatus*, Handle, int*) = nullptr;
  int (*receive)(void*, int, Handle, int, int, Handle, MpiStatus*) = nullptr;
};

constexpr const char* kLibrary = "libmpi.so.40";

// As the loader finds it, or beside the mpirun that started this process.
Result<void*> OpenLibrary() {
  if (void* library = dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL)) {
    return library;
  }
  const std::string reason = dlerror();
  std::error_code ignored;
  const std::filesystem::path mpirun =
      std::filesystem::read_symlink(fmt::format("/proc/{}/exe", getppid()), ignored);
  const std::string beside = mpirun.parent_path().parent_path() / "lib" / kLibrary;
  if (void* library = dlopen(beside.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
    return library;
  }
  return EnvironmentLacks(fmt::format(
      "a launcher of MPI started this process, but Open MPI's library does not load ({}); install "
      "Open MPI (Debian's package openmpi-bin), or leave mpirun out to use one process",
      reason));
}

Result<Mpi> LoadMpi() {
  PRISM_ASSIGN_OR_RETURN(void* const library, OpenLibrary());
  Mpi mpi;
  const std::pair<const char*, void*> names[] = {{"ompi_mpi_comm_world", &mpi.world},
                                                 {"ompi_mpi_byte", &mpi.byte},
                                                 {"MPI_Init", &mpi.init},
                                                 {"MPI_Finalize", &mpi.finalize},
                                                 {"MPI_Abort", &mpi.abort},
                                                 {"MPI_Comm_rank", &mpi.rank},
                                                 {"MPI_Comm_size", &mpi.size},
                                                 {"MPI_Get_library_version", &mpi.version},
                                                 {"MPI_Ibarrier", &mpi.barrier},
                                                 {"MPI_Test", &mpi.test},
                                                 {"MPI_Isend", &mpi.send},
                                                 {"MPI_Iprobe", &mpi.probe},
                                                 {"MPI_Get_count", &mpi.count},
                                                 {"MPI_Recv", &mpi.receive}};
  for (const auto& [name, place] : names) {
    void* const symbol = dlsym(library, name);
    if (symbol == nullptr) {
      return EnvironmentLacks(
          fmt::format("{} has no {}; it is not Open MPI's, which is needed", kLibrary, name));
    }
    std::memcpy(place, &symbol, sizeof(symbol));
  }
  return mpi;
}

// How many processes the launcher started; 0 where it does not say.
int LaunchedSize() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    if (const char* text = std::getenv(name)) {
      return std::atoi(text);
    }
  }
  return 0;
}

// Tasks of srun that it did not make processes of one job of MPI: each would take itself for the
// only one. An allocation without srun (salloc, the script of sbatch) is no step, and one process.
Status CheckTasks() {
  const char* const tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  if (tasks == nullptr || std::atoi(tasks) < 2) {
    return OkStatus();
  }
  return EnvironmentLacks(fmt::format(
      "srun started {} processes that know nothing of each other, and each would do all of it; use "
      "srun --mpi=pmix (srun --mpi=list says what there is), or, for {} runs, start each by env -u "
      "SLURM_STEP_NUM_TASKS",
      tasks, tasks));
}

void Nap(int64_t nanoseconds) {
  const timespec duration = {.tv_sec = 0, .tv_nsec = nanoseconds};
  nanosleep(&duration, nullptr);
}

// Open MPI's processes (mpirun here, orted on other hosts) would wait for one that is gone for as
// long as TCP tries, a quarter of an hour. A second signal within 5 seconds ends them at once, with
// code 1; where they know themselves that it is gone, it may crash them.
void EndLauncher() {
  constexpr int64_t kApartNs = 300'000'000;
  const pid_t launcher = getppid();
  const std::string name = MpiSession::LauncherName();
  for (int i = 0; i < 2 && (name == "mpirun" || name == "orterun" || name == "orted"); ++i) {
    kill(launcher, SIGTERM);
    Nap(kApartNs);
  }
}

}  // namespace

class MpiSession::Impl {
 public:
  int rank = 0;
  int size = 1;
  std::deque<std::string> to_self;

  struct Outgoing {
    Handle request = nullptr;
    std::string bytes;
  };

  std::optional<Mpi> mpi;            // of a process that a launcher started
  std::list<Outgoing> outgoing;      // a list: MPI holds pointers into the strings
  std::unique_ptr<HostWatch> watch;  // null: this is the only process

  ~Impl() {
    if (!mpi) {
      return;
    }
    // Finalize would busy-wait for the slowest process; a barrier with short sleeps does not.
    Handle barrier = nullptr;
    mpi->barrier(mpi->world, &barrier);
    int done = 0;
    while (done == 0) {
      mpi->test(&barrier, &done, nullptr);
      CompleteSends();
      if (done == 0) {
        Nap(kLongestNapNs);
        if (watch != nullptr && !watch->status().ok()) {
          Abort(ExitCode(watch->status()));
        }
      }
    }
    UseHostWatch(nullptr);
    watch.reset();
    mpi->finalize();
  }

  [[noreturn]] void Abort(int exit_code) {
    if (watch != nullptr && watch->lost_silently() &&
        InterruptStatus().code() == StatusCode::kRunFailed) {
      EndLauncher();
    }
    if (mpi) {
      mpi->abort(mpi->world, exit_code);
    }
    std::_Exit(exit_code);
  }

  void CompleteSends() {
    for (auto it = outgoing.begin(); it != outgoing.end();) {
      int done = 0;
      mpi->test(&it->request, &done, nullptr);
      it = done != 0 ? outgoing.erase(it) : std::next(it);
    }
  }
};

MpiSession::MpiSession(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
}
MpiSession::MpiSession(MpiSession&&) noexcept = default;
MpiSession& MpiSession::operator=(MpiSession&&) noexcept = default;
MpiSession::~MpiSession() = default;

bool MpiSession::LaunchedByMpi() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK"}) {
    if (std::getenv(name) != nullptr) {
      return true;
    }
  }
  return false;
}

std::string MpiSession::LauncherName() {
  std::string name;
  std::getline(std::ifstream(fmt::format("/proc/{}/comm", getppid())), name);
  return name;
}

int MpiSession::LaunchedRank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}) {
    if (const char* text = std::getenv(name)) {
      return std::atoi(text);
    }
  }
  return 0;
}

int MpiSession::rank() const {
  return impl_->rank;
}

int MpiSession::size() const {
  return impl_->size;
}

Result<MpiSession> MpiSession::Start() {
  auto impl = std::make_unique<Impl>();
  if (!LaunchedByMpi()) {
    PRISM_RETURN_IF_ERROR(CheckTasks());
    return MpiSession(std::move(impl));
  }
  PRISM_ASSIGN_OR_RETURN(const Mpi mpi, LoadMpi());
  if (mpi.init(nullptr, nullptr) != kSuccess) {
    return EnvironmentLacks("MPI does not start; leave mpirun out to use one process");
  }
  impl->mpi = mpi;
  mpi.rank(mpi.world, &impl->rank);
  mpi.size(mpi.world, &impl->size);
  const int launched = LaunchedSize();
  if (launched != 0 && launched != impl->size) {
    const int size = std::exchange(impl->size, 1);
    return EnvironmentLacks(fmt::format(
        "the launcher started {} processes, Open MPI's library sees {}: it is another MPI's "
        "(MPICH, Intel MPI) or has no part for this one; use Open MPI's mpirun, srun --mpi=pmix, "
        "or "
        "leave the launcher out to use one process",
        launched, size));
  }
  if (impl->size > 1) {
    impl->watch = std::make_unique<HostWatch>();
    UseHostWatch(impl->watch.get());
  }
  return MpiSession(std::move(impl));
}

void MpiSession::SetHostTimeout(int seconds) {
  if (impl_->watch != nullptr) {
    impl_->watch->set_timeout_s(seconds);
  }
}

void MpiSession::NameHost(const std::string& addresses, const std::string& name) {
  if (impl_->watch != nullptr) {
    impl_->watch->Name(addresses, name);
  }
}

std::string MpiSession::LibraryVersion() const {
  if (!impl_->mpi) {
    return {};
  }
  std::array<char, kLongestVersion> text = {};
  int length = 0;
  impl_->mpi->version(text.data(), &length);
  const std::string_view all(text.data(), static_cast<size_t>(length));
  return std::string(all.substr(0, all.find_first_of(",\n")));  // what follows says who built it
}

void MpiSession::Send(int to, std::string bytes) {
  PRISM_CHECK(bytes.size() < INT_MAX);
  if (to == impl_->rank) {
    impl_->to_self.push_back(std::move(bytes));
    return;
  }
  impl_->CompleteSends();
  Impl::Outgoing& entry = impl_->outgoing.emplace_back();
  entry.bytes = std::move(bytes);
  const Mpi& mpi = *impl_->mpi;
  mpi.send(entry.bytes.data(), static_cast<int>(entry.bytes.size()), mpi.byte, to, 0, mpi.world,
           &entry.request);
}

std::optional<PeerMessage> MpiSession::TryReceive() {
  if (!impl_->to_self.empty()) {
    PeerMessage message = {impl_->rank, std::move(impl_->to_self.front())};
    impl_->to_self.pop_front();
    return message;
  }
  if (impl_->size == 1) {
    return std::nullopt;
  }
  impl_->CompleteSends();
  const Mpi& mpi = *impl_->mpi;
  int there = 0;
  MpiStatus status = {};
  mpi.probe(kAnySource, 0, mpi.world, &there, &status);
  if (there == 0) {
    return std::nullopt;
  }
  int count = 0;
  mpi.count(&status, mpi.byte, &count);
  PeerMessage message;
  message.from = status.source;
  message.bytes.resize(static_cast<size_t>(count));
  mpi.receive(message.bytes.data(), count, mpi.byte, message.from, 0, mpi.world, nullptr);
  return message;
}

void MpiSession::Abort(int exit_code) {
  impl_->Abort(exit_code);
}

Result<PeerMessage> MpiSession::Receive() {
  int64_t nap_ns = kFirstNapNs;
  while (true) {
    if (std::optional<PeerMessage> message = TryReceive()) {
      return *std::move(message);
    }
    PRISM_RETURN_IF_ERROR(InterruptStatus());
    Nap(nap_ns);
    nap_ns = std::min(nap_ns * 2, kLongestNapNs);
  }
}

}  // namespace prism::launch
