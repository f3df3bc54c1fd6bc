/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/** @file stddef.h What the public header needs of it, so that the generated files are those of no machine. */
#ifndef CACHALOT_FREESTANDING_STDDEF_H_
#define CACHALOT_FREESTANDING_STDDEF_H_

typedef __SIZE_TYPE__ size_t;
#define NULL ((void*)0)

#endif /* CACHALOT_FREESTANDING_STDDEF_H_ */
