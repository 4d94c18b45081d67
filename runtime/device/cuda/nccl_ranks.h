// Ranks by NCCL: the processes of a run as their GPUs see each other. It is the interface of runtime/ranks with these
// differences: addresses are the device's; a collective starts after all that was issued to the session's stream;
// wait() does not wait itself, but lets what is issued to that stream from then on come after the collective. All of it
// may be captured into a graph.
#pragma once

#include "runtime/device/cuda/session.h"
#include "runtime/ranks/ranks.h"

namespace tcc::runtime::cuda {

/// Makes a communicator for the session's device. All ranks of `host` come here; the communicator's id travels by
/// `host`, and its abort() ends all ranks. Errors come to all ranks alike: a rank has no NCCL, or another version of
/// it; a call fails; a call is in progress for longer than TCC_NCCL_LIMIT seconds (120). The session must outlive the
/// ranks.
///
/// A thread of its own asks NCCL for errors that come later. If there is one, the communicator is aborted, which lets
/// the stream go on, and the session is closed with the reason.
Expected<std::shared_ptr<Ranks>> joinNcclRanks(Session &session, std::shared_ptr<Ranks> host);

} // namespace tcc::runtime::cuda
