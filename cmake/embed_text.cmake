# cmake -DTEXT=FILE -DOUT=FILE.inc -P embed_text.cmake: a text as one C++ string literal.
file(READ ${TEXT} text)
file(WRITE ${OUT} "R\"text(${text})text\"\n")
