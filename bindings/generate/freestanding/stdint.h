/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/** @file stdint.h What the public header needs of it, so that the generated files are those of no machine. */
#ifndef CACHALOT_FREESTANDING_STDINT_H_
#define CACHALOT_FREESTANDING_STDINT_H_

typedef __UINT8_TYPE__ uint8_t;
typedef __INT32_TYPE__ int32_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT64_TYPE__ uint64_t;

#endif /* CACHALOT_FREESTANDING_STDINT_H_ */
