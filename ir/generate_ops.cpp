// A tool of the build: from the JSON of Ops.td (llvm-tblgen --dump-json) what C++ code calls for each op.
// In the folder of ir:
//   emit_functions.h.inc
//                      the member of Emit (emit.h) for each op whose operands all stand there, with attributes that are
//                      numbers or flags, and whose one result's type follows
// In the folder of the front end, of the ops that users write:
//   op_kinds.inc       the enumerators of OpKind
//   op_table.inc       the rows of tracedOp
//   op_functions.h.inc, op_functions.cpp.inc
//                      declaration and definition of each op's C++ function but those that are written by hand
//                      (hasOwnFunction): operands, then attributes, then operands that may be absent
//   op_unary.inc       TCC_UNARY(name) for each of these functions that takes one tensor, perhaps of floats: for tests
// generate_ops OPS.JSON IR_FOLDER FRONTEND_FOLDER
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace llvm;

namespace {

[[noreturn]] void fail(const Twine &message) {
  errs() << "generate_ops: " << message << "\n";
  std::exit(1);
}

/// An operand or attribute of an op.
struct Argument {
  std::string name;
  bool isTensor = false, mayLack = false, isVariadic = false, isFloat = false; // of an operand
  std::string kind;                                                            // WordKind of an attribute
  std::string defaultValue;                                                    // of an attribute that has one
};

struct Op {
  std::string mnemonic, name, summary; // the name is that of enumerator and function
  std::string className;               // of C++, "GeluOp"
  int64_t line = 0;
  bool isTraced = false, asksHost = false, hasOwnFunction = false, explicitType = false, countsOperands = false,
       isInterned = false;
  size_t results = 0;
  std::vector<Argument> arguments;

  std::vector<const Argument *> operands() const {
    std::vector<const Argument *> list;
    for (const Argument &argument : arguments)
      if (argument.isTensor)
        list.push_back(&argument);
    return list;
  }
};

std::string camelCase(StringRef mnemonic) {
  std::string name;
  bool raise = false;
  for (char letter : mnemonic) {
    if (letter != '_')
      name += raise ? toUpper(letter) : letter;
    raise = letter == '_';
  }
  return name;
}

/// The records of a file, and questions about them.
class Records {
public:
  explicit Records(const json::Object &all) : all(all) {}

  const json::Object &get(StringRef name) const {
    const json::Object *record = all.getObject(name);
    if (!record)
      fail("no record " + name);
    return *record;
  }
  static StringRef text(const json::Object &record, StringRef field) {
    return record.getString(field).value_or("").trim();
  }
  static bool isSet(const json::Object &record, StringRef field) { return record.getInteger(field).value_or(0) != 0; }
  static StringRef defOf(const json::Object &record, StringRef field) {
    const json::Object *value = record.getObject(field);
    return value ? text(*value, "def") : "";
  }
  bool is(StringRef name, StringRef base) const {
    const json::Array *bases = get(name).getArray("!superclasses");
    return bases && any_of(*bases, [&](const json::Value &value) { return value.getAsString() == base; });
  }

  std::vector<Op> ops() const {
    std::vector<Op> list;
    for (const json::Value &name : *get("!instanceof").getArray("Tcc_Op"))
      list.push_back(op(*name.getAsString()));
    sort(list, [](const Op &a, const Op &b) { return a.line < b.line; });
    return list;
  }

private:
  const json::Object &all;

  Op op(StringRef definition) const {
    const json::Object &record = get(definition);
    Op op;
    op.className = definition.drop_front(StringRef("Tcc_").size());
    op.isTraced = isSet(record, "isTraced");
    op.asksHost = isSet(record, "asksHost");
    op.mnemonic = text(record, "opName");
    op.name = text(record, "cppName").empty() ? camelCase(op.mnemonic) : text(record, "cppName").str();
    op.summary = text(record, "summary");
    (*record.getArray("!locs"))[0].getAsString()->rsplit(':').second.getAsInteger(10, op.line);
    op.hasOwnFunction = isSet(record, "hasOwnFunction");
    op.isInterned = isSet(record, "isInterned");
    if (op.isInterned) // operands, attributes and types are the object's
      return op;
    op.results = record.getObject("results")->getArray("args")->size();
    op.explicitType = true;
    for (const json::Value &value : *record.getArray("traits")) {
      StringRef trait = text(*value.getAsObject(), "def");
      if (trait == "InferTypeOpAdaptor" || trait == "SameOperandsAndResultType" || is(trait, "AllTypesMatch"))
        op.explicitType = false;
      op.countsOperands |= trait == "AttrSizedOperandSegments";
    }
    for (const json::Value &value : *record.getObject("arguments")->getArray("args")) {
      const json::Array &pair = *value.getAsArray();
      op.arguments.push_back(argument(text(*pair[0].getAsObject(), "def"), *pair[1].getAsString()));
      op.explicitType |= op.arguments.back().kind == "literal"; // whose elements have the result's type
    }
    return op;
  }

  Argument argument(StringRef type, StringRef name) const {
    Argument argument;
    argument.name = camelCase(name);
    argument.isVariadic = is(type, "Variadic");
    argument.mayLack = is(type, "Optional");
    if (argument.isVariadic || argument.mayLack)
      type = defOf(get(type), "baseType");
    if (is(type, "TypeConstraint")) {
      argument.isTensor = true;
      argument.isFloat = type == "Tcc_FloatTensor" || type == "Tcc_NumberTensor" || type == "Tcc_Tensor";
      return argument;
    }
    argument.name = name; // as the attribute is called
    if (is(type, "DefaultValuedAttr"))
      argument.defaultValue = text(get(type), "defaultValue");
    while (is(type, "DefaultValuedAttr") || is(type, "OptionalAttr"))
      type = defOf(get(type), "baseAttr");
    argument.kind = StringSwitch<const char *>(type)
                        .Case("UnitAttr", "flag")
                        .Case("I64Attr", "integer")
                        .Case("F64Attr", "number")
                        .Case("DenseI64ArrayAttr", "integers")
                        .Case("TypeAttr", "dtype")
                        .Case("ElementsAttr", "literal")
                        .Default(is(type, "EnumAttrInfo") ? "predicate" : "");
    return argument;
  }
};

/// Writes `name` in the folder, unless it is there with this text.
void write(StringRef folder, StringRef name, const std::string &text) {
  std::string path = (folder + "/" + name).str();
  if (auto old = MemoryBuffer::getFile(path); old && (*old)->getBuffer() == text)
    return;
  std::error_code problem;
  raw_fd_ostream file(path, problem);
  if (problem)
    fail(path + ": " + problem.message());
  file << text;
}

std::string tableRow(const Op &op) {
  std::vector<std::string> attributes;
  for (const Argument &argument : op.arguments)
    if (!argument.isTensor && argument.kind.empty())
      fail("no WordKind stands for the attribute " + argument.name + " of " + op.mnemonic);
    else if (!argument.isTensor)
      attributes.push_back("{\"" + argument.name + "\", K::" + argument.kind + "}");
  std::string row = "{.name = \"" + op.mnemonic + "\"";
  if (!attributes.empty())
    row += ", .attributes = {" + join(attributes, ", ") + "}";
  if (op.explicitType)
    row += ", .explicitType = true";
  if (op.countsOperands)
    row += ", .operandGroups = " + std::to_string(op.operands().size());
  if (op.isInterned)
    row += ", .interned = true";
  return row + "},\n";
}

/// The C++ type of a plain attribute.
StringRef attributeType(const Argument &argument) {
  return StringSwitch<StringRef>(argument.kind).Case("number", "double").Case("integer", "int64_t").Default("bool");
}

bool isPlain(const Argument &argument) {
  return argument.isTensor || argument.kind == "number" || argument.kind == "integer" || argument.kind == "flag";
}

/// The member of Emit; nothing for an op that is more than its operands and plain attributes.
std::string emitFunction(const Op &op) {
  if (op.asksHost || op.isInterned || op.explicitType || op.results != 1)
    return "";
  std::vector<std::string> parameters, values;
  for (const Argument &argument : op.arguments) {
    if (!isPlain(argument) || argument.mayLack || argument.isVariadic)
      return "";
    std::string name = camelCase(argument.name);
    parameters.push_back((argument.isTensor ? "mlir::Value" : attributeType(argument).str()) + " " + name);
    values.push_back(argument.kind == "number" ? "llvm::APFloat(" + name + ")" : name);
  }
  return "/// " + op.summary + "\nmlir::Value " + op.name + "(" + join(parameters, ", ") + ") { return create<" +
         op.className + ">(" + join(values, ", ") + "); }\n";
}

/// The parameters of an op's function, with their defaults for its declaration.
std::string parameters(const Op &op, bool declares) {
  std::vector<std::string> list;
  for (const Argument &argument : op.arguments)
    if (argument.isTensor && !argument.mayLack)
      list.push_back("const Tensor &" + argument.name);
  for (const Argument &argument : op.arguments)
    if (!argument.isTensor) {
      bool hasDefault = declares && !argument.defaultValue.empty();
      list.push_back(attributeType(argument).str() + " " + camelCase(argument.name) +
                     (hasDefault ? " = " + argument.defaultValue : ""));
    }
  for (const Argument &argument : op.arguments)
    if (argument.mayLack)
      list.push_back("const Tensor &" + argument.name + (declares ? " = {}" : ""));
  list.push_back(declares ? "Loc loc = Loc::current()" : "Loc loc");
  return "Tensor " + op.name + "(" + join(list, ", ") + ")";
}

void checkFunction(const Op &op) {
  size_t optional = 0;
  for (const Argument &argument : op.arguments) {
    optional += argument.mayLack;
    if (!isPlain(argument) || argument.isVariadic || optional > 1 || op.explicitType || op.results != 1)
      fail(op.mnemonic + " needs a C++ function of its own (hasOwnFunction): `" + argument.name +
           "` or its results are more than a plain function has");
  }
}

std::string definition(const Op &op) {
  std::vector<std::string> operands;
  std::string words, optional;
  for (const Argument &argument : op.arguments) {
    if (!argument.isTensor)
      words +=
          "." + std::string(argument.kind == "number" ? "number" : "integer") + "(" + camelCase(argument.name) + ")";
    else if (argument.mayLack)
      optional = argument.name;
    else
      operands.push_back(argument.name);
  }
  std::string rest = words.empty() ? "loc" : "Words()" + words + ", loc";
  auto call = [&] { return "record(OpKind::" + op.name + ", {" + join(operands, ", ") + "}, " + rest + ")"; };
  std::string body = call();
  if (!optional.empty()) {
    operands.push_back(optional);
    body = optional + ".defined() ? " + call() + " : " + body;
  }
  return parameters(op, false) + " {\n  return " + body + ";\n}\n";
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 4)
    fail("generate_ops OPS.JSON IR_FOLDER FRONTEND_FOLDER");
  auto file = MemoryBuffer::getFile(argv[1]);
  if (!file)
    fail(Twine(argv[1]) + ": " + file.getError().message());
  Expected<json::Value> parsed = json::parse((*file)->getBuffer());
  if (!parsed)
    fail(Twine(argv[1]) + ": " + toString(parsed.takeError()));
  std::string emit, kinds, table, declarations, definitions, unary;
  for (const Op &op : Records(*parsed->getAsObject()).ops()) {
    emit += emitFunction(op);
    if (!op.isTraced)
      continue;
    kinds += op.name + ",\n";
    table += tableRow(op);
    if (op.hasOwnFunction)
      continue;
    checkFunction(op);
    declarations += "/// " + op.summary + "\n" + parameters(op, true) + ";\n";
    definitions += definition(op);
    if (op.arguments.size() == 1 && op.arguments[0].isFloat)
      unary += "TCC_UNARY(" + op.name + ")\n";
  }
  write(argv[2], "emit_functions.h.inc", emit);
  write(argv[3], "op_kinds.inc", kinds);
  write(argv[3], "op_table.inc", table);
  write(argv[3], "op_functions.h.inc", declarations);
  write(argv[3], "op_functions.cpp.inc", definitions);
  write(argv[3], "op_unary.inc", unary);
}
