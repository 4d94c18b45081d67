#include "codegen/cpu/attention.h"
#include "codegen/cpu/attention_function.h"
#include "ir/ops/attention.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tcc::cpu {

//===- which function ------------------------------------------------------------------------------------------===//

static constexpr int64_t widestHead = 256;
static constexpr llvm::StringLiteral kindNames[] = {"attention_forward", "attention_backward", "attention_sums"};

std::string AttentionForm::text() const {
  return kindNames[static_cast<size_t>(kind)].str() + " " + std::string(facts(element).name) + " " +
         std::to_string(width) + (bias ? " bias" : "") + (dropout ? " dropout" : "");
}

std::optional<AttentionForm> AttentionForm::of(StringRef text) {
  auto [name, rest] = text.split(' ');
  auto [element, number] = rest.split(' ');
  AttentionForm form;
  form.dropout = number.consume_back(" dropout");
  form.bias = number.consume_back(" bias");
  auto kind = llvm::find(kindNames, name);
  form.kind = static_cast<AttentionKind>(kind - std::begin(kindNames));
  for (const ElementTypeFacts &row : elementTypes)
    if (element == StringRef(row.name))
      form.element = row.type;
  if (kind == std::end(kindNames) || number.getAsInteger(10, form.width))
    return std::nullopt;
  return form;
}

std::optional<AttentionForm> AttentionForm::of(Operation *op) {
  if (!isa<FlashAttentionOp, FlashAttentionBackwardOp>(op))
    return std::nullopt;
  RankedTensorType type = tensorType(op->getOperand(0));
  std::optional<ElementType> element = elementTypeOf(type.getElementType());
  AttentionForm form{isa<FlashAttentionBackwardOp>(op) ? AttentionKind::backward : AttentionKind::forward,
                     element.value_or(ElementType::f16), type.getShape().back(), op->hasAttr("rate"),
                     static_cast<bool>(attentionBias(op))};
  bool isEmitted = (form.element == ElementType::f32 || form.element == ElementType::bf16) && type.hasStaticShape() &&
                   form.width >= 1 && form.width <= widestHead;
  return isEmitted ? std::optional(form) : std::nullopt;
}

void emitAttention(OpBuilder &builder, StringRef symbol, const AttentionForm &form, const VectorTarget &target) {
  LaneBuilder b(builder, builder.getUnknownLoc(), target);
  Type i64 = builder.getI64Type();
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()), {i64, i64, b.pointer()});
  auto function = LLVM::LLVMFuncOp::create(builder, b.loc, symbol, type);
  OpBuilder::InsertionGuard guard(builder);
  Block *entry = function.addEntryBlock(builder);
  builder.setInsertionPointToStart(entry);
  static constexpr decltype(&emitAttentionForward) bodies[][2] = {{emitAttentionForward, emitForwardByTiles},
                                                                  {emitAttentionBackward, emitBackwardByTiles},
                                                                  {emitAttentionSums, emitAttentionSums}};
  bool byTiles = AttentionBlocks(form, target).byTiles;
  bodies[static_cast<size_t>(form.kind)][byTiles](b, form, entry->getArguments());
  LLVM::ReturnOp::create(builder, b.loc, ValueRange());
}

//===- memory --------------------------------------------------------------------------------------------------===//

AttentionBlocks::AttentionBlocks(const AttentionForm &form, const VectorTarget &target)
    : byTiles(target.hasTiles && !form.bias), parts(byTiles && form.element == ElementType::f32 ? 3 : 1),
      lanes(target.lanes), tileVectors(target.lanes == 16 ? 4
                                       : target.hasFma    ? 3
                                                          : 2),
      weighedVectors(target.lanes == 16 ? 4 : 2),
      perWord(byTiles || (form.element == ElementType::bf16 && target.hasBf16Products) ? 2 : 1),
      steps((form.width + perWord - 1) / perWord), words(llvm::alignTo(steps, lanes)),
      width(llvm::alignTo(form.width, lanes)), bytes(0) {
  if (byTiles)
    layOutTiles(form);
  else
    layOut(form);
  kept = form.dropout ? take((keys + keptKeys) * queries / 32) : 0;
}

int64_t AttentionBlocks::take(int64_t words) {
  int64_t start = bytes;
  bytes += llvm::alignTo(4 * words, 64);
  return start;
}

void AttentionBlocks::layOut(const AttentionForm &form) {
  bool pairs = perWord > 1, backward = form.kind == AttentionKind::backward;
  zeros = take(std::max(width, words));
  queryColumns = take(words * queries);
  scores = take(keys * queries);
  sums = take(width * queries);
  top = take(queries);
  total = take(queries);
  dOutColumns = backward ? take(words * queries) : 0;
  queryPairs = backward ? take(queries / perWord * width) : 0;
  dOutPairs = backward ? take(queries / perWord * width) : 0;
  dP = backward ? take(keys * queries) : 0;
  weightPairs = backward && pairs ? take(keys / perWord * queries) : dP;
  packedEnd = take(2);
  const int64_t ofRow = 4 * words, ofPair = 4 * width / perWord;
  valueRows = valuePairs = ofRow;
  keyPairs = pairs ? 2 * ofRow : keyRows;
  bytesOfKey = ofRow + (backward ? ofRow + (pairs ? ofPair : 0) : ofPair);
}

void AttentionBlocks::layOutTiles(const AttentionForm &form) {
  constexpr int64_t span = 32; // keys and queries of the products that are made at once
  bool backward = form.kind == AttentionKind::backward;
  rows = span;
  // Backward, pairs of dS grow with it, and they are read again from the first cache; forward, only the table of kept
  // pairs grows, where there is one.
  keys = backward ? (parts == 1 ? 128 : 64) : form.dropout ? 512 : 1 << 20;
  bytesOfKey = parts * (backward ? 2 * (4 * words) + 2 * width : 4 * words + 2 * width);
  zeros = take(std::max(width, words));
  configuration = take(16);
  queryColumns = take(parts * words * queries);
  scores = take((backward ? 1 : 2) * span * span); // forward: of this step and the next one
  weightPairs = backward ? take(parts * keys / 2 * queries) : 0;
  sums = take(2 * words * queries);
  top = take(queries);
  total = take(queries);
  dOutColumns = backward ? take(parts * words * queries) : 0;
  queryPairs = backward ? take(parts * queries / 2 * width) : 0;
  dOutPairs = backward ? take(parts * queries / 2 * width) : 0;
  dP = backward ? take(span * span) : 0;
  weights = take(parts * span * (backward ? queries / 2 : span));
  dWeights = backward ? take(parts * span * queries / 2) : 0;
  outRows = backward && parts > 1 ? take(parts * words * queries) : 0;
}

int64_t AttentionBlocks::keyBytes(int64_t allKeys) const {
  return bytesOfKey * static_cast<int64_t>(llvm::alignTo(allKeys, rows));
}

} // namespace tcc::cpu
