#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes the bill of materials of a prefix that portable/build.sh has made: an SPDX 2.3 document in JSON with each file
and what is linked into the binaries.

    sbom.py PREFIX OUT   OUT: a file whose name ends in .spdx.json

Needs the packages of requirements.txt and Cargo. The document's time is that of the commit, or SOURCE_DATE_EPOCH, so
that two builds have the same one. Exit status: 0 it is written and valid, 1 it is not valid, 2 the call is wrong.
"""

import datetime
import hashlib
import os
import pathlib
import re
import sys

from spdx_tools.common.spdx_licensing import spdx_licensing
from spdx_tools.spdx.model import (Actor, ActorType, Checksum, ChecksumAlgorithm, CreationInfo, Document,
                                   ExtractedLicensingInfo, File, Package, PackageVerificationCode, Relationship,
                                   RelationshipType, SpdxNoAssertion)
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
from spdx_tools.spdx.writer.write_anything import write_file

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
from parts import ROOT, output_of, parts_of

LICENCE = spdx_licensing.parse("MIT OR Apache-2.0")


def commit_time():
    seconds = os.environ.get("SOURCE_DATE_EPOCH") or output_of("git", "-C", ROOT, "log", "-1", "--format=%ct")
    return datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc).replace(tzinfo=None)


def files_of(prefix):
    """Each file of the prefix; a link is no file of its own."""
    for path in sorted(prefix.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        name = "./" + path.relative_to(prefix).as_posix()
        data = path.read_bytes()
        yield File(name, "SPDXRef-File-" + re.sub(r"[^A-Za-z0-9.-]", "-", name[2:]),
                   [Checksum(ChecksumAlgorithm.SHA1, hashlib.sha1(data).hexdigest()),
                    Checksum(ChecksumAlgorithm.SHA256, hashlib.sha256(data).hexdigest())],
                   license_concluded=LICENCE, license_info_in_file=[LICENCE])


def verification_code(files):
    """As SPDX says: the SHA-1 of the sorted SHA-1s."""
    sums = sorted(file.checksums[0].value for file in files)
    return PackageVerificationCode(hashlib.sha1("".join(sums).encode()).hexdigest())


def linked(part):
    """A package whose code is in the binaries."""
    licence = spdx_licensing.parse(part.licence)
    return Package("SPDXRef-Package-" + re.sub(r"[^A-Za-z0-9.-]", "-", f"{part.name}-{part.version}"), part.name,
                   part.location or SpdxNoAssertion(), part.version, files_analyzed=False, license_concluded=licence,
                   license_declared=licence, supplier=SpdxNoAssertion(),
                   checksums=[Checksum(ChecksumAlgorithm.SHA256, part.sha256)] if part.sha256 else [])


PUBLIC_DOMAIN = ExtractedLicensingInfo("LicenseRef-Public-Domain", "The authors have put it into the public domain.",
                                       "Public domain")


def document_of(prefix):
    version = (ROOT / "VERSION").read_text().strip()
    files = list(files_of(prefix))
    code = verification_code(files)
    whole = Package("SPDXRef-Package-cachalot", "cachalot", SpdxNoAssertion(), version, files_analyzed=True,
                    verification_code=code, license_concluded=LICENCE, license_declared=LICENCE,
                    license_info_from_files=[LICENCE], supplier=Actor(ActorType.ORGANIZATION, "The cachalot authors"))
    packages = [linked(part) for part in parts_of(prefix.name)]
    name = f"cachalot-{version}-{prefix.name}"
    made = CreationInfo("SPDX-2.3", "SPDXRef-DOCUMENT", name, f"https://spdx.org/spdxdocs/{name}-{code.value}",
                        [Actor(ActorType.TOOL, "spdx-tools")], commit_time())
    relationships = [Relationship("SPDXRef-DOCUMENT", RelationshipType.DESCRIBES, whole.spdx_id)]
    relationships += [Relationship(whole.spdx_id, RelationshipType.CONTAINS, file.spdx_id) for file in files]
    relationships += [Relationship(whole.spdx_id, RelationshipType.STATIC_LINK, part.spdx_id) for part in packages]
    return Document(made, [whole, *packages], files, relationships=relationships,
                    extracted_licensing_info=[PUBLIC_DOMAIN])


def main():
    if len(sys.argv) != 3 or not sys.argv[2].endswith(".spdx.json") or not pathlib.Path(sys.argv[1]).is_dir():
        print("usage: sbom.py PREFIX OUT.spdx.json", file=sys.stderr)
        sys.exit(2)
    document = document_of(pathlib.Path(sys.argv[1]))
    messages = validate_full_spdx_document(document)
    for message in messages:
        print(message.validation_message, file=sys.stderr)
    write_file(document, sys.argv[2], validate=False)
    print(f"{sys.argv[2]}: {len(document.files)} files, {len(document.packages)} packages")
    sys.exit(1 if messages else 0)


if __name__ == "__main__":
    main()
