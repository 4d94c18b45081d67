// A rank's side of --ranks=N: it joins the others, and tells the process that started them how far it is and why it
// ends.
#include "models/launch_ranks.h"
#include "frontend/error.h"
#include "models/rank_words.h"
#include "runtime/ranks/ranks.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <optional>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace tcc::models {

namespace {

int starterSocket = -1; // of a rank: to the process that started it
std::optional<std::array<int, 2>> starterStreams;
int64_t ownRank = 0;

/// Gives whether the process is there that started the ranks.
bool tell(RankWord::Kind kind, int64_t value, const std::string &text = "") {
  const RankWord word{kind, ownRank, value};
  std::string message(reinterpret_cast<const char *>(&word), sizeof word);
  message += text.substr(0, longestText);
  return starterSocket >= 0 && ::send(starterSocket, message.data(), message.size(), MSG_NOSIGNAL) >= 0;
}

/// Gets the streams of the process that started the ranks, and tells it of this one.
void joinStarter() {
  const char *name = std::getenv(starterVariable);
  if (!name)
    return;
  socklen_t length = 0;
  const sockaddr_un address = addressOf(name, length);
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (socket < 0 || ::connect(socket, reinterpret_cast<const sockaddr *>(&address), length) != 0) {
    ::close(socket);
    return; // mpirun's streams remain
  }
  StreamsMessage message;
  starterStreams = message.receive(socket);
  starterSocket = socket;
  tell(RankWord::joined, ::getpid());
  if (const char *job = std::getenv("OMPI_MCA_ess_base_jobid"))
    tell(RankWord::job, std::atoll(job));
}

/// From now on the rank prints where the process does that started it. While MPI starts it does not: an MPI that fails
/// prints a page for each rank.
void takeStreams() {
  for (size_t i = 0; starterStreams && i < starterStreams->size(); ++i) {
    ::dup2((*starterStreams)[i], int(i) + 1);
    ::close((*starterStreams)[i]);
  }
  starterStreams.reset();
}

} // namespace

std::shared_ptr<runtime::Ranks> joinRun() {
  const runtime::Expected<runtime::Launch> launch = runtime::findLaunch();
  if (!launch)
    throw Error(launch.error().message());
  ownRank = launch->rank;
  if (launch->count > 1)
    joinStarter();
  runtime::Expected<std::shared_ptr<runtime::Ranks>> ranks = runtime::joinRanks();
  takeStreams();
  if (!ranks)
    throw Error(ranks.error().message());
  if (*ranks)
    (*ranks)->tellWaiting = [](bool isWaiting) { tell(RankWord::waiting, isWaiting); };
  return *ranks;
}

void reportStep(int64_t step) {
  tell(RankWord::step, step);
}

BusyRank::BusyRank() {
  tell(RankWord::busy, true);
}

BusyRank::~BusyRank() {
  tell(RankWord::busy, false);
}

void leaveRun(const std::shared_ptr<runtime::Ranks> &ranks, int status) {
  if (!ranks)
    return;
  std::fflush(stdout);
  tell(RankWord::over, status);
  ranks->finish();
}

int endRun(runtime::Ranks *ranks, const std::string &message, int status, FirstSays first) {
  if (ranks && ranks->rank() > 0) // what the first one says ends this process
    std::this_thread::sleep_for(std::chrono::milliseconds(first == FirstSays::theSame        ? 10'000
                                                          : first == FirstSays::afterItsPage ? 3'000
                                                                                             : 500));
  const std::string who = ranks && ranks->rank() > 0 ? fmt::format("rank {}: ", ranks->rank()) : "";
  std::fflush(stdout);
  // The process that started the ranks prints it, unless another rank has ended before and this error comes of that: so
  // it is told when that rank's files are closed.
  if (starterSocket >= 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const bool isTold = tell(RankWord::over, status, who + message);
  if (isTold)
    ::shutdown(starterSocket, SHUT_WR);
  else
    std::fprintf(stderr, "error: %s%s\n", who.c_str(), message.c_str());
  if (ranks && ranks->count() > 1) {
    if (isTold) { // all is said; MPIs add words of their own
      const int nothing = ::open("/dev/null", O_WRONLY);
      ::dup2(nothing, 2);
    } else { // mpirun prints what ranks have said, if it can read it before all end
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    ranks->abort(status);
  }
  return status;
}

} // namespace tcc::models
