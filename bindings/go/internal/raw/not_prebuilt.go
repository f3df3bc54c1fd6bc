// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && !(linux && (amd64 || arm64)) && !cachalot_bundled && !cachalot_installed

package raw

// The compiler names what is missing, as in nocgo.go.
var _ = cachalot_has_no_prebuilt_library_for_this_platform__build_with_the_tag_cachalot_bundled_or_cachalot_installed
