# Included by the test of these consumers, which compile bov: the operators' sources in batches. Nearly all the time of a
# compilation without optimization goes into what LibTorch's headers bring, so a batch takes little longer than one source.
cmake_language(DEFER CALL set_target_properties bov_ops PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
