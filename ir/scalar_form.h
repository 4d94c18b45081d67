// ScalarForms: translates ops and types of MLIR into the plain ones of the kernel form.
#pragma once
#include "ir/dialect.h"
#include "ir/scalar_steps.h"
#include "mlir/IR/DialectInterface.h"
#include <mutex>

namespace tcc {

/// The element type; nothing for a type that tcc tensors cannot hold.
std::optional<ElementType> elementTypeOf(mlir::Type type);
mlir::Type mlirType(mlir::MLIRContext *context, ElementType type);

/// The value of a FloatAttr or IntegerAttr.
ScalarLiteral literalOf(mlir::Attribute value);

/// The scalar steps of elementwise ops. They are made from an op's scalarBody, once for each combination of op name,
/// attributes and element types. The dialect holds them, since the keys have a meaning within its context.
class ScalarForms : public mlir::DialectInterface::Base<ScalarForms> {
public:
  explicit ScalarForms(mlir::Dialect *dialect) : Base(dialect) {}

  /// The steps of an op. Gives null if it has none; `refusal` then names the op of the body that has no scalar form.
  static const ScalarSteps *of(ElementwiseOpInterface op, std::string &refusal);

private:
  struct Form {
    ScalarSteps steps;
    std::string refusal;
  };
  using Key = std::tuple<const void *, const void *, uint64_t>; // name, attributes, element types

  mutable std::mutex mutex;
  mutable std::map<Key, Form> forms;
};

} // namespace tcc
