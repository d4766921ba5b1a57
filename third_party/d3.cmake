# D3, the library that draws the charts of our pages, with its licences; both are embedded in src/page. Sets D3_SCRIPT, D3_LICENCES.
find_file(D3_SCRIPT d3.min.js PATHS ${CMAKE_INSTALL_PREFIX}/share /usr/share
  PATH_SUFFIXES nodejs/d3/dist javascript/d3 NO_DEFAULT_PATH
  DOC "d3.min.js of D3 5, whole (Debian: node-d3)")
if(NOT D3_SCRIPT)
  message(FATAL_ERROR "d3.min.js is not here: apt-get install node-d3 (scripts/setup.sh does), or -DD3_SCRIPT=FILE with D3 5's")
endif()
file(READ ${D3_SCRIPT} d3_head LIMIT 100)
if(NOT d3_head MATCHES "d3js\\.org v(5\\.[0-9.]+)")
  message(FATAL_ERROR "${D3_SCRIPT} is not D3 5 (it begins: ${d3_head}); pages are written for that: -DD3_SCRIPT=FILE, or Debian's node-d3")
endif()
message(STATUS "D3 ${CMAKE_MATCH_1}: ${D3_SCRIPT}")

# D3's own, and those of its parts that say more or other than it.
set(licences "")
foreach(part d3 d3-array d3-ease d3-scale-chromatic d3-voronoi)
  list(APPEND licences /usr/share/doc/node-${part}/copyright)
endforeach()
set(D3_LICENCES "${licences}" CACHE STRING "Files with the licences of D3_SCRIPT, which pages must carry")
foreach(licence IN LISTS D3_LICENCES)
  if(NOT EXISTS ${licence})
    message(FATAL_ERROR "${licence} is not here, and pages must carry D3's licences: apt-get install --reinstall node-d3 and its parts, "
      "or -DD3_LICENCES=FILE;…")
  endif()
endforeach()
