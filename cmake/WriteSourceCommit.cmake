# cmake -DSOURCE_DIR=... -DOUTPUT=... -P: writes a source file that holds the commit of the source tree, "-dirty" if
# tracked files differ from it. Run at every build; the file changes, and is compiled again, only if the answer does.
execute_process(COMMAND git describe --always --dirty --abbrev=40 --exclude=*
                WORKING_DIRECTORY "${SOURCE_DIR}"
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  set(commit "unknown")
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" @ONLY CONTENT [[
#include "experiments/source_commit.h"

namespace bov::experiments {

const char* source_commit() { return "@commit@"; }

}  // namespace bov::experiments
]])
