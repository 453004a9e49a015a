# Included by the test of these consumers, which compile bov: its sources in batches. Nearly all the time of a compilation
# without optimization goes into what LibTorch's headers bring, so a batch takes little longer than one source.
cmake_language(DEFER CALL set_target_properties bov_ops PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
cmake_language(DEFER CALL set_target_properties bov PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
# Sources with a local name that another source of their batch has too.
set(alone io/mapped_tensors.cpp io/safetensors_header.cpp model/accounting.cpp model/gpt_options.cpp model/smear.cpp optim/adamw.cpp)
list(TRANSFORM alone PREPEND "${BOV_SOURCE}/bov/")
cmake_language(DEFER CALL set_source_files_properties ${alone} TARGET_DIRECTORY bov PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
