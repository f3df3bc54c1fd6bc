# SPDX-License-Identifier: MIT OR Apache-2.0
# To be sourced: gives GnuPG a home with a key that signs, for as long as the script runs.
GNUPGHOME=$(mktemp -d)
export GNUPGHOME
trap 'gpgconf --kill gpg-agent; rm -rf "$GNUPGHOME"' EXIT
gpg --batch --quiet --passphrase '' --quick-generate-key 'Rehearsal <rehearsal@cachalot.invalid>' ed25519 sign 1d
