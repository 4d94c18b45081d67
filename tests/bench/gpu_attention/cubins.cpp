#include "cubins.h"

#include "runtime/device/cuda/device.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <unistd.h>

namespace tcc::gpu_attention {

using namespace tcc::cuda;
using runtime::CudaError;
using runtime::cuda::CompileRequest;
using runtime::cuda::CompileResult;
using runtime::cuda::Nvrtc;

namespace {

// About a second.
constexpr const char *probeOption = "-DTCC_BARRIER_CLOCK_LIMIT=2000000000";

std::string pathOf(const CompileRequest &request, const std::string &folder) {
  // FNV-1a over everything that decides the machine code.
  std::uint64_t hash = 0xcbf29ce484222325u;
  std::string all = request.text + request.architecture;
  for (const std::string &option : request.options)
    all += option;
  for (unsigned char byte : all)
    hash = (hash ^ byte) * 0x100000001b3u;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return folder + "/" + request.name + "." + request.architecture + "." + digits + ".cubin";
}

/// Written beside its place and renamed, so that other processes see it whole.
void save(const std::string &path, const std::vector<char> &cubin) {
  std::string work = path + "." + std::to_string(getpid());
  std::ofstream out(work, std::ios::binary);
  out.write(cubin.data(), std::streamsize(cubin.size()));
  if (!out.flush())
    throw CudaError("cannot write " + work);
  out.close();
  std::filesystem::rename(work, path);
}

} // namespace

CompileRequest requestFor(const AttentionKernel &kernel, Build build, const std::string &architecture) {
  CompileRequest request{kernel.name, deviceText(kernel.prelude) + kernel.text, architecture, {}};
  if (build == Build::Probe && kernel.prelude != Prelude::Portable)
    request.options = {probeOption};
  return request;
}

CompileRequest requestForLanes(const std::string &file, const std::string &architecture) {
  bool wgmma = file.rfind("wgmma", 0) == 0;
  CompileRequest request{
      file, deviceText(wgmma ? Prelude::Wgmma : Prelude::Portable) + emulator::laneKernelText(file), architecture, {}};
  if (wgmma)
    request.options = {probeOption};
  return request;
}

bool isProbe(const CompileRequest &request) {
  return !request.options.empty();
}

std::vector<char> cubinFor(const CompileRequest &request, const std::string &folder) {
  std::string path = folder.empty() ? "" : pathOf(request, folder);
  if (std::ifstream file(path, std::ios::binary); !path.empty() && file)
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<char> cubin = Nvrtc::open().compile(request).cubin;
  if (!path.empty())
    save(path, cubin);
  return cubin;
}

void makeCubins(const std::vector<CompileRequest> &requests, const std::string &folder) {
  std::filesystem::create_directories(folder);
  std::vector<CompileRequest> missing;
  std::set<std::string> paths;
  for (const CompileRequest &request : requests)
    if (std::string path = pathOf(request, folder); !std::filesystem::exists(path) && paths.insert(path).second)
      missing.push_back(request);
  if (missing.empty())
    return;
  Nvrtc nvrtc = Nvrtc::open();
  // In batches, so that what is made stays when a run is cut short.
  constexpr std::size_t batch = 32;
  for (std::size_t first = 0; first < missing.size(); first += batch) {
    std::span<const CompileRequest> some = std::span(missing).subspan(first, std::min(batch, missing.size() - first));
    std::vector<CompileResult> results = nvrtc.compileAll(some);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!results[i].error.empty())
        throw CudaError(results[i].error);
      save(pathOf(some[i], folder), results[i].cubin);
    }
  }
}

std::size_t prebuild(const std::string &cubins, std::string architecture,
                     const std::function<std::vector<AttentionKernel>(const std::string &)> &kernelsOf) {
  if (architecture.empty())
    architecture = runtime::cuda::Device::open()->architecture();
  std::vector<CompileRequest> requests;
  for (const AttentionKernel &kernel : kernelsOf(architecture)) {
    requests.push_back(requestFor(kernel, Build::Plain, architecture));
    if (CompileRequest probe = requestFor(kernel, Build::Probe, architecture); isProbe(probe))
      requests.push_back(std::move(probe));
  }
  for (const std::string &file : emulator::laneKernelFiles())
    if (file == "lanes.cu" || architecture == "sm_90a")
      requests.push_back(requestForLanes(file, architecture));
  makeCubins(requests, cubins);
  return requests.size();
}

} // namespace tcc::gpu_attention
