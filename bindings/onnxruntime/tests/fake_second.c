/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A second ORT beside the first. It says a version that is new enough, but has no interface at all. */
#include <onnxruntime_c_api.h>

static const OrtApi* get_api(uint32_t version) {
  (void)version;
  return NULL;
}

static const char* get_version(void) { return "1.31.0"; }

static const OrtApiBase base = {get_api, get_version};

const OrtApiBase* OrtGetApiBase(void) { return &base; }
