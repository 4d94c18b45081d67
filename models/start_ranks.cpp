// The process that the user started with --ranks=N: it starts mpirun, hears the ranks, and says which one has ended the
// run.
#include "frontend/error.h"
#include "models/launch_ranks.h"
#include "models/rank_words.h"
#include "runtime/ranks/ranks.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <optional>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tcc::models {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t mostWords = 500; ///< bytes of what mpirun says, in an error

std::string findProgram(const std::string &name) {
  const char *path = std::getenv("PATH");
  std::string rest = path ? path : "/usr/bin:/bin";
  while (!rest.empty()) {
    const size_t colon = rest.find(':');
    const std::string candidate = rest.substr(0, colon) + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0)
      return candidate;
    rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
  }
  return {};
}

/// mpirun with its arguments, and the variables that its ranks need.
struct Command {
  std::vector<std::string> words;
  std::vector<std::pair<std::string, std::string>> variables;
};

Command commandFor(int64_t ranks) {
  const char *given = std::getenv("TCC_MPI");
  const std::string wanted = given ? given : "";
  if (!wanted.empty() && wanted != "openmpi" && wanted != "mpich")
    throw Error(fmt::format("TCC_MPI is '{}'; openmpi and mpich are known", wanted));
  for (const std::string mpi : {"openmpi", "mpich"}) {
    if (!wanted.empty() && mpi != wanted)
      continue;
    const std::string program = findProgram("mpirun." + mpi);
    if (program.empty())
      continue;
    // UCX, which both may use, prints a stack where another process has gone; the run's one line is said here. It ends
    // a rank that reads the memory of one that was killed, maybe before that one's socket is closed, and the wrong rank
    // would be named: so it copies through shared memory.
    Command command{
        {program, "-n", std::to_string(ranks)},
        {{"TCC_MPI", mpi}, {"UCX_LOG_FILE", "/dev/null"}, {"UCX_HANDLE_ERRORS", "none"}, {"UCX_TLS", "^cma"}}};
    if (mpi == "openmpi") {
      // As root, with more ranks than CPUs, and each with threads that may run on any of its CPUs.
      for (const char *word : {"--allow-run-as-root", "--oversubscribe", "--bind-to", "none"})
        command.words.emplace_back(word);
      // Memory of other processes may be out of reach in containers; there Open MPI tries, fails and says so.
      command.variables.emplace_back("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
      command.variables.emplace_back("OMPI_MCA_mpi_yield_when_idle", "1");
    } else {
      command.words.emplace_back("-disable-auto-cleanup"); // who ends the others must know who was first
    }
    return command;
  }
  throw Error(fmt::format("--ranks={} needs an MPI, and there is no {} (Debian's packages openmpi-bin and mpich)",
                          ranks, wanted.empty() ? "mpirun.openmpi or mpirun.mpich" : "mpirun." + wanted));
}

std::string inOneLine(const std::string &text) {
  std::string line;
  for (const char c : text)
    if (c != '\n' && c != '\r')
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  return line.empty() ? "nothing" : line;
}

/// Whether a process is stopped by a signal. One that a debugger holds is not.
bool isStopped(int64_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string stat;
  std::getline(file, stat);
  const size_t name = stat.rfind(") ");
  return name != std::string::npos && stat.substr(name + 2, 1) == "T";
}

/// What a folder has now, also where entries go meanwhile; nothing where it cannot be read.
std::vector<std::filesystem::path> entriesOf(const std::filesystem::path &folder) {
  std::vector<std::filesystem::path> entries;
  std::error_code problem;
  for (std::filesystem::directory_iterator at(folder, problem), end; !problem && at != end; at.increment(problem))
    entries.push_back(at->path());
  return entries;
}

/// Whether a process has the file open or mapped, as far as this one may see. Who maps a file has it open until then.
bool isInUse(const std::filesystem::path &file) {
  std::error_code problem;
  for (const std::filesystem::path &process : entriesOf("/proc")) {
    for (const std::filesystem::path &open : entriesOf(process / "fd"))
      if (std::filesystem::read_symlink(open, problem) == file)
        return true;
    std::ifstream maps(process / "maps");
    for (std::string line; std::getline(maps, line);)
      if (line.ends_with(file.native()))
        return true;
  }
  return false;
}

/// What MPIs lack most often where they do not start.
std::string sharedMemoryHint() {
  constexpr double enough = 64e6;
  struct statvfs memory{};
  const double bytes = ::statvfs("/dev/shm", &memory) == 0 ? double(memory.f_bavail) * double(memory.f_frsize) : 0;
  return bytes >= enough
             ? ""
             : fmt::format("; /dev/shm, through which ranks of one machine exchange, has {:.1f} MB left", bytes / 1e6);
}

/// How many seconds after the first one all ranks must have begun.
int64_t startLimit() {
  const char *given = std::getenv("TCC_RANKS_LIMIT");
  const int64_t seconds = given ? std::atoll(given) : 0;
  return seconds > 0 ? seconds : 60;
}

volatile std::sig_atomic_t forwarded = 0;

/// The process that the user started, while its ranks run.
class Starter {
public:
  explicit Starter(int64_t count) : ranks(size_t(count)) {
    name = fmt::format("tcc-ranks-{}-{}", ::getpid(), Clock::now().time_since_epoch().count());
    listener = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    socklen_t length = 0;
    const sockaddr_un address = addressOf(name, length);
    if (listener < 0 || ::bind(listener, reinterpret_cast<const sockaddr *>(&address), length) != 0 ||
        ::listen(listener, int(std::min<int64_t>(count, SOMAXCONN))) != 0)
      throw Error(fmt::format("no socket for the ranks to be started: {}", std::strerror(errno)));
    closings = ::epoll_create1(EPOLL_CLOEXEC);
    if (closings < 0)
      throw Error(fmt::format("the ends of ranks cannot be watched: {}", std::strerror(errno)));
  }

  int run(const Command &command, const std::vector<std::string> &arguments);

private:
  struct Rank {
    int socket = -1;
    int64_t process = 0, step = -1;
    bool hasJoined = false, isOver = false, isBusy = false;
    Clock::time_point stepBegin;
    std::optional<Clock::time_point> waitsSince;
    int stoppedLooks = 0; ///< how often in a row it was seen stopped
    int64_t status = 0;
    std::string error;
    bool isSilent = false; ///< it has said all
  };

  void spawn(const Command &command, const std::vector<std::string> &arguments);
  void accept();
  bool hearAll(int milliseconds);
  bool hear(int socket);
  bool hearClosings();
  void judge(const Rank &rank);
  bool sayWhy();
  void endAll();
  void findHanging();
  void findStopped();
  void findMissing();
  std::string missing() const;
  bool readLauncher();
  void removeSharedMemory() const;

  const time_t begin = ::time(nullptr);
  Clock::duration longestStep{};
  Clock::time_point nextLook; // at the ranks' processes
  std::optional<Clock::time_point> firstJoined;
  std::string name;
  int listener = -1, launcherOutput = -1;
  int closings = -1; // an epoll that has the ends of the ranks' sockets in the order in which they came
  bool launcherTalks = true;
  pid_t launcher = -1;
  std::vector<Rank> ranks;
  std::vector<int> unknown;   // sockets of ranks that have not said who they are
  std::optional<int64_t> job; // Open MPI's number of it
  std::string launcherText;   // what mpirun itself has printed
  std::string culprit;        // the first rank that ended too early
  std::optional<Rank> failed; // the rank that said why it ends, where that came first
};

void Starter::spawn(const Command &command, const std::vector<std::string> &arguments) {
  int pipes[2];
  if (::pipe2(pipes, O_CLOEXEC) != 0)
    throw Error(fmt::format("no pipe to mpirun: {}", std::strerror(errno)));
  std::vector<std::string> words = command.words;
  words.push_back(std::filesystem::read_symlink("/proc/self/exe").string());
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char *> pointers;
  for (std::string &word : words)
    pointers.push_back(word.data());
  pointers.push_back(nullptr);
  for (const auto &[key, value] : command.variables)
    ::setenv(key.c_str(), value.c_str(), 0);
  ::setenv("TCC_MPI", command.variables.front().second.c_str(), 1);
  ::setenv(starterVariable, name.c_str(), 1);
  launcher = ::fork();
  if (launcher < 0)
    throw Error(fmt::format("mpirun cannot be started: {}", std::strerror(errno)));
  if (launcher == 0) {
    ::setpgid(0, 0); // a terminal's Ctrl-C is for the ranks to be told, not for mpirun
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    const int nothing = ::open("/dev/null", O_RDONLY);
    ::dup2(nothing, 0);
    ::dup2(pipes[1], 1);
    ::dup2(pipes[1], 2);
    ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  ::close(pipes[1]);
  launcherOutput = pipes[0];
}

void Starter::accept() {
  const int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (socket < 0)
    return;
  epoll_event closing{EPOLLRDHUP, {.fd = socket}};
  if (::epoll_ctl(closings, EPOLL_CTL_ADD, socket, &closing) != 0) {
    ::close(socket);
    return;
  }
  // The rank prints where this process does: its output does not pass through mpirun.
  StreamsMessage({1, 2}).send(socket);
  unknown.push_back(socket);
}

/// Reads what ranks and mpirun have said, then which ranks have ended; it waits so long for the first news. Gives
/// whether there were any.
bool Starter::hearAll(int milliseconds) {
  std::vector<pollfd> waiting{{listener, POLLIN, 0}};
  if (launcherTalks)
    waiting.push_back({launcherOutput, POLLIN, 0});
  for (int socket : unknown)
    waiting.push_back({socket, POLLIN, 0});
  for (const Rank &rank : ranks)
    if (rank.socket >= 0 && !rank.isSilent)
      waiting.push_back({rank.socket, POLLIN, 0});
  const bool isAnything = ::poll(waiting.data(), nfds_t(waiting.size()), milliseconds) > 0;
  for (const pollfd &each : waiting) {
    if (!each.revents)
      continue;
    if (each.fd == listener)
      accept();
    else if (launcherTalks && each.fd == launcherOutput)
      launcherTalks = readLauncher();
    else
      while (hear(each.fd))
        ;
  }
  return hearClosings() || isAnything;
}

/// A rank that ends pulls others down: MPI's launcher kills them, or MPI gives them an error. This process may see all
/// of that at once, such as where it had no CPU meanwhile, so the first end is told by the kernel: an epoll lists
/// sockets in the order in which they became ready, and these are watched for their ends alone. A rank ends what it
/// sends when it has said an error, and all others learn of a rank's end after that one's files are closed.
bool Starter::hearClosings() {
  std::vector<epoll_event> closed(ranks.size());
  const int count = ::epoll_wait(closings, closed.data(), int(closed.size()), 0);
  for (int i = 0; i < count; ++i) {
    const int socket = closed[size_t(i)].data.fd;
    while (hear(socket)) // what it has said before
      ;
    const auto known = std::ranges::find(ranks, socket, &Rank::socket);
    if (known != ranks.end()) {
      judge(*known);
      if (!(closed[size_t(i)].events & EPOLLHUP)) {
        known->isSilent = true;
        epoll_event end{0, {.fd = socket}}; // EPOLLHUP comes unasked
        ::epoll_ctl(closings, EPOLL_CTL_MOD, socket, &end);
        continue;
      }
      known->socket = -1;
    }
    std::erase(unknown, socket);
    ::close(socket);
  }
  return count > 0;
}

/// A rank says nothing more: it is why the run ends, if it is the first one and has not done all its work.
void Starter::judge(const Rank &rank) {
  if (failed || !culprit.empty() || (rank.isOver && rank.status == 0))
    return;
  if (rank.isOver)
    failed = rank;
  else
    culprit = fmt::format("rank {} (process {}) was ended {}{}: the run is over{}", &rank - ranks.data(), rank.process,
                          rank.step < 0 ? std::string("before its first step") : fmt::format("in step {}", rank.step),
                          missing(), rank.step < 0 ? sharedMemoryHint() : "");
}

/// Whether it is known why the run ends too early; if so, that is printed.
bool Starter::sayWhy() {
  const std::string &text = failed ? failed->error : culprit;
  if (!text.empty())
    std::fprintf(stderr, "error: %s\n", text.c_str());
  return failed || !culprit.empty();
}

/// Reads one word of a rank; false where there is none.
bool Starter::hear(int socket) {
  std::array<char, sizeof(RankWord) + longestText> message;
  const ssize_t bytes = ::recv(socket, message.data(), message.size(), MSG_DONTWAIT);
  if (bytes < ssize_t(sizeof(RankWord)))
    return false;
  RankWord word;
  std::memcpy(&word, message.data(), sizeof word);
  if (word.rank < 0 || word.rank >= int64_t(ranks.size()))
    return true;
  Rank &rank = ranks[size_t(word.rank)];
  switch (word.kind) {
  case RankWord::joined:
    rank.socket = socket;
    rank.process = word.value;
    rank.hasJoined = true;
    if (!firstJoined)
      firstJoined = Clock::now();
    std::erase(unknown, socket);
    break;
  case RankWord::job:
    job = word.value;
    break;
  case RankWord::step:
    if (rank.step >= 0)
      longestStep = std::max(longestStep, Clock::now() - rank.stepBegin);
    rank.step = word.value;
    rank.stepBegin = Clock::now();
    break;
  case RankWord::waiting:
    rank.waitsSince = word.value ? std::optional(Clock::now()) : std::nullopt;
    break;
  case RankWord::busy:
    rank.isBusy = word.value;
    break;
  case RankWord::over:
    rank.isOver = true;
    rank.status = word.value;
    rank.error.assign(message.data() + sizeof word, size_t(bytes) - sizeof word);
    break;
  }
  return true;
}

/// Ranks that have not said who they are: where another one ends, these may have ended before it.
std::string Starter::missing() const {
  std::string text;
  for (size_t i = 0; i < ranks.size(); ++i)
    if (!ranks[i].hasJoined)
      text += fmt::format("{} {}", text.empty() ? ", and these had not begun: rank" : ", rank", i);
  return text;
}

/// What mpirun says is kept for the case that no rank can say what is wrong; false at its end.
bool Starter::readLauncher() {
  char text[4096];
  const ssize_t bytes = ::read(launcherOutput, text, sizeof text);
  if (bytes > 0 && launcherText.size() < (64 << 10))
    launcherText.append(text, size_t(bytes));
  return bytes > 0 || (bytes < 0 && errno == EINTR);
}

/// A rank to which others wait in an exchange, and which neither waits nor writes: it was stopped, or computes without
/// end. Before the first step ranks compile, which may take long.
void Starter::findHanging() {
  const Clock::duration patience = std::max<Clock::duration>(std::chrono::seconds(8), 5 * longestStep);
  const auto isBefore = [](const Rank &rank) { return rank.step < 0; };
  const auto hasWaited = [&](const Rank &rank) {
    return rank.waitsSince && Clock::now() - *rank.waitsSince > patience;
  };
  if (std::ranges::any_of(ranks, isBefore) || std::ranges::any_of(ranks, &Rank::isBusy) ||
      std::ranges::none_of(ranks, hasWaited))
    return;
  const auto hanging = std::ranges::find_if(
      ranks, [](const Rank &rank) { return !rank.waitsSince && !rank.isOver && rank.socket >= 0; });
  if (hanging != ranks.end())
    culprit = fmt::format(
        "rank {} (process {}) has not come to an exchange of step {}, for which others have waited for "
        "{:.0f} s: the run is over",
        hanging - ranks.begin(), hanging->process, hanging->step, std::chrono::duration<double>(patience).count() + 2);
}

/// A rank that somebody has stopped (SIGSTOP), whatever it was doing: compiling, writing a checkpoint, joining others.
void Starter::findStopped() {
  constexpr int patience = 10; // looks, so that a process that was suspended itself does not count that time
  if (Clock::now() < nextLook)
    return;
  nextLook = Clock::now() + std::chrono::seconds(1);
  for (Rank &rank : ranks) {
    rank.stoppedLooks = rank.socket >= 0 && isStopped(rank.process) ? rank.stoppedLooks + 1 : 0;
    if (rank.stoppedLooks >= patience && culprit.empty())
      culprit = fmt::format(
          "rank {} (process {}) has been stopped for {} s{}: the run is over", &rank - ranks.data(), rank.process,
          patience, rank.step < 0 ? std::string(", before its first step") : fmt::format(", in step {}", rank.step));
  }
}

/// A rank that has not come long after another one: MPI would wait for it for ever.
void Starter::findMissing() {
  const std::chrono::seconds limit(startLimit());
  const auto absent = std::ranges::find(ranks, false, &Rank::hasJoined);
  if (firstJoined && Clock::now() - *firstJoined > limit && absent != ranks.end())
    culprit = fmt::format("rank {} has not begun {} s after another one (TCC_RANKS_LIMIT=SECONDS waits longer): the "
                          "run is over",
                          absent - ranks.begin(), limit.count());
}

void Starter::endAll() {
  for (const Rank &rank : ranks)
    if (rank.socket >= 0 && rank.process > 0)
      ::kill(pid_t(rank.process), SIGKILL);
  ::kill(-launcher, SIGTERM);
}

/// What MPIs leave of ranks that were killed. Open MPI's files have the user and the job in their names. MPICH's have
/// random names, and are there until all ranks have mapped them: one of this time that nobody has is left.
void Starter::removeSharedMemory() const {
  const std::string ofJob = job ? fmt::format(".{}.{:x}.", ::geteuid(), *job) : "";
  const bool hasStarted = std::ranges::none_of(ranks, [](const Rank &rank) { return rank.step < 0; });
  for (const std::filesystem::path &file : entriesOf("/dev/shm")) {
    const std::string own = file.filename().string();
    struct stat facts{};
    if ((job && own.starts_with("vader_segment.") && own.find(ofJob) != std::string::npos) ||
        (!hasStarted && own.starts_with("mpich_shar_tmp") && ::stat(file.c_str(), &facts) == 0 &&
         facts.st_uid == ::geteuid() && facts.st_ctime >= begin && !isInUse(file)))
      ::unlink(file.c_str());
  }
}

int Starter::run(const Command &command, const std::vector<std::string> &arguments) {
  forwarded = 0;
  struct sigaction action{};
  action.sa_handler = [](int signal) { forwarded = signal; };
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  spawn(command, arguments);
  bool isEnding = false, isSaid = false;
  Clock::time_point killAt;
  int status = 0;
  while (true) {
    hearAll(200);
    if (const int signal = forwarded) {
      forwarded = 0;
      for (const Rank &rank : ranks)
        if (rank.socket >= 0)
          ::kill(pid_t(rank.process), signal);
    }
    if (culprit.empty() && !failed && !isEnding) {
      findHanging();
      findStopped();
      findMissing();
    }
    if (!isSaid && sayWhy()) {
      isSaid = isEnding = true;
      killAt = Clock::now() + std::chrono::seconds(2);
      if (!culprit.empty())
        endAll();
    }
    // MPI_Finalize waits for the others, and MPICH's may do so for ever: one rank in a barrier of the launcher, another
    // until that one takes a message. Nothing is lost any more, since each rank has written all that it writes.
    if (!isEnding && std::ranges::all_of(ranks, &Rank::isOver)) {
      isEnding = true;
      killAt = Clock::now() + std::chrono::milliseconds(500);
    }
    if (isEnding && Clock::now() > killAt) {
      endAll();
      ::kill(-launcher, SIGKILL);
    }
    if (::waitpid(launcher, &status, WNOHANG) == launcher)
      break;
  }
  while (hearAll(0)) // mpirun may be gone before all is read that ranks have said
    ;
  if (!isSaid)
    sayWhy();
  for (const Rank &rank : ranks) // none outlives the run
    if (rank.socket >= 0 && !rank.isOver)
      ::kill(pid_t(rank.process), SIGKILL);
  while (launcherTalks)
    launcherTalks = readLauncher();
  removeSharedMemory();
  if (!culprit.empty())
    return 1;
  if (failed)
    return int(failed->status);
  if (ranks[0].isOver)
    return int(ranks[0].status);
  if (std::ranges::any_of(ranks, &Rank::hasJoined))
    std::fprintf(stderr, "error: the ranks were ended before their first step%s; mpirun says: %s\n",
                 sharedMemoryHint().c_str(), inOneLine(launcherText).substr(0, mostWords).c_str());
  else
    std::fprintf(stderr, "error: no rank has begun; mpirun says: %s\n", inOneLine(launcherText).c_str());
  return 1;
}

} // namespace

bool startsRanks(const TrainOptions &options) {
  const runtime::Expected<runtime::Launch> launch = runtime::findLaunch();
  return options.ranks > 1 && launch && launch->count == 1;
}

int startRanks(const TrainOptions &options, const std::vector<std::string> &arguments) {
  return Starter(options.ranks).run(commandFor(options.ranks), arguments);
}

} // namespace tcc::models
