// Resolves NCCL's functions and says what its statuses mean.
#include "runtime/device/cuda/nccl.h"

namespace tcc::runtime::cuda {

namespace {

constexpr int oldestVersion = 21800;

int versionOf(const Library &library) {
  int version = 0;
  reinterpret_cast<int (*)(int *)>(library.get("ncclGetVersion"))(&version);
  return version;
}

std::string misfitOf(const Library &library) {
  const int version = versionOf(library);
  return version >= oldestVersion
             ? ""
             : "is NCCL " + ncclVersionText(version) + "; " + ncclVersionText(oldestVersion) + " or later is needed";
}

} // namespace

std::string ncclVersionText(int version) {
  const int unit = version < 10000 ? 1000 : 10000; // versions before 2.9 have one digit less
  return std::to_string(version / unit) + "." + std::to_string(version % unit / 100) + "." +
         std::to_string(version % 100);
}

Nccl Nccl::open() {
  LibrarySearch search;
  search.title = "NCCL (NVIDIA's exchange between GPUs)";
  search.environment = "TCC_NCCL";
  search.fileNames = {"libnccl.so.2", "libnccl.so"};
  search.wheelFolders = {"nccl/lib"};
  search.folders = toolkitFolders(search.wheelFolders);
  search.install = "`pip install nvidia-nccl-cu13` (or nvidia-nccl-cu12 for a driver before 580), or NVIDIA's package "
                   "libnccl2";
  search.misfit = misfitOf;
  Nccl nccl;
  nccl.library = Library::open(search);
#define TCC_RESOLVE(member, symbol, parameters)                                                                        \
  nccl.member = reinterpret_cast<int(*) parameters>(nccl.library.get(#symbol));
  TCC_NCCL_FUNCTIONS(TCC_RESOLVE)
#undef TCC_RESOLVE
  nccl.errorString = reinterpret_cast<const char *(*)(int)>(nccl.library.get("ncclGetErrorString"));
  nccl.lastError = reinterpret_cast<const char *(*)(NcclComm)>(nccl.library.get("ncclGetLastError"));
  nccl.versionNumber = versionOf(nccl.library);
  return nccl;
}

std::string Nccl::explain(int status, NcclComm comm) const {
  const char *said = comm ? lastError(comm) : nullptr;
  std::string text = "NCCL status " + std::to_string(status) + " (" + errorString(status) + ")";
  if (said && *said)
    text += ": " + std::string(said).substr(0, std::string_view(said).find('\n'));
  return text;
}

} // namespace tcc::runtime::cuda
