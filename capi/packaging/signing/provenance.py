#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Says of what commit the files of a release are made: a provenance of SLSA 1.0 in a signed envelope (DSSE), which is
FOLDER/provenance.intoto.json.

    provenance.py sign FOLDER KEY     KEY: the fingerprint of an OpenPGP key whose secret half GnuPG has
    provenance.py verify FOLDER KEY   GnuPG has the public half. FOLDER has the provenance and some of the files: fails
                                      where the signature or a file differs, or the provenance has no such file

Needs the packages of provenance-requirements.txt, GnuPG, and Git to sign.
"""

import gzip
import hashlib
import json
import pathlib
import subprocess
import sys

from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
from in_toto_attestation.v1.statement import Statement
from google.protobuf.json_format import MessageToDict
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import GPGSigner, Signer

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
NAME = "provenance.intoto.json"
PREDICATE = "https://slsa.dev/provenance/v1"
PAYLOAD = "application/vnd.in-toto+json"
NOT_SUBJECTS = {NAME, "SHA256SUMS", "SHA256SUMS.asc"}  # what is made of the others


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.iterdir()) if path.is_file() and path.name not in NOT_SUBJECTS}


def commit(archive):
    """The commit that the source archive is made of, which Git has written into it."""
    if not archive.is_file():
        sys.exit(f"{archive} is missing: it says of what commit the files are made")
    return subprocess.run(["git", "get-tar-commit-id"], input=gzip.decompress(archive.read_bytes()), check=True,
                          capture_output=True).stdout.decode().strip()


def statement_of(folder):
    version = (ROOT / "VERSION").read_text().strip()
    made_of = commit(folder / f"cachalot-{version}.tar.gz")
    predicate = {
        "buildDefinition": {
            "buildType": "https://cachalot.io/release/v1",
            "externalParameters": {"version": version},
            "resolvedDependencies": [{"uri": f"pkg:generic/cachalot@{version}", "digest": {"gitCommit": made_of}}],
        },
        "runDetails": {"builder": {"id": "https://cachalot.io/builders/release-engineer"}},
    }
    subjects = [ResourceDescriptor(name=name, digest={"sha256": digest}).pb for name, digest in digests(folder).items()]
    statement = Statement(subjects, PREDICATE, predicate)
    statement.validate()
    return MessageToDict(statement.pb)


def key_of(fingerprint):
    try:
        return GPGSigner.import_(fingerprint)
    except ValueError:
        sys.exit(f"GnuPG has no key {fingerprint}")


def sign(folder, fingerprint):
    uri, public = key_of(fingerprint)
    payload = json.dumps(statement_of(folder), indent=1, sort_keys=True).encode()
    envelope = Envelope(payload, PAYLOAD, {})
    envelope.sign(Signer.from_priv_key_uri(uri, public))
    (folder / NAME).write_text(json.dumps(envelope.to_dict(), indent=1) + "\n")


def verify(folder, fingerprint):
    _, public = key_of(fingerprint)
    envelope = Envelope.from_dict(json.loads((folder / NAME).read_text()))
    try:
        envelope.verify([public], 1)
    except VerificationError as wrong:
        sys.exit(f"{folder / NAME}: {wrong}")
    statement = json.loads(envelope.payload)
    named = {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}
    found = digests(folder)
    if not found:
        sys.exit(f"{folder} has no file of a release")
    for name, digest in found.items():
        if name not in named:
            sys.exit(f"{folder / name}: the provenance has no such file")
        if named[name] != digest:
            sys.exit(f"{folder / name}: the provenance has {named[name]}, the file {digest}")
        print(name)
    made_of = statement["predicate"]["buildDefinition"]["resolvedDependencies"][0]["digest"]["gitCommit"]
    print(f"{len(found)} of {len(named)} files, of commit {made_of}")


def main():
    actions = {"sign": sign, "verify": verify}
    if len(sys.argv) != 4 or sys.argv[1] not in actions or not pathlib.Path(sys.argv[2]).is_dir():
        print("usage: provenance.py sign|verify FOLDER KEY", file=sys.stderr)
        sys.exit(2)
    actions[sys.argv[1]](pathlib.Path(sys.argv[2]), sys.argv[3].lower())


if __name__ == "__main__":
    main()
