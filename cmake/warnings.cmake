add_library(trainctl_warnings INTERFACE)
target_compile_options(trainctl_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wswitch-enum -Wno-missing-field-initializers>  # designated initialisers leave defaults out on purpose
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${CMAKE_UNITY_BUILD}>>:-Wno-subobject-linkage>  # GCC takes a file of a unity source for a header
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${TRAINCTL_WERROR}>>:-Werror>)

if(TRAINCTL_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${TRAINCTL_SANITIZE}> $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer>)
  add_link_options(-fsanitize=${TRAINCTL_SANITIZE})
  add_compile_definitions(TRAINCTL_SANITIZED)
endif()
