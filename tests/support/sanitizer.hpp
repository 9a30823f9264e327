#pragma once

/// HEADROOM_TEST_SANITIZER is defined with the address or the thread sanitizer: g++ defines macros,
/// clang 14 has features.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HEADROOM_TEST_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HEADROOM_TEST_SANITIZER
#endif
#endif
