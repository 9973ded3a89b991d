// MPI's own waits spin, and many processes may share few cores: every wait here is a test followed
// by a nap that doubles. A send never waits: a large message is complete only when its receiver
// takes it, so two processes that send to each other first would wait forever. Its bytes are kept
// until a later call finds it complete.
#include "launch/process/mpi_session.h"

#include <time.h>

#include <array>
#include <climits>
#include <cstdlib>
#include <deque>
#include <list>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "launch/process/interrupt.h"

#ifdef PRISM_HAVE_MPI
#include <mpi.h>
#endif

namespace prism::launch {
namespace {

// First and longest sleep of a wait. A message arrives either within microseconds, or after seconds
// of work elsewhere.
constexpr int64_t kFirstNapNs = 50'000;
constexpr int64_t kLongestNapNs = 2'000'000;

void Nap(int64_t nanoseconds) {
  const timespec duration = {.tv_sec = 0, .tv_nsec = nanoseconds};
  nanosleep(&duration, nullptr);
}

}  // namespace

class MpiSession::Impl {
 public:
  int rank = 0;
  int size = 1;
  std::deque<std::string> to_self;

#ifdef PRISM_HAVE_MPI
  struct Outgoing {
    MPI_Request request = MPI_REQUEST_NULL;
    std::string bytes;
  };

  bool in_mpi = false;
  std::list<Outgoing> outgoing;  // a list: MPI holds pointers into the strings

  ~Impl() {
    if (!in_mpi) {
      return;
    }
    // Finalize would busy-wait for the slowest process; a barrier with short sleeps does not.
    MPI_Request barrier = MPI_REQUEST_NULL;
    MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
    int done = 0;
    while (done == 0) {
      MPI_Test(&barrier, &done, MPI_STATUS_IGNORE);
      CompleteSends();
      if (done == 0) {
        Nap(kLongestNapNs);
      }
    }
    MPI_Finalize();
  }

  void CompleteSends() {
    for (auto it = outgoing.begin(); it != outgoing.end();) {
      int done = 0;
      MPI_Test(&it->request, &done, MPI_STATUS_IGNORE);
      it = done != 0 ? outgoing.erase(it) : std::next(it);
    }
  }
#endif
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

#ifdef PRISM_HAVE_MPI

Result<MpiSession> MpiSession::Start() {
  auto impl = std::make_unique<Impl>();
  if (LaunchedByMpi()) {
    if (MPI_Init(nullptr, nullptr) != MPI_SUCCESS) {
      return EnvironmentLacks("MPI does not start; leave mpirun out to use one process");
    }
    impl->in_mpi = true;
    MPI_Comm_rank(MPI_COMM_WORLD, &impl->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &impl->size);
  }
  return MpiSession(std::move(impl));
}

std::string MpiSession::LibraryVersion() const {
  if (!impl_->in_mpi) {
    return {};
  }
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text = {};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
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
  MPI_Isend(entry.bytes.data(), static_cast<int>(entry.bytes.size()), MPI_BYTE, to, 0,
            MPI_COMM_WORLD, &entry.request);
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
  int there = 0;
  MPI_Status status;
  MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &there, &status);
  if (there == 0) {
    return std::nullopt;
  }
  int count = 0;
  MPI_Get_count(&status, MPI_BYTE, &count);
  PeerMessage message;
  message.from = status.MPI_SOURCE;
  message.bytes.resize(static_cast<size_t>(count));
  MPI_Recv(message.bytes.data(), count, MPI_BYTE, message.from, 0, MPI_COMM_WORLD,
           MPI_STATUS_IGNORE);
  return message;
}

void MpiSession::Abort(int exit_code) {
  if (impl_->in_mpi) {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
  }
  std::_Exit(exit_code);
}

#else

Result<MpiSession> MpiSession::Start() {
  if (LaunchedByMpi()) {
    return EnvironmentLacks(
        "this build has no MPI; leave mpirun out, or install libopenmpi-dev and build again");
  }
  return MpiSession(std::make_unique<Impl>());
}

std::string MpiSession::LibraryVersion() const {
  return {};
}

void MpiSession::Send(int to, std::string bytes) {
  PRISM_CHECK_EQ(to, 0);
  impl_->to_self.push_back(std::move(bytes));
}

std::optional<PeerMessage> MpiSession::TryReceive() {
  if (impl_->to_self.empty()) {
    return std::nullopt;
  }
  PeerMessage message = {0, std::move(impl_->to_self.front())};
  impl_->to_self.pop_front();
  return message;
}

void MpiSession::Abort(int exit_code) {
  std::_Exit(exit_code);
}

#endif

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
