#include "program.h"

#include <algorithm>
#include <cmath>

namespace tcc::gpu_attention {

using namespace tcc::cuda;
using namespace tcc::attention_test;

const char *nameOf(Variant variant) {
  constexpr const char *names[] = {"portable", "hopper", "hopper overlapped", "hopper switched"};
  return names[int(variant)];
}

AttentionKernel kernelFor(const Problem &problem, AttentionPass pass, const std::string &architecture,
                          Variant variant) {
  AttentionCase of = caseOf(problem, pass);
  AttentionTiles tiles = *chooseAttention(of, variant == Variant::Portable ? "sm_80" : architecture, problem.keys);
  if (tiles.path == AttentionPath::Hopper && variant >= Variant::Overlapped) {
    bool forward = pass == AttentionPass::Forward;
    tiles.overlap = true;
    tiles.persistent = variant == Variant::Switched;
    tiles.pingPong = tiles.persistent && forward;
    // The wider head's registers do not hold what counting by three takes.
    tiles.stages = forward || problem.headDim == 128 ? tiles.stages : 3;
  }
  return *attentionKernel(of, tiles);
}

std::vector<Variant> variantsOf(const Problem &problem, const std::string &architecture) {
  std::vector<Variant> variants = {Variant::Portable};
  bool hopper = std::any_of(std::begin(allPasses), std::end(allPasses), [&](AttentionPass pass) {
    return chooseAttention(caseOf(problem, pass), architecture, problem.keys)->path == AttentionPath::Hopper;
  });
  if (hopper)
    variants.insert(variants.end(), {Variant::Chosen, Variant::Overlapped, Variant::Switched});
  return variants;
}

Problem problemOf(int headDim, int length, bool causal, int batch, int heads) {
  Problem problem;
  problem.headDim = headDim;
  problem.queries = problem.keys = length;
  problem.causal = causal;
  problem.batch = batch;
  problem.heads = heads;
  problem.scale = 1 / std::sqrt(double(headDim));
  return problem;
}

std::vector<SelfTest> selfTests(bool rehearsal) {
  std::vector<SelfTest> tests;
  for (Variant variant : allVariants)
    for (int headDim : {64, 128, 32, 96})
      for (int length : {64, 65, 200, 1024}) {
        // Only d = 64 and 128 have Hopper's kernels and their switches.
        if ((rehearsal && length > 200) || (variant >= Variant::Overlapped && headDim % 64))
          continue;
        // The double-precision reference takes seconds at 1024.
        tests.push_back({problemOf(headDim, length, true, length > 200 ? 1 : 2, 2), true, variant});
        if (length != 1024)
          tests.push_back({problemOf(headDim, length, false, 2, 2), false, variant});
        Problem special = problemOf(headDim, length, length % 2 == 0, 2, 6);
        special.element = headDim % 64 ? Element::F16 : Element::Bf16;
        special.group = 3;
        special.dropout = 0.1;
        special.keys = length * 2 / 3;
        special.diagonal = special.keys - special.queries;
        if (length == 200)
          tests.push_back({special, true, variant});
        Problem window = problemOf(headDim, length, true, 2, 2);
        window.window = 70;
        if (length == 200)
          tests.push_back({window, false, variant});
      }
  return tests;
}

std::vector<SelfTest> smallTests() {
  std::vector<SelfTest> tests;
  for (Variant variant : allVariants)
    for (int headDim : {64, 128}) {
      Problem problem = problemOf(headDim, 200, true, 1, 2);
      problem.group = 2;
      problem.dropout = 0.1;
      tests.push_back({problem, true, variant});
    }
  return tests;
}

std::vector<Problem> benchProblems(bool rehearsal) {
  std::vector<Problem> problems;
  for (int headDim : {64, 128})
    for (int length : {512, 1024, 2048, 4096, 8192, 16384})
      for (bool causal : {true, false}) {
        if (rehearsal && length > 512)
          continue;
        // Rows · heads · headDim stay those of 768 heads of 1024 rows at headDim 64.
        int heads = rehearsal ? 1 : 768 * 1024 / length * 64 / headDim;
        problems.push_back(problemOf(headDim, length, causal, heads % 16 ? 1 : heads / 12, heads % 16 ? heads : 12));
      }
  return problems;
}

std::vector<Problem> sweepProblems(bool rehearsal) {
  if (rehearsal)
    return {problemOf(64, 200, true, 1, 1)};
  return {problemOf(64, 1024, true, 64, 12), problemOf(64, 4096, false, 16, 12), problemOf(128, 4096, true, 8, 12)};
}

namespace {

/// Every combination of switches that a pass has, the overlapped backward with three stages as well.
void addSwitched(std::vector<AttentionTiles> &candidates, AttentionPass pass, const Problem &problem,
                 AttentionTiles tiles) {
  bool forward = pass == AttentionPass::Forward;
  bool causal = problem.causal;
  for (bool persistent : {false, true})
    for (bool overlap : {false, true})
      for (bool turns : {false, true})
        for (bool shortest : {false, true}) {
          if ((turns && !(forward && overlap)) || (shortest && (forward || !causal)))
            continue;
          tiles.persistent = persistent;
          tiles.overlap = overlap;
          tiles.pingPong = turns;
          tiles.shortestFirst = shortest;
          candidates.push_back(tiles);
          if (!forward && overlap && problem.headDim == 64) {
            candidates.push_back(tiles);
            candidates.back().stages = 3;
          }
        }
}

} // namespace

std::vector<AttentionTiles> candidatesFor(const Problem &problem, AttentionPass pass, const std::string &architecture) {
  AttentionTiles chosen = *chooseAttention(caseOf(problem, pass), architecture, problem.keys);
  if (chosen.path != AttentionPath::Hopper)
    return {};
  std::vector<AttentionTiles> candidates;
  auto add = [&](int warps, int columns, int stages) {
    addSwitched(candidates, pass, problem, {AttentionPath::Hopper, warps, 1, columns, 1, stages});
  };
  bool narrow = problem.headDim == 64;
  if (pass == AttentionPass::Forward) {
    if (narrow)
      for (int warps : {8, 12})
        for (int stages : {2, 4})
          add(warps, 128, stages);
    else
      for (auto [columns, stages] : {std::pair(128, 2), {64, 2}, {64, 4}})
        add(8, columns, stages);
  } else if (pass == AttentionPass::BackwardQuery) {
    add(8, narrow ? 128 : 64, 2);
  } else {
    add(8, 64, 2);
    if (narrow)
      add(8, 128, 2);
  }
  return candidates;
}

std::vector<AttentionKernel> allKernels(const std::string &architecture) {
  std::vector<AttentionKernel> kernels;
  auto add = [&](AttentionKernel kernel) {
    bool known = std::any_of(kernels.begin(), kernels.end(),
                             [&](const AttentionKernel &other) { return other.text == kernel.text; });
    if (!known)
      kernels.push_back(std::move(kernel));
  };
  auto addAll = [&](const Problem &problem, Variant variant) {
    for (AttentionPass pass : allPasses)
      add(kernelFor(problem, pass, architecture, variant));
  };
  for (const std::vector<SelfTest> &tests : {selfTests(false), smallTests()})
    for (const SelfTest &test : tests)
      addAll(test.problem, test.variant);
  for (const Problem &problem : benchProblems(false))
    for (Variant variant : variantsOf(problem, architecture))
      addAll(problem, variant);
  for (const Problem &problem : sweepProblems(false))
    for (AttentionPass pass : allPasses)
      for (const AttentionTiles &tiles : candidatesFor(problem, pass, architecture))
        add(*attentionKernel(caseOf(problem, pass), tiles));
  return kernels;
}

Memory::Memory(Backend &backend, const Problem &problem, bool packed)
    : backend(backend), problem(problem), packed(packed) {
  for (int i = 0; i < tensorCount; ++i)
    bases[i] = backend.allocate(placeOf(problem, Tensor(i), packed).elements * 2);
  arguments = argumentsOf(problem, packed, bases);
  rows = std::size_t(problem.batch) * problem.heads * problem.queries;
  std::size_t padded = std::size_t(attentionWorkspace(arguments, problem.batch));
  arguments.logSumExp = static_cast<float *>(backend.allocate(rows * 4));
  arguments.rowShift = static_cast<float *>(backend.allocate(padded * 4));
  arguments.rowDelta = static_cast<float *>(backend.allocate(padded * 4));
  auto *words = static_cast<unsigned *>(backend.allocate(12));
  backend.write(words, problem.seed, 8);
  backend.write(words + 2, &problem.first, 4);
  arguments.seedLow = words;
  arguments.seedHigh = words + 1;
  arguments.first = reinterpret_cast<int *>(words + 2);
}

void Memory::fill(Tensor tensor, const std::vector<double> &dense) {
  Place place = placeOf(problem, tensor, packed);
  backend.write(bases[int(tensor)], scatter(problem, place, dense).data(), place.elements * 2);
}

std::vector<double> Memory::get(Tensor tensor) {
  return gather(problem, placeOf(problem, tensor, packed), bits(tensor).data());
}

std::vector<std::uint16_t> Memory::bits(Tensor tensor) {
  std::vector<std::uint16_t> buffer(placeOf(problem, tensor, packed).elements);
  backend.read(buffer.data(), bases[int(tensor)], buffer.size() * 2);
  return buffer;
}

void Memory::poison(Tensor tensor) {
  std::vector<std::uint16_t> buffer(placeOf(problem, tensor, packed).elements, 0x7fff);
  backend.write(bases[int(tensor)], buffer.data(), buffer.size() * 2);
}

} // namespace tcc::gpu_attention
