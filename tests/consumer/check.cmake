# cmake -DSOURCE=... -DBINARY=... -DTCC=... -DOPTIONS=... -P check.cmake: configures the consumer and compiles its files
# by their own command lines, so that nothing of tcc is built again but the headers that are generated: both targets exist,
# their headers compile under the standard that they ask for, and our warnings stay ours.
file(REMOVE_RECURSE ${BINARY})
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${BINARY} -G Ninja -DTCC_SOURCE=${TCC}
  -DCMAKE_EXPORT_COMPILE_COMMANDS=ON ${OPTIONS}
  RESULT_VARIABLE failed OUTPUT_VARIABLE text ERROR_VARIABLE text)
if(failed)
  message(FATAL_ERROR "the consumer cannot be configured:\n${text}")
endif()
execute_process(COMMAND ${CMAKE_COMMAND} --build ${BINARY} --target tcc_op_list
  RESULT_VARIABLE failed OUTPUT_VARIABLE text ERROR_VARIABLE text)
if(failed)
  message(FATAL_ERROR "the generated headers cannot be made:\n${text}")
endif()
file(READ ${BINARY}/compile_commands.json commands)
string(JSON count LENGTH "${commands}")
math(EXPR last "${count} - 1")
set(compiled 0)
foreach(i RANGE ${last})
  string(JSON file GET "${commands}" ${i} file)
  if(NOT file MATCHES "^${SOURCE}/")
    continue()
  endif()
  string(JSON command GET "${commands}" ${i} command)
  string(JSON folder GET "${commands}" ${i} directory)
  if(command MATCHES "-Wall|-Werror" OR NOT command MATCHES "-std=(c|gnu)\\+\\+20")
    message(FATAL_ERROR "unexpected flags: ${command}")
  endif()
  execute_process(COMMAND sh -c "${command}" WORKING_DIRECTORY ${folder}
    RESULT_VARIABLE failed OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(failed)
    message(FATAL_ERROR "${file} does not compile:\n${text}")
  endif()
  math(EXPR compiled "${compiled} + 1")
endforeach()
if(NOT compiled EQUAL 2)
  message(FATAL_ERROR "${compiled} of the consumer's two files were found")
endif()
