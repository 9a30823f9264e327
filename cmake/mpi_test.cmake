# Sets up `test`, which starts the program `target` under MPI: four ranks, also if there are fewer cores, and also as root. Open MPI reads
# these variables; other implementations do not need them. MPI leaks by itself. The ranks sleep while they wait, so that the test is fast
# on a busy machine. The limit ends a job whose ranks wait for each other forever.
function(headroom_run_with_mpi test target)
  set(source ${PROJECT_SOURCE_DIR}/tests/support/sleeping_yield.cpp)
  target_sources(${target} PRIVATE ${source})
  set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  set_target_properties(${target} PROPERTIES ENABLE_EXPORTS ON) # so that the libraries of MPI find its sched_yield
  set_tests_properties(${test} PROPERTIES
    PROCESSORS 2
    TIMEOUT 300
    ENVIRONMENT "HEADROOM_TEST_RANKS=4;ASAN_OPTIONS=detect_leaks=0;OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1;OMPI_MCA_mpi_yield_when_idle=1;OMPI_MCA_btl_vader_single_copy_mechanism=none")
endfunction()
