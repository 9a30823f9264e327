// Where a code block stands that declares types and functions.
#include <cstdio>
#include <headroom/headroom.hpp>
#include <string>
#include <vector>

#include BLOCK

int main() {}
