// fuse-kernels: puts every computation into tcc.kernel regions.
//   0. give each matmul that reads overlapping windows a copy of its own, so that none is kept from the forward to the
//      backward;
//   1. find what must be in memory: operands of matmuls and results of the function, without the views that matmuls
//      and results can read by strides;
//   2. decide what is recomputed: views, literals, coordinates, and elementwise values whose stored ancestors cost no
//      more to read than the value itself. Such values belong to no group; whoever needs them computes them again.
//      This is what keeps normalised rows, tanh and exp out of memory. Row statistics and matmuls are never
//      recomputed;
//   3. one group for each remaining op;
//   4. repeatedly merge the producer and consumer, or the siblings over one operand, that save the most memory
//      traffic, where analyzeKernel accepts the union and no path leaves and re-enters it. What packs parameters for
//      gathers of two windows (--zero=3) stays apart. Ties by program order;
//   5. write the groups out as tcc.kernel regions (fusion_outline.cpp).
// At -O0 and -O1 step 2 keeps only views, literals and coordinates free; -O0 leaves out step 4 too: one kernel an op.
// -f[no-]fuse-optimizer decides otherwise about updates, the elementwise ops that lead to new states alone.
// It keeps each value's computation as it is, op for op; there is no CSE afterwards.
#include "ir/known_kernels.h"
#include "ir/known_traits.h"
#include "ir/scalar_form.h"
#include "ir/tensor_bytes.h"
#include "passes/collective_order.h"
#include "passes/fusion.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FormatVariadic.h"
#include <queue>

using namespace mlir;

namespace tcc {
namespace {

bool isSource(Operation *op) {
  if (auto literal = dyn_cast<ConstantOp>(op))
    return literal.getValue().isSplat();
  return isa<IotaOp>(op);
}

/// How many scalar steps an elementwise op takes, at least 1; 1 for any other op.
int64_t scalarOps(Operation *op) {
  auto elementwise = dyn_cast<ElementwiseOpInterface>(op);
  std::string refusal;
  const ScalarSteps *form = elementwise ? ScalarForms::of(elementwise, refusal) : nullptr;
  auto isStep = [](const ScalarStep &step) { return step.opcode != Opcode::constant; };
  return form ? std::max<int64_t>(1, llvm::count_if(form->steps, isStep)) : 1;
}

/// The results of elementwise ops and views from which nothing follows but new values of states.
llvm::DenseSet<Value> updatesOf(func::FuncOp function) {
  llvm::DenseSet<Value> updates;
  auto leadsToStates = [&](OpOperand &use) {
    Operation *user = use.getOwner();
    return isa<func::ReturnOp>(user) ? bool(function.getResultAttr(use.getOperandNumber(), updatesAttr))
                                     : user->getNumResults() == 1 && updates.contains(user->getResult(0));
  };
  for (Operation &op : llvm::reverse(function.getBody().front().without_terminator()))
    if (isa<ElementwiseOpInterface, RandomBitsOp, ViewOpInterface>(op) && op.getNumResults() == 1 &&
        llvm::all_of(op.getUses(), leadsToStates))
      updates.insert(op.getResult(0));
  return updates;
}

/// Views from `value` on, and what reads them that is not a view: each reader with the views on its way.
void findReaders(Value value, SmallVector<Operation *> &views,
                 function_ref<void(OpOperand &, ArrayRef<Operation *>)> found) {
  for (OpOperand &use : llvm::make_early_inc_range(value.getUses())) {
    if (!isa<ViewOpInterface>(use.getOwner())) {
      found(use, views);
      continue;
    }
    views.push_back(use.getOwner());
    findReaders(use.getOwner()->getResult(0), views, found);
    views.pop_back();
  }
}

/// Gives each matmul but the first one windows of its own where windows overlap: what is written for one matmul would
/// lie in memory until the last one, many times as large as the tensor that it shows. Returns all that they read.
llvm::DenseSet<Value> separateWindows(func::FuncOp function) {
  llvm::DenseSet<Value> all;
  function.walk([&](WindowOp window) {
    if (tensorType(window.getResult()).getNumElements() <= tensorType(window.getX()).getNumElements())
      return;
    SmallVector<std::pair<OpOperand *, SmallVector<Operation *>>> products;
    SmallVector<Operation *> views{window};
    findReaders(window.getResult(), views, [&](OpOperand &use, ArrayRef<Operation *> way) {
      if (isa<StructuredOpInterface>(use.getOwner()) && use.getOwner()->getBlock() == window->getBlock())
        products.push_back({&use, SmallVector<Operation *>(way)});
    });
    llvm::sort(products, [](auto &one, auto &other) {
      Operation *first = one.first->getOwner(), *second = other.first->getOwner();
      return first != second && first->isBeforeInBlock(second);
    });
    for (auto [i, product] : llvm::enumerate(products)) {
      auto &[use, way] = product;
      OpBuilder builder(use->getOwner());
      IRMapping own;
      for (Operation *view : way)
        all.insert((i == 0 ? view : builder.clone(*view, own))->getResult(0));
      use->set(own.lookupOrDefault(use->get()));
    }
  });
  return all;
}

class Fuser : Fusion {
public:
  Fuser(func::FuncOp function, const PipelineOptions &options)
      : Fusion(function, options.target.views), level(options.level), fusesUpdates(options.fusesUpdates()),
        target(options.target), remarks(options.remarks), checks(options.verifyEach || options.checkForms) {
    if (fusesUpdates != (level > 0))
      updates = updatesOf(function);
  }

  LogicalResult run() {
    windows = separateWindows(function);
    if (failed(makeAllGroups()))
      return failure();
    if (failed(outlineGroups(*this)))
      return failure();
    if (remarks)
      addFusionRemarks(*this, *remarks);
    return success();
  }

  FailureOr<SmallVector<Value>> stored(const llvm::DenseSet<Value> &values) {
    level = 2;
    narrow = &values;
    if (failed(makeAllGroups()))
      return failure();
    SmallVector<Value> list;
    for (auto [i, group] : llvm::enumerate(groups))
      if (group.alive)
        llvm::append_range(list, resultsOf(group, i));
    llvm::sort(list, [&](Value a, Value b) { return order[a.getDefiningOp()] < order[b.getDefiningOp()]; });
    return list;
  }

private:
  int level;
  bool fusesUpdates;
  const TargetModel &target;
  Remarks *remarks;
  bool checks;
  const llvm::DenseSet<Value> *narrow = nullptr;       // values whose elements count as 16 bits
  llvm::DenseMap<Value, SmallVector<Value, 4>> leaves; // of free values: the stored values they are computed from
  llvm::DenseMap<Operation *, int64_t> ownOps;         // of elementwise ops: scalar steps
  llvm::DenseMap<Type, int64_t> bytesOfType;
  llvm::DenseSet<Value> freeValues;
  llvm::DenseSet<Value> windows;                       // overlapping windows that matmuls read
  llvm::DenseMap<Value, Attribute> windowOfParameters; // of what packs parameters that are gathered (--zero=3)
  llvm::DenseSet<Value> updates;                       // those of updatesOf, if the level decides otherwise about them
  std::vector<int64_t> savedWith;                      // by group: what pushCandidates has added up so far, else 0

  int64_t bytesOf(Value value) {
    RankedTensorType type = tensorType(value);
    if (narrow && narrow->contains(value))
      return type.getNumElements() * 2;
    const auto [known, isNew] = bytesOfType.try_emplace(type, 0);
    if (isNew)
      known->second = type.getNumElements() * std::max(1u, type.getElementTypeBitWidth() / 8);
    return known->second;
  }

  LogicalResult makeAllGroups() {
    findGathered();
    findMemoryValues();
    if (failed(startGroups()))
      return failure();
    if (level > 0 || fusesUpdates)
      mergeGroups();
    return success();
  }

  //===- step 1 ------------------------------------------------------------------------------------------------===//

  /// All reshapes of one value share its memory.
  void requireInMemory(Value root, Operation *user) {
    while (auto reshape = root.getDefiningOp<ReshapeOp>())
      root = reshape.getX();
    inMemory.insert(root);
    structuredUsers[root].push_back(user);
    structuredOperands[user].push_back(root);
  }

  void findMemoryValues() {
    for (auto [i, op] : llvm::enumerate(block)) {
      order[&op] = i;
      ownOps[&op] = scalarOps(&op);
      if (isa<StructuredOpInterface>(op))
        structuredOperands[&op];
      for (Value root : memoryOperands(&op, views))
        requireInMemory(root, &op);
      // Read or written at computed rows, by a kernel.
      if (auto gather = dyn_cast<GatherOp>(op))
        inMemory.insert(gather.getTable());
      else if (auto scatter = dyn_cast<ScatterAddOp>(op))
        inMemory.insert(scatter.getBase());
    }
  }

  //===- step 2 ------------------------------------------------------------------------------------------------===//

  void addLeaves(Value operand, llvm::SmallSetVector<Value, 4> &set) const {
    if (!freeValues.contains(operand)) {
      set.insert(operand);
      return;
    }
    auto known = leaves.find(operand);
    set.insert(known->second.begin(), known->second.end());
  }

  /// How many scalar steps the free elementwise ops take that a kernel of `op` computes before it, each op counted
  /// once. Counting stops above `most`: a result of `most` + 1 means "more than `most`".
  int64_t opsBefore(Operation &op, int64_t most) const {
    constexpr size_t mostViews = 16; // looked through for each op that counts
    llvm::SmallPtrSet<Operation *, 16> seen;
    SmallVector<Operation *> work{&op};
    int64_t count = 0;
    while (!work.empty() && count <= most) {
      for (Value operand : work.pop_back_val()->getOperands()) {
        if (!freeValues.contains(operand) || !seen.insert(operand.getDefiningOp()).second)
          continue;
        work.push_back(operand.getDefiningOp());
        if (isa<ElementwiseOpInterface, RandomBitsOp>(operand.getDefiningOp()))
          count += ownOps.lookup(operand.getDefiningOp());
      }
      if (seen.size() > mostViews * (most + 1))
        return most + 1;
    }
    return std::min(count, most + 1);
  }

  void classify() {
    freeValues.clear();
    leaves.clear();
    for (Operation &op : block.without_terminator()) {
      if (isa<StructuredOpInterface>(op) || op.getNumResults() != 1)
        continue;
      Value value = op.getResult(0);
      bool view = knownTrait<ViewOp>(&op), source = isSource(&op);
      bool elementwise = isa<ElementwiseOpInterface, RandomBitsOp>(op);
      if (inMemory.contains(value) || !(view || source || elementwise))
        continue;
      llvm::SmallSetVector<Value, 4> set;
      for (Value operand : op.getOperands())
        addLeaves(operand, set);
      int64_t bytes = 0;
      for (Value leaf : set)
        bytes += bytesOf(leaf);
      // An i1 takes few bytes, but a kernel that stores one for later makes its readers load one value more. So storing
      // an i1 counts as much as storing an f32.
      bool isCondition = tensorType(value).getElementType().isInteger(1);
      int64_t worth = isCondition ? 4 * tensorType(value).getNumElements() : bytesOf(value);
      bool cheap = bytes <= std::max(worth + worth / 4, target.alwaysRecomputed);
      if (!(view || source) &&
          (level < 2 || updates.contains(value) || !cheap ||
           static_cast<int64_t>(set.size()) > target.mostRecomputedFrom ||
           ownOps.lookup(&op) + opsBefore(op, target.longestRecomputation) > target.longestRecomputation))
        continue;
      freeValues.insert(value);
      leaves[value].assign(set.begin(), set.end());
    }
  }

  //===- step 3 ------------------------------------------------------------------------------------------------===//

  /// Steps 2 and 3. An op that has no kernel form together with its free operands, such as a slice of a concat of a
  /// reshape whose sizes do not nest, gets them from memory instead; then all starts again.
  LogicalResult startGroups() {
    while (true) {
      classify();
      makeGroups();
      std::string refusal;
      Operation *refused = findRefused(refusal);
      if (!refused)
        return success();
      size_t known = inMemory.size();
      for (Value operand : refused->getOperands())
        if (freeValues.contains(operand) && !isSource(operand.getDefiningOp()))
          inMemory.insert(operand);
      if (inMemory.size() == known)
        return refused->emitOpError() << "has no kernel form: " << refusal;
    }
  }

  /// An op whose group of its own has no kernel form.
  Operation *findRefused(std::string &refusal) {
    for (auto [i, group] : llvm::enumerate(groups))
      if (group.alive && !hasForm({group.results, group.arguments.getArrayRef()}, refusal))
        return group.values[0].getDefiningOp();
    return nullptr;
  }

  void makeGroups() {
    groups.clear();
    groups.reserve(2 * order.size()); // each merging adds one and ends two
    groupOf.clear();
    users.clear();
    for (Operation &op : block.without_terminator()) {
      if (isa<StructuredOpInterface>(op) || op.getNumResults() != 1 || freeValues.contains(op.getResult(0)))
        continue;
      if (auto literal = dyn_cast<ConstantOp>(op); literal && !literal.getValue().isSplat())
        continue; // a literal in memory
      FusionGroup group;
      group.first = group.last = order[&op];
      group.values.push_back(op.getResult(0));
      group.ops = ownOps.lookup(&op) + opsBefore(op, target.mostKernelOps);
      std::string refusal; // which hasForm will give
      group.space.add(&op, refusal);
      llvm::SmallSetVector<Value, 4> set;
      for (Value operand : op.getOperands())
        addLeaves(operand, set);
      group.arguments.insert(set.begin(), set.end());
      unsigned id = groups.size();
      groupOf[op.getResult(0)] = id;
      for (Value argument : group.arguments)
        users[argument].insert(id);
      groups.push_back(std::move(group));
    }
    // A value that nobody reads needs no group; the reverse order frees whole chains.
    for (size_t i = groups.size(); i-- > 0;) {
      groups[i].results = resultsOf(groups[i], i);
      if (groups[i].results.empty())
        retire(i);
    }
  }

  void retire(unsigned id) {
    groups[id].alive = false;
    for (Value argument : groups[id].arguments)
      users[argument].erase(id);
  }

  /// Whether a group's kernel has a form that fits the target, or, for a kernel of one op, any.
  bool hasForm(const KernelView &kernel, std::string &refusal, bool isMerged = false) {
    if (static_cast<int64_t>(kernel.results.size() + kernel.arguments.size()) > target.mostKernelOperands) {
      refusal = "expected at most " + std::to_string(target.mostKernelOperands) + " operands and results";
      return false;
    }
    std::shared_ptr<const KnownKernel> found = KernelForms::of(function.getContext(), kernel, checks);
    refusal = found->refusal;
    return found->form && (!isMerged || fitsTarget(*found->form, refusal));
  }

  //===- step 4 ------------------------------------------------------------------------------------------------===//

  struct Candidate {
    int64_t gain;
    unsigned a, b; // a < b; group numbers
    bool operator<(const Candidate &other) const {
      return std::tie(gain, other.a, other.b) < std::tie(other.gain, a, b);
    }
  };

  /// The earlier groups that the group could be merged with, thus each pair once, and the bytes of memory traffic that
  /// this would save. One walk over what the group reads and stores adds them up for all partners.
  void pushCandidates(unsigned id, std::priority_queue<Candidate> &queue) {
    SmallVector<unsigned, 32> partners;
    auto isPartner = [&](unsigned other) { return other < id && groups[other].alive; };
    auto add = [&](unsigned partner, int64_t bytes) {
      if (savedWith[partner] == 0)
        partners.push_back(partner);
      savedWith[partner] += bytes;
    };
    // What one computes for the other is no longer read, and where nobody else needs it no longer written either.
    auto passedOn = [&](Value value, unsigned partner) {
      return bytesOf(value) * (isResult(value, id, partner) ? 1 : 2);
    };
    savedWith.resize(groups.size());
    SmallVector<Value> readByMany; // whose readers are no partners for that alone
    for (Value argument : groups[id].arguments) {
      if (auto producer = groupOf.find(argument); producer != groupOf.end() && isPartner(producer->second))
        add(producer->second, passedOn(argument, producer->second));
      auto readers = users.find(argument);
      if (readers == users.end())
        continue;
      if (static_cast<int64_t>(readers->second.size()) > target.mostSiblings) {
        readByMany.push_back(argument);
        continue;
      }
      const int64_t bytes = bytesOf(argument);
      for (unsigned reader : readers->second)
        if (isPartner(reader))
          add(reader, bytes);
    }
    for (Value result : groups[id].results)
      if (auto readers = users.find(result); readers != users.end())
        for (unsigned reader : readers->second)
          if (isPartner(reader))
            add(reader, passedOn(result, reader));
    for (unsigned partner : partners) {
      int64_t gain = std::exchange(savedWith[partner], 0);
      for (Value argument : readByMany)
        if (groups[partner].arguments.contains(argument))
          gain += bytesOf(argument);
      if (gain > 0)
        queue.push({gain, partner, id});
    }
  }

  /// Limits that a kernel of one op may exceed, but no merged one.
  bool fitsTarget(const KernelInfo &form, std::string &refusal) const {
    bool scatters =
        llvm::any_of(form.stores, [](const KernelStore &store) { return store.kind == KernelStore::Kind::scatterAdd; });
    if (form.stages > 1 && form.space.columns > target.longestKeptRow)
      refusal = llvm::formatv("expected rows of at most {0} elements in a kernel of several passes over them",
                              target.longestKeptRow);
    else if (scatters && (form.stores.size() > 1 || form.stages > 1) && target.scatterAlone)
      refusal = "expected scatter_add to be alone in its kernel";
    else
      return true;
    return false;
  }

  bool refuse(const Candidate &candidate, const Twine &reason) {
    if (remarks)
      refusals[{candidate.a, candidate.b}] = {reason.str(), candidate.gain};
    return false;
  }

  /// What a kernel of two groups reads from memory.
  SmallVector<Value> argumentsOf(unsigned a, unsigned b) const {
    SmallVector<Value> arguments;
    for (unsigned id : {a, b})
      for (Value argument : groups[id].arguments) {
        auto producer = groupOf.find(argument);
        bool isInside = producer != groupOf.end() && (producer->second == a || producer->second == b);
        if (!isInside && (id == a || !groups[a].arguments.contains(argument)))
          arguments.push_back(argument);
      }
    return arguments;
  }

  /// Whether the level, or -f[no-]fuse-optimizer, lets the group share a kernel.
  bool mayShare(unsigned id) const { return updates.contains(groups[id].values.front()) ? fusesUpdates : level > 0; }

  /// Adds to `space` what both groups demand, and says whether one iteration space has it all and has places for the
  /// results. Of many pairs this tells, without a look at their ops, that analyzeKernel would refuse them. What a
  /// kernel computes again is never a reduction, so nothing else is demanded.
  bool fitOneSpace(unsigned a, unsigned b, ArrayRef<Value> results, DemandedSpace &space, std::string &refusal) const {
    space = groups[a].space;
    if (!space.add(groups[b].space, refusal) || !space.agree(refusal))
      return false;
    const std::optional<KernelSpace> dictated = space.space();
    auto hasPlace = [&](Value result) {
      Operation *op = result.getDefiningOp();
      return isa<ReshapeOp, ScatterAddOp>(op) || isColumnReduction(op) ||
             hasPlaces(*dictated, tensorType(result).getNumElements());
    };
    if (!dictated || llvm::all_of(results, hasPlace))
      return true;
    refusal = "expected every result to have one element for each row or each element of the iteration space";
    return false;
  }

  /// With which window of parameters (--zero=3) values are gathered, or what views make of them.
  void findGathered() {
    for (Operation &op : llvm::reverse(block)) {
      Attribute window = op.getAttr(parameterAttr);
      if (!window && isa<ViewOpInterface>(op) && op.getNumResults() == 1)
        window = windowOfParameters.lookup(op.getResult(0));
      if (window)
        for (Value operand : op.getOperands())
          windowOfParameters[operand] = window;
    }
  }
  /// The window of parameters for which the group packs this rank's parts; null for others.
  Attribute gatheredWith(unsigned id) const {
    for (Value result : groups[id].results)
      if (Attribute window = windowOfParameters.lookup(result))
        return window;
    return {};
  }

  bool tryMerge(const Candidate &candidate, FusionPaths &paths) {
    auto [gain, a, b] = candidate;
    if (!mayShare(a) || !mayShare(b))
      return false;
    // One kernel for the forward and the backward would let the forward wait for gathers of the backward.
    if (const Attribute window = gatheredWith(a), other = gatheredWith(b); window && other && window != other)
      return refuse(candidate, "expected parameters that are gathered together");
    if (groups[a].ops + groups[b].ops > target.mostKernelOps)
      return refuse(candidate, llvm::formatv("expected at most {0} ops in a kernel", target.mostKernelOps));
    SmallVector<Value> results = resultsOf(a, b);
    DemandedSpace space;
    std::string refusal;
    if (!fitOneSpace(a, b, results, space, refusal)) {
      if (checks && KernelForms::of(function.getContext(), {results, argumentsOf(a, b)}, checks)->form)
        llvm::report_fatal_error("a kernel was refused for its space, and it has a form");
      return refuse(candidate, refusal);
    }
    if (paths.hasOuterPath(a, b) || paths.hasOuterPath(b, a))
      return refuse(candidate, "expected nothing between the two that needs the one and is needed by the other");
    auto hasWindows = [&](unsigned id) {
      return llvm::any_of(groups[id].results, [&](Value value) { return windows.contains(value); });
    };
    if (hasWindows(a) && hasWindows(b))
      return refuse(candidate, "expected windows of one product in a kernel, for they are large");
    SmallVector<Value> arguments = argumentsOf(a, b);
    if (!hasForm({results, arguments}, refusal, /*isMerged=*/true))
      return refuse(candidate, refusal);
    unsigned id = groups.size();
    retire(a);
    retire(b);
    FusionGroup merged;
    merged.first = std::min(groups[a].first, groups[b].first);
    merged.last = std::max(groups[a].last, groups[b].last);
    merged.ops = groups[a].ops + groups[b].ops;
    merged.space = space;
    merged.values = std::move(groups[a].values);
    llvm::append_range(merged.values, groups[b].values);
    merged.arguments.insert(arguments.begin(), arguments.end());
    merged.results = std::move(results);
    for (Value value : merged.values)
      groupOf[value] = id;
    for (Value argument : merged.arguments)
      users[argument].insert(id);
    groups.push_back(std::move(merged));
    paths.merged(a, b, id);
    return true;
  }

  void mergeGroups() {
    FusionPaths paths(*this);
    std::priority_queue<Candidate> queue;
    for (unsigned id = 0; id < groups.size(); ++id)
      if (groups[id].alive)
        pushCandidates(id, queue);
    while (!queue.empty()) {
      Candidate candidate = queue.top();
      queue.pop();
      if (groups[candidate.a].alive && groups[candidate.b].alive && tryMerge(candidate, paths))
        pushCandidates(groups.size() - 1, queue);
    }
  }
};

} // namespace

FailureOr<SmallVector<Value>> storedByKernels(func::FuncOp function, const PipelineOptions &options,
                                              const llvm::DenseSet<Value> &narrow) {
  return Fuser(function, options).stored(narrow);
}

/// 8-bit floats are of the language, the interpreter and custom code alone.
static LogicalResult refuseEightBit(func::FuncOp function, StringRef target) {
  auto eightBit = [](Value value) {
    auto type = dyn_cast<FloatType>(tensorType(value).getElementType());
    return type && type.getWidth() == 8;
  };
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (isa<CustomOp>(op))
      continue;
    for (ValueRange values : {ValueRange(op.getOperands()), ValueRange(op.getResults())})
      if (auto found = llvm::find_if(values, eightBit); found != values.end())
        return op.emitOpError() << "is of " << tensorType(*found).getElementType() << ", for which target '" << target
                                << "' has no code; it has f32, bf16, f16, i1, i32 and i64, and --run=reference all";
  }
  return success();
}

LogicalResult fuseKernels(func::FuncOp function, const PipelineOptions &options) {
  if (failed(refuseEightBit(function, options.target.name)))
    return failure();
  return Fuser(function, options).run();
}

} // namespace tcc
