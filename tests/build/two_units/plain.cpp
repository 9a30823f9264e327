#define UNIT plain_unscale
#include "unit.inl"
