// SPDX-License-Identifier: MIT OR Apache-2.0
/**
 * PyTorch's CUDA caching allocator, for every program that is not PyTorch. {@link io.cachalot.Allocator} is where to
 * begin.
 */
module io.cachalot {
  requires static jdk.jfr;

  exports io.cachalot;
}
