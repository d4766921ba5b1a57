# `cmake --install BUILD --prefix P` gives a prefix that can be moved, complete but for LibTorch:
#   P/bin/trainctl
#   P/lib/trainctl/   the engine, the CUDA library, and copies of what they need that not every system has
#   P/include/trainctl, P/lib/cmake/trainctl   what plug-ins are built with
#   P/share/trainctl/configs   P/share/man/man1   completion for bash, zsh and fish where they look
# With `--component tests`: P/bin/test_* and fused_kernels, for scripts/gpu_check.sh on a machine that builds nothing.
include_guard()

# Not copied: LibTorch with what it brings, CUDA, and the C and C++ runtime, which must be the system's own.
set(TRAINCTL_NOT_COPIED "^lib(torch|c10|shm|cu|nv|nccl|cupti|mpi|open-|pmi)" "^lib(c|m|dl|rt|pthread|gcc_s|stdc[+][+]|gomp)\\.so" "^ld-linux")

foreach(library trainctl_engine trainctl_tokenize trainctl_cuda trainctl_parquet trainctl_mpi)
  if(NOT TARGET ${library})
    continue()
  endif()
  set_target_properties(${library} PROPERTIES INSTALL_RPATH "$ORIGIN;${LIBTORCH_LIB_DIR}")
  install(TARGETS ${library} LIBRARY DESTINATION lib/trainctl)
  install(CODE "
    set(not_copied [[${TRAINCTL_NOT_COPIED}]])
    file(GET_RUNTIME_DEPENDENCIES LIBRARIES \"$<TARGET_FILE:${library}>\" RESOLVED_DEPENDENCIES_VAR needed
      UNRESOLVED_DEPENDENCIES_VAR missing PRE_EXCLUDE_REGEXES \${not_copied})
    if(missing)
      message(FATAL_ERROR \"${library} needs libraries that are not here: \${missing}\")
    endif()
    foreach(file IN LISTS needed)
      file(INSTALL \"\${file}\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/lib/trainctl\" TYPE SHARED_LIBRARY FOLLOW_SYMLINK_CHAIN)
    endforeach()")
endforeach()

if(TARGET trainctl)
  install(TARGETS trainctl RUNTIME DESTINATION bin)
  install(CODE "execute_process(COMMAND \"$<TARGET_FILE:trainctl>\" __manual \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/man/man1\"
    COMMAND_ERROR_IS_FATAL ANY)")
  set(completion ${CMAKE_SOURCE_DIR}/apps/trainctl/completion)
  install(FILES ${completion}/trainctl.bash DESTINATION share/bash-completion/completions RENAME trainctl)
  install(FILES ${completion}/trainctl.zsh DESTINATION share/zsh/site-functions RENAME _trainctl)
  install(FILES ${completion}/trainctl.fish DESTINATION share/fish/vendor_completions.d)
endif()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/configs DESTINATION share/trainctl FILES_MATCHING PATTERN "*.yaml" PATTERN "schema.json")

# For plug-ins: find_package(trainctl).
install(DIRECTORY ${CMAKE_SOURCE_DIR}/src/ DESTINATION include/trainctl FILES_MATCHING PATTERN "*.h" PATTERN "cuda" EXCLUDE)
install(FILES ${CMAKE_SOURCE_DIR}/src/plugin/abi.cpp DESTINATION include/trainctl/plugin)
install(FILES ${CMAKE_BINARY_DIR}/generated/plugin_abi.h DESTINATION include/trainctl)
configure_file(${CMAKE_CURRENT_LIST_DIR}/trainctl-config.cmake.in ${CMAKE_BINARY_DIR}/generated/trainctl-config.cmake @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/generated/trainctl-config.cmake DESTINATION lib/cmake/trainctl)

if(TRAINCTL_TESTS)
  get_property(tests DIRECTORY ${CMAKE_SOURCE_DIR}/tests PROPERTY BUILDSYSTEM_TARGETS)
  list(FILTER tests INCLUDE REGEX "^test_")
  list(APPEND tests fused_kernels)
  set_target_properties(${tests} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/trainctl;${LIBTORCH_LIB_DIR}")
  install(TARGETS ${tests} RUNTIME DESTINATION bin COMPONENT tests EXCLUDE_FROM_ALL)
endif()
