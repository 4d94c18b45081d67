// Code is kept by its key: all that it is made of, in full and not as a hash.
#include "codegen/cpu/shared_code.h"
#include "codegen/cpu/kernel_plan.h"
#include "codegen/cpu/machine_code.h"
#include "codegen/cpu/node_values.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ObjCopy/ConfigManager.h"
#include "llvm/ObjCopy/ObjCopy.h"
#include "llvm/Object/Binary.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/MemoryBuffer.h"
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>

namespace tcc::cpu {
namespace {

//===- forms ---------------------------------------------------------------------------------------------------===//

/// The number of rows of a shared form: the least that is not one, since a kernel of one row has other loops.
constexpr int64_t someRows = 2;

/// Calls back with each index expression of the form.
template <typename Form, typename Visit>
void forEachIndex(Form &form, Visit visit) {
  for (auto &node : form.nodes)
    visit(node.index);
  for (auto &derived : form.derived)
    visit(derived.value);
  for (auto &store : form.stores)
    visit(store.index);
}

/// Whether code can compute the index without knowing the number of rows: it is one of rows (or of outer blocks) alone,
/// or one of lines, outer · rows + row.
bool isFreeOfRows(const IndexExpr &expr, int64_t rows) {
  if (!expr.dependsOn(axis::outer) || !expr.dependsOn(axis::row))
    return true;
  int64_t ofOuter = 0, ofRow = 0;
  return expr.isAffineIn(axis::outer, ofOuter) && expr.isAffineIn(axis::row, ofRow) && ofOuter == rows * ofRow;
}

/// The same index with `someRows` rows.
void forgetRows(IndexExpr &expr) {
  int64_t ofRow = 0;
  const bool isOfLines = expr.dependsOn(axis::outer) && expr.dependsOn(axis::row) && expr.isAffineIn(axis::row, ofRow);
  for (IndexTerm &term : expr.terms) {
    if (term.axis == axis::row)
      term.extent = term.modulus != 0 ? term.modulus : someRows;
    if (term.axis == axis::outer && isOfLines)
      term.coefficient = someRows * ofRow;
  }
}

//===- keys ----------------------------------------------------------------------------------------------------===//

/// Members in their order; what has several is preceded by how many. A new member does not compile until it is named.
class Bytes {
public:
  std::string text;

  template <typename Number>
    requires(std::is_integral_v<Number> || std::is_enum_v<Number>)
  void add(Number number) {
    const auto wide = static_cast<int64_t>(number);
    text.append(reinterpret_cast<const char *>(&wide), sizeof wide);
  }
  void add(const IndexTerm &term) {
    const auto &[axis, coefficient, divisor, modulus, extent] = term;
    all(axis, coefficient, divisor, modulus, extent);
  }
  void add(const IndexExpr &expr) {
    const auto &[constant, terms] = expr;
    all(constant, terms);
  }
  void add(const KernelTensor &tensor) {
    const auto &[type, elements] = tensor;
    all(type, elements);
  }
  void add(const DerivedAxis &derived) {
    const auto &[value, extent] = derived;
    all(value, extent);
  }
  void add(const ScalarLiteral &literal) {
    add(literal.asInteger()); // all of its bits
  }
  void add(const ScalarStep &step) {
    const auto &[opcode, type, operands, literal] = step;
    all(opcode, type, operands, literal);
  }
  void add(const ScalarSteps &scalar) {
    const auto &[steps, result] = scalar;
    all(steps, result);
  }
  void add(const KernelNode &node) {
    const auto &[kind, type, operands, argument, index, gatherStride, gatherRows, guards, guardCounts, value, stream,
                 steps, reduction, perColumn, stage] = node;
    all(kind, type, operands, argument, index, gatherStride, gatherRows, guards, guardCounts, value, stream, steps,
        reduction, perColumn, stage);
  }
  void add(const KernelStore &store) {
    const auto &[kind, node, index, perColumn, reduction, scatterRow, scatterBase, scatterStride, scatterRows] = store;
    all(kind, node, index, perColumn, reduction, scatterRow, scatterBase, scatterStride, scatterRows);
  }
  void add(const KernelInfo &form) {
    const auto &[space, arguments, results, derived, nodes, stores, stages] = form;
    const auto &[outer, rows, columns] = space;
    all(outer, rows, columns, arguments, results, derived, nodes, stores, stages);
  }

private:
  template <typename List>
    requires requires(const List &list) { list.begin(); }
  void add(const List &list) {
    add(list.size());
    for (const auto &entry : list)
      add(entry);
  }
  template <typename... Members>
  void all(const Members &...members) {
    (add(members), ...);
  }
};

//===- what is known -------------------------------------------------------------------------------------------===//

/// The objects that this process has compiled, up to a number of bytes: then all go.
class KnownObjects {
public:
  std::shared_ptr<const std::string> find(const std::string &key) {
    const std::lock_guard lock(mutex);
    const auto known = objects.find(key);
    return known == objects.end() ? nullptr : known->second;
  }
  void add(const std::string &key, std::shared_ptr<const std::string> object) {
    const std::lock_guard lock(mutex);
    const size_t more = key.size() + object->size();
    if (bytes + more > mostBytes) {
      objects.clear();
      bytes = 0;
    }
    if (objects.emplace(key, std::move(object)).second)
      bytes += more;
  }

  void clear() {
    const std::lock_guard lock(mutex);
    objects.clear();
    bytes = 0;
  }

private:
  static constexpr size_t mostBytes = size_t(64) << 20;
  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<const std::string>> objects;
  size_t bytes = 0;
};

KnownObjects &knownObjects() {
  static KnownObjects known;
  return known;
}

/// The object with `symbol` as the name of its function, and with its number of rows under a name of its own.
runtime::Expected<std::string> renamed(const std::string &object, llvm::StringRef symbol, llvm::StringRef rows) {
  auto binary = llvm::object::createBinary(llvm::MemoryBufferRef(object, symbol));
  if (!binary)
    return runtime::Error(llvm::toString(binary.takeError()));
  llvm::objcopy::ConfigManager config;
  config.Common.InputFilename = config.Common.OutputFilename = symbol;
  config.Common.SymbolsToRename[sharedSymbol] = symbol;
  config.Common.SymbolsToRename[rowsSymbol] = rows;
  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  if (llvm::Error problem = llvm::objcopy::executeObjcopyOnBinary(config, **binary, stream))
    return runtime::Error(llvm::toString(std::move(problem)));
  return bytes.str().str();
}

} // namespace

SharedForm sharedForm(KernelInfo form) {
  const KernelSpace &space = form.space;
  const bool readsRows = form.hasColumnResult(); // its rows are a loop of its own; else threads divide them
  bool mayForget = space.rows >= someRows && space.rows <= mostRows && (readsRows || space.outer == 1);
  forEachIndex(form, [&](const IndexExpr &expr) {
    mayForget &= fitsIn32(form, expr) && isFreeOfRows(expr, space.rows); // 64 bits are other code
  });
  if (!mayForget)
    return {std::move(form), std::nullopt};
  const int64_t rows = space.rows;
  form.space.rows = someRows;
  forEachIndex(form, forgetRows);
  for (std::vector<KernelTensor> *tensors : {&form.arguments, &form.results})
    for (KernelTensor &tensor : *tensors)
      tensor.elements = std::min<int64_t>(tensor.elements, 1); // whether there is one is all that code knows
  return {std::move(form), readsRows ? std::optional(rows) : std::nullopt};
}

std::string bytesOf(const KernelInfo &form) {
  Bytes bytes;
  bytes.add(form);
  return std::move(bytes.text);
}

SharedCode::SharedCode(llvm::ArrayRef<KernelSource> kernels, const EmitOptions &options) : options(options) {
  const runtime::Expected<std::string> machine = machineKey(options); // its error is compileMissing's too
  for (const KernelSource &kernel : kernels) {
    Part part;
    part.symbol = symbolOf(kernel);
    if (const auto *written = std::get_if<TextKernel>(&kernel)) {
      part.source = TextKernel{sharedSymbol, written->text};
      part.key = "text " + written->text;
    } else {
      const auto &formed = std::get<FormKernel>(kernel);
      SharedForm shared = sharedForm(formed.form);
      part.rows = shared.rows;
      part.key = (shared.rows ? "form of any rows " : "form ") + bytesOf(shared.form) + formed.tuning + '\n';
      part.source = FormKernel{.symbol = sharedSymbol, .form = std::move(shared.form), .tuning = formed.tuning};
    }
    part.key += machine ? *machine : std::string();
    if (machine)
      part.object = knownObjects().find(part.key);
    parts.push_back(std::move(part));
  }
}

void SharedCode::forget() {
  knownObjects().clear();
}

std::vector<size_t> SharedCode::missing() const {
  std::vector<size_t> numbers;
  for (auto [i, part] : llvm::enumerate(parts))
    if (!part.object)
      numbers.push_back(i);
  return numbers;
}

void SharedCode::add(size_t i, std::string object) {
  parts[i].object = std::make_shared<const std::string>(std::move(object));
  knownObjects().add(parts[i].key, parts[i].object);
}

/// About how long a kernel takes to compile, in no unit: attention's functions are long.
static int64_t workOf(const KernelSource &source) {
  constexpr int64_t ofText = 1000;
  const auto *formed = std::get_if<FormKernel>(&source);
  return formed ? static_cast<int64_t>(formed->form.nodes.size()) * formed->form.stages : ofText;
}

/// Kernels of one list may share code too: it is made once.
std::vector<SharedCode::Lack> SharedCode::lacks() const {
  std::unordered_map<std::string_view, size_t> byKey;
  std::vector<Lack> found;
  for (size_t i : missing()) {
    const auto [place, isNew] = byKey.try_emplace(parts[i].key, found.size());
    if (isNew)
      found.push_back({{}, workOf(parts[i].source)});
    found[place->second].same.push_back(i);
  }
  // Those that take longest begin.
  llvm::stable_sort(found, [](const Lack &a, const Lack &b) { return a.work > b.work; });
  return found;
}

runtime::Error SharedCode::compile(llvm::ArrayRef<Lack> lacks) {
  if (lacks.empty()) // else a context is made for nothing
    return {};
  std::vector<KernelToEmit> toEmit;
  for (const Lack &lack : lacks) {
    const Part &part = parts[lack.same.front()];
    toEmit.push_back({&part.source, part.symbol, part.rows.has_value()});
  }
  runtime::Expected<std::vector<std::string>> objects = emitObjects(toEmit, options);
  if (!objects)
    return objects.error();
  for (auto [lack, object] : llvm::zip_equal(lacks, *objects))
    give(lack, std::move(object));
  return {};
}

void SharedCode::give(const Lack &lack, std::string object) {
  add(lack.same.front(), std::move(object));
  for (size_t other : lack.same)
    parts[other].object = parts[lack.same.front()].object;
}

runtime::Error SharedCode::compileMissing() {
  return compile(lacks());
}

size_t SharedCode::receivedCount() const {
  return static_cast<size_t>(llvm::count_if(parts, [](const Part &part) { return part.isReceived; }));
}

namespace {

/// What a rank says of a kernel that it lacks.
struct LackedKernel {
  std::array<uint8_t, 16> digest; // of its key
  int64_t work;
};

/// The ranks that lack one kernel, and the one of them that compiles it.
struct SharedKernel {
  std::vector<size_t> ranks;
  int64_t work = 0;
  size_t maker = 0;
};

/// Which rank compiles which kernel, so that all have about as much to do. All ranks come to the same answer.
std::map<std::array<uint8_t, 16>, SharedKernel> shareOut(llvm::ArrayRef<std::vector<LackedKernel>> lacked) {
  std::map<std::array<uint8_t, 16>, SharedKernel> kernels;
  for (auto [rank, list] : llvm::enumerate(lacked))
    for (const LackedKernel &each : list) {
      SharedKernel &kernel = kernels[each.digest];
      kernel.ranks.push_back(rank);
      kernel.work = each.work;
    }
  std::vector<SharedKernel *> order;
  for (auto &[digest, kernel] : kernels)
    order.push_back(&kernel);
  llvm::stable_sort(order, [](const SharedKernel *a, const SharedKernel *b) { // those without a choice first
    return std::pair(a->ranks.size() > 1, -a->work) < std::pair(b->ranks.size() > 1, -b->work);
  });
  std::vector<int64_t> load(lacked.size());
  for (SharedKernel *kernel : order) {
    kernel->maker = *std::ranges::min_element(kernel->ranks, {}, [&](size_t rank) { return load[rank]; });
    load[kernel->maker] += kernel->work;
  }
  return kernels;
}

template <typename Value>
void append(std::string &bytes, const Value &value) {
  bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
}

template <typename Value>
std::vector<Value> valuesOf(const std::string &bytes) {
  std::vector<Value> values(bytes.size() / sizeof(Value));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(Value));
  return values;
}

} // namespace

runtime::Error SharedCode::compileTogether(runtime::Ranks &ranks, std::string_view build) {
  const std::vector<Lack> own = lacks();
  std::map<std::array<uint8_t, 16>, const Lack *> byDigest;
  std::string list;
  for (const Lack &lack : own) {
    const std::string key = std::string(build) + parts[lack.same.front()].key;
    const LackedKernel said{llvm::BLAKE3::hash<16>(llvm::arrayRefFromStringRef(key)), lack.work};
    byDigest[said.digest] = &lack;
    append(list, said);
  }
  const auto lists = runtime::gatherTexts(ranks, list);
  if (!lists)
    return lists.error();
  std::vector<std::vector<LackedKernel>> lacked;
  for (const std::string &bytes : *lists)
    lacked.push_back(valuesOf<LackedKernel>(bytes));
  const auto rank = static_cast<size_t>(ranks.rank());
  const std::map<std::array<uint8_t, 16>, SharedKernel> kernels = shareOut(lacked);

  std::vector<Lack> mine;
  for (const LackedKernel &each : lacked[rank]) // in the order of their work
    if (kernels.at(each.digest).maker == rank)
      mine.push_back(*byDigest.at(each.digest));
  (void)compile(mine); // its error is said when this rank finds that a kernel is missing

  // To each rank the kernels that it lacks, in the order of their digests: a length and an object, or 0.
  std::vector<std::string> sent(lacked.size());
  for (const auto &[digest, kernel] : kernels) {
    if (kernel.maker != rank)
      continue;
    const Part &part = parts[byDigest.at(digest)->same.front()];
    const std::string object = part.object ? *part.object : "";
    for (size_t other : kernel.ranks)
      if (other != rank) {
        append(sent[other], object.size());
        sent[other] += object;
      }
  }
  const auto received = runtime::exchangeTexts(ranks, sent);
  if (!received)
    return received.error();
  std::vector<llvm::StringRef> rest(received->begin(), received->end());
  for (const auto &[digest, kernel] : kernels) {
    if (kernel.maker == rank || !llvm::is_contained(kernel.ranks, rank))
      continue;
    llvm::StringRef &bytes = rest[kernel.maker];
    size_t length = 0;
    if (bytes.size() < sizeof length)
      return runtime::Error("rank " + std::to_string(kernel.maker) + " has sent less code than it said");
    std::memcpy(&length, bytes.data(), sizeof length);
    bytes = bytes.drop_front(sizeof length);
    const Lack &lack = *byDigest.at(digest);
    if (length > 0) {
      give(lack, bytes.take_front(length).str());
      for (size_t i : lack.same)
        parts[i].isReceived = true;
    }
    bytes = bytes.drop_front(std::min(length, bytes.size()));
  }
  return {};
}

runtime::Expected<std::string> SharedCode::link() const {
  std::vector<std::string> objects;
  std::vector<std::pair<std::string, int64_t>> numbers;
  for (const Part &part : parts) {
    const std::string rows = part.symbol + ".rows";
    runtime::Expected<std::string> object = renamed(*part.object, part.symbol, rows);
    if (!object)
      return object.error();
    objects.push_back(std::move(*object));
    if (part.rows)
      numbers.emplace_back(rows, *part.rows);
  }
  return linkSharedObject(objects, numbers);
}

} // namespace tcc::cpu
