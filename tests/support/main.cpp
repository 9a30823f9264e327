// Only for Catch2 version 2; version 3 brings a main function as a library.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
