/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/** @file version.h The version of this header, made from the file VERSION. */
#ifndef CACHALOT_VERSION_H_
#define CACHALOT_VERSION_H_

#define CACHALOT_VERSION_MAJOR 0
#define CACHALOT_VERSION_MINOR 1
#define CACHALOT_VERSION_PATCH 0
/** major * 10000 + minor * 100 + patch. */
#define CACHALOT_VERSION_NUMBER \
  (CACHALOT_VERSION_MAJOR * 10000 + CACHALOT_VERSION_MINOR * 100 + CACHALOT_VERSION_PATCH)
#define CACHALOT_VERSION_STRING "0.1.0"

#endif /* CACHALOT_VERSION_H_ */
