# cmake -DSOURCE=page.in -DRESULT=page -DVERSION=... -DDYAD_RUN=... -P fill-page.cmake
# Puts the version and, for the mark @VARIABLES@, the description of all DYAD_* variables into a page.
cmake_minimum_required(VERSION 3.22)
file(READ ${SOURCE} text)
string(REPLACE "@VERSION@" "${VERSION}" text "${text}")
string(FIND "${text}" "@VARIABLES@" mark)
if(NOT mark EQUAL -1)
  execute_process(COMMAND ${DYAD_RUN} --help-variables=troff
                  OUTPUT_VARIABLE variables RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${DYAD_RUN} --help-variables=troff failed: ${status}")
  endif()
  string(REPLACE "@VARIABLES@" "${variables}" text "${text}")
endif()
file(WRITE ${RESULT} "${text}")
