# Writes a header with the digest of the sources that decide what code is made, and of how they were compiled: a cache
# on disk takes nothing that another build has made.
#   cmake -DSOURCES=LIST_FILE -DHOW=TEXT -DHEADER=FILE -P build_id.cmake
file(STRINGS ${SOURCES} files)
set(all "${HOW}")
foreach(file ${files})
  file(SHA256 ${file} digest)
  string(APPEND all "\n${digest}")
endforeach()
string(SHA256 digest "${all}")
string(SUBSTRING ${digest} 0 32 digest)
file(WRITE ${HEADER} "inline constexpr char buildId[] = \"${digest}\";\n")
