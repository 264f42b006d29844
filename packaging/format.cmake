# format-check: are all sources as clang-format (the version that .clang-format is for) writes them?
# format: make them so.
set(DYAD_CLANG_FORMAT_VERSION 14)
find_program(CLANG_FORMAT NAMES clang-format-${DYAD_CLANG_FORMAT_VERSION} clang-format)

file(GLOB_RECURSE format_sources CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/src/*.[ch] ${PROJECT_SOURCE_DIR}/include/*.h
  ${PROJECT_SOURCE_DIR}/include/*.hpp
  ${PROJECT_SOURCE_DIR}/tools/*.[ch] ${PROJECT_SOURCE_DIR}/test/*.[ch]
  ${PROJECT_SOURCE_DIR}/test/*.cc)

set(format_version "")
if(CLANG_FORMAT)
  execute_process(COMMAND ${CLANG_FORMAT} --version OUTPUT_VARIABLE format_version)
endif()
if(format_version MATCHES "version ${DYAD_CLANG_FORMAT_VERSION}\\.")
  add_custom_target(format-check
    COMMAND ${CLANG_FORMAT} --dry-run -Werror --style=file ${format_sources}
    COMMENT "Checking the format of the sources" VERBATIM)
  add_custom_target(format
    COMMAND ${CLANG_FORMAT} -i --style=file ${format_sources}
    COMMENT "Formatting the sources" VERBATIM)
else()
  foreach(target format-check format)
    add_custom_target(${target}
      COMMAND ${CMAKE_COMMAND} -E echo
        "clang-format ${DYAD_CLANG_FORMAT_VERSION} is needed; another version formats differently"
      COMMAND ${CMAKE_COMMAND} -E false VERBATIM)
  endforeach()
endif()
