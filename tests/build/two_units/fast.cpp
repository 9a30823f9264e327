#define UNIT fast_unscale
#include "unit.inl"
