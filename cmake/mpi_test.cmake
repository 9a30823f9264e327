# A test that starts MPI: more ranks than cores, and as root where the tests are. Other implementations than Open MPI need and read
# none of this. It leaks by itself. A rank that waits for ever would make the others wait too.
function(headroom_run_with_mpi test)
  set_tests_properties(${test} PROPERTIES
    PROCESSORS 2
    TIMEOUT 120
    ENVIRONMENT "HEADROOM_TEST_RANKS=4;ASAN_OPTIONS=detect_leaks=0;OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1;OMPI_MCA_mpi_yield_when_idle=1;OMPI_MCA_btl_vader_single_copy_mechanism=none")
endfunction()
