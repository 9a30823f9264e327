// Surrounds a code block of statements, which has no main function and names no other surroundings.
#include <cstdio>
#include <fstream>
#include <headroom/headroom.hpp>
#include <string>
#include <vector>

int main() {
#include BLOCK
}
