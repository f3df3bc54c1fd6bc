/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/** @file export.h CACHALOT_API marks what the shared library exports. */
#ifndef CACHALOT_EXPORT_H_
#define CACHALOT_EXPORT_H_

#if defined(__GNUC__)
#define CACHALOT_API __attribute__((visibility("default")))
#else
#define CACHALOT_API
#endif

#endif /* CACHALOT_EXPORT_H_ */
