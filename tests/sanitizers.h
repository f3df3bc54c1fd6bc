// SPDX-License-Identifier: MIT OR Apache-2.0
// Whether this program was built with a sanitizer that has the heap to itself. Everything takes ten times as long
// then, so the longest random tests make fewer rounds.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CACHALOT_HEAP_IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CACHALOT_HEAP_IS_SANITIZED 1
#endif
#endif

#ifndef CACHALOT_HEAP_IS_SANITIZED
#define CACHALOT_HEAP_IS_SANITIZED 0
#endif
