#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads the page that a program prints with the parser of Prometheus' own Python client, and with
promtool where there is one.

  metrics_parse.py PROGRAM [ARGUMENT...]

Exit code 0: well-formed; 1: not; 77: the client is missing (Debian: python3-prometheus-client).
"""

import collections
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import debian_python  # noqa: E402

LABELS = {"plain", 'quote " backslash \\ newline \n end', "\ufffd", "\U0001f40b {a=\"b\"} 1\r\t"}
TENANTS = {("default", "0"), ("chat", "1"), ('batch " \\ \n \ufffd', "2"), ("twin", "3"), ("twin", "4")}
SIGNED = {"cachalot_tenant_priority"}


def repeated(values):
    return [value for value, count in collections.Counter(values).items() if count > 1]


def findings(text, parser):
    """One line for each thing that is wrong."""
    if not text.endswith("\n"):
        yield "the page does not end with a newline"
    for kind in ("HELP", "TYPE"):
        for name in repeated(re.findall(rf"^# {kind} (\S+)", text, re.MULTILINE)):
            yield f"{name} has more than one line # {kind}"
    families = list(parser.text_string_to_metric_families(text))
    for name in repeated([family.name for family in families]):
        yield f"{name}: the lines of the family are not together, or it is two"
    samples = [sample for family in families for sample in family.samples]
    for name, labels in repeated([(s.name, tuple(sorted(s.labels.items()))) for s in samples]):
        yield f"{name}{dict(labels)} comes twice"
    for family in families:
        if family.type not in ("gauge", "counter") or not family.documentation:
            yield f"{family.name} has no type or no text"
        for sample in family.samples:
            if (family.type == "counter") != sample.name.endswith("_total"):
                yield f"{sample.name} is a {family.type}"
            if not sample.name.startswith("cachalot_") or (sample.value < 0 and sample.name not in SIGNED):
                yield f"{sample.name} is {sample.value}"
    seen = {s.labels["label"] for s in samples if s.name == "cachalot_label_allocated_bytes"}
    if seen != LABELS:
        yield f"the labels are {sorted(seen)}"
    if {s.labels.get("device") for s in samples} != {None, "0", "1"}:
        yield "there are other devices than two"
    yield from findings_of_devices(samples)
    yield from findings_of_tenants(families, samples)


def findings_of_devices(samples):
    total, free, outside, reserved = (by_device(samples, f"cachalot_{name}_bytes")
                                      for name in ("device_total", "device_free", "device_outside", "reserved"))
    for device in ("0", "1"):
        if total.get(device) != free.get(device, -1) + outside.get(device, 0) + reserved.get(device, 0):
            yield f"device {device} has {total}: free {free}, outside {outside}, reserved {reserved}"
    processes = {s.labels["pid"]: s.value for s in samples if s.name == "cachalot_device_process_bytes"}
    if processes != {"4711": 30 * 2**20}:
        yield f"the processes are {processes}"


def findings_of_tenants(families, samples):
    for family in families:
        if family.name.startswith("cachalot_tenant_") and family.name != "cachalot_tenant_limit_bytes":
            seen = [(s.labels["device"], (s.labels["tenant"], s.labels["id"])) for s in family.samples]
            if set(seen) != {(device, tenant) for device in ("0", "1") for tenant in TENANTS}:
                yield f"{family.name} has {seen}"
    for name in ("allocated_bytes", "requested_bytes", "allocated_blocks"):
        by_tenant, by_pool = (by_device(samples, prefix + name) for prefix in ("cachalot_tenant_", "cachalot_"))
        if by_tenant != by_pool or not by_pool:
            yield f"tenants have {name} {by_tenant}, the devices {by_pool}"


def by_device(samples, name):
    sums = collections.Counter()
    for sample in samples:
        if sample.name == name:
            sums[sample.labels["device"]] += sample.value
    return dict(sums)


def self_test(text, parser):
    """Each defect, put into the page, is found."""
    line = re.search(r"^cachalot_segments\{.*\n", text, re.MULTILINE).group(0)
    defects = {
        "no end": text[:-1],
        "a series twice": text.replace(line, line + line),
        "a family in two parts": text + line,
        "a type twice": text + "# TYPE cachalot_segments gauge\n",
        "a sum that is a gauge": text.replace("# TYPE cachalot_ooms_total counter",
                                              "# TYPE cachalot_ooms_total gauge"),
        "a label lost": text.replace('label="plain"', 'label="plan"'),
        "a byte of a device lost": re.sub(r"^(cachalot_device_free_bytes.*) \d+$", r"\1 1", text, flags=re.MULTILINE),
        "a process lost": text.replace('pid="4711"', 'pid="4712"'),
        "a tenant lost": text.replace('tenant="chat"', 'tenant="chap"'),
        "a block of no tenant": re.sub(r"^(cachalot_tenant_allocated_blocks.*) 1$", r"\1 2", text, flags=re.MULTILINE),
    }
    for what, page in defects.items():
        if page == text or not list(findings(page, parser)):
            yield f"not found: {what}"


def main():
    debian_python.need("prometheus_client", "python3-prometheus-client")
    from prometheus_client import parser

    page = subprocess.run(sys.argv[1:], check=True, capture_output=True).stdout
    text = page.decode("utf-8")
    wrong = list(findings(text, parser)) + list(self_test(text, parser))
    promtool = shutil.which("promtool")
    if promtool:
        checked = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True)
        wrong += checked.stderr.decode().splitlines() if checked.returncode != 0 else []
    print("\n".join(wrong) if wrong else f"{len(text.splitlines())} lines are well-formed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
