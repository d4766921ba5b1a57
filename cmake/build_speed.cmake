# Building against LibTorch is slow: cache compilations and link with mold where they are installed.
find_program(TRAINCTL_CCACHE ccache)
if(TRAINCTL_CCACHE)
  # The precompiled header makes ccache compare by these rules, or it never hits.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${TRAINCTL_CCACHE})
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
endif()
find_program(TRAINCTL_MOLD mold)
if(TRAINCTL_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
