# cmake -DDOC=Ops.md -DOUT=op_syntax.inc -P op_syntax.cmake: the lines "operation ::= ..." of mlir-tblgen's op
# documentation as C++ string literals.
file(READ ${DOC} text)
string(REGEX MATCHALL "operation ::=[^\n]*(\n   [^\n]*)*" syntaxes "${text}")
set(out "")
foreach(syntax IN LISTS syntaxes)
  string(REGEX REPLACE "[ \n]+" " " syntax "${syntax}")
  string(APPEND out "R\"syntax(${syntax})syntax\",\n")
endforeach()
file(WRITE ${OUT} "${out}")
