# SPDX-License-Identifier: MIT OR Apache-2.0
# To be sourced from the project's root with the script's arguments, of which it takes --quick: sets `folder`, where the
# prefixes are, and `quick`, which is empty without that option.

folder=build/portable quick=
if [ "${1-}" = --quick ]; then
  folder=$folder/quick quick=yes
  shift
fi
