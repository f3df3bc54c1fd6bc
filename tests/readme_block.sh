# SPDX-License-Identifier: MIT OR Apache-2.0
# To be sourced: programs that stand in READMEs.

# readme_block FILE LANGUAGE: the first block of code of that language.
readme_block() { sed -n "/^\`\`\`$2\$/,/^\`\`\`\$/p" "$1" | sed '1d;/^```$/,$d'; }
