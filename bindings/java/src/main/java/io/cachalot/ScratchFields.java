// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

/**
 * The field of a {@link Scratch} that each call writes, with room before it, so that threads whose objects lie side
 * by side do not write to one cache line. (A superclass's fields come first.)
 */
class ScratchFields {
  long room0;
  long room1;
  long room2;
  long room3;
  long room4;
  long room5;
  long room6;
  long room7;
  volatile Resource using;
}
