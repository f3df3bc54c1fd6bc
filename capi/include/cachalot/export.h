/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file export.h
 * CACHALOT_API marks what the shared library exports. A program that compiles the library's sources into itself may
 * define it before.
 */
#ifndef CACHALOT_EXPORT_H_
#define CACHALOT_EXPORT_H_

#ifndef CACHALOT_API
#if defined(__GNUC__)
#define CACHALOT_API __attribute__((visibility("default")))
#else
#define CACHALOT_API
#endif
#endif

#endif /* CACHALOT_EXPORT_H_ */
