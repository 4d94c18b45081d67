// What ranks say to the process that started them, over a socket of messages.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>

namespace tcc::models {

/// The environment variable that names the abstract socket.
inline constexpr const char *starterVariable = "TCC_RANKS_STARTER";
inline constexpr size_t longestText = 32 << 10; ///< bytes of an error that a rank sends

/// What a rank says: first who it is and its launcher's job, then each step, whether it waits long for others or lets
/// them wait, at last that its work is done, before it takes leave of the others. Where an error ends it, the text of
/// the error follows in the same message.
struct RankWord {
  enum Kind : int64_t { joined, job, step, waiting, busy, over } kind = joined;
  int64_t rank = 0, value = 0; ///< value: process, Open MPI's number of the job, step, whether it is so, or exit status
};

/// A message that carries two open streams: descriptors as they are in the process that has the message.
struct StreamsMessage {
  explicit StreamsMessage(std::array<int, 2> streams = {-1, -1}) {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof streams);
    std::memcpy(CMSG_DATA(header), &streams, sizeof streams);
  }
  StreamsMessage(const StreamsMessage &) = delete;
  StreamsMessage &operator=(const StreamsMessage &) = delete;

  bool send(int socket) const { return ::sendmsg(socket, &message, MSG_NOSIGNAL) == 1; }
  /// The streams that came, now this process's; nothing where none came.
  std::optional<std::array<int, 2>> receive(int socket) {
    if (::recvmsg(socket, &message, 0) != 1)
      return std::nullopt;
    const cmsghdr *header = CMSG_FIRSTHDR(&message);
    std::array<int, 2> streams;
    if (!header || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof streams))
      return std::nullopt;
    std::memcpy(&streams, CMSG_DATA(header), sizeof streams);
    return streams;
  }

private:
  char byte = 0; // a message needs one
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr message{};
};

inline sockaddr_un addressOf(const std::string &name, socklen_t &length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), std::min(name.size(), sizeof address.sun_path - 1));
  length = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

} // namespace tcc::models
