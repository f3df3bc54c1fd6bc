/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* An ORT that is too old: it has no version of the interface that is asked for. */
#include <onnxruntime_c_api.h>

static const OrtApi* get_api(uint32_t version) {
  (void)version;
  return NULL;
}

static const char* get_version(void) { return "1.8.2"; }

static const OrtApiBase base = {get_api, get_version};

const OrtApiBase* OrtGetApiBase(void) { return &base; }
