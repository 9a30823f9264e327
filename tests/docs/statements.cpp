// Where a code block stands that has no main function and names no other surroundings: statements.
#include <cstdio>
#include <fstream>
#include <headroom/headroom.hpp>
#include <string>
#include <vector>

int main() {
#include BLOCK
}
