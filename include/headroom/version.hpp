#pragma once

// The version of the headers; CMakeLists.txt reads it from here, so that it is written down once.
#define HEADROOM_VERSION_MAJOR 0
#define HEADROOM_VERSION_MINOR 1
#define HEADROOM_VERSION_PATCH 0
