#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes the Grafana dashboard of the library's metrics: dashboard.py > dashboard.json (docs/kubernetes.md).

It needs grafana-foundation-sdk (tests/operators/requirements.txt); the tests there compare what it writes.
"""

import itertools
import string
import sys

from grafana_foundation_sdk.builders import common, prometheus, timeseries
from grafana_foundation_sdk.builders import dashboard as dashboards
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement, StackingMode
from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableRefresh

SOURCE = DataSourceRef(type_val="prometheus", uid="${source}")
HERE = 'namespace=~"$namespace",pod=~"$pod"'

# A metric of each page, of the library and of `cachalot record --live`.
PAGES = '{{__name__=~"cachalot_build_info|cachalot_recorded_processes"{}}}'

# A series of the library's page belongs to a device of a context of a process of a target.
OF_TENANT = "namespace, pod, device, tenant"
OF_DEVICE = "(namespace, pod, instance, process, context, device)"
NAMED = f"* on {OF_DEVICE} group_left (uuid, gpu_uuid) cachalot_device_info{{{HERE}}}"
DEVICE = "{{pod}} device {{device}} {{process}}"

BYTES, COUNT, RATE, SHARE, PERCENT = "bytes", "short", "ops", "percentunit", "percent"


def now(name, by="namespace, pod, instance, process, device"):
    """What a gauge is now, over pools and contexts."""
    return f"sum by ({by}) ({name}{{{HERE}}})"


def rate(name, by="namespace, pod, instance, process, device"):
    return f"sum by ({by}) (rate({name}{{{HERE}}}[$__rate_interval]))"


def of_gpu(metric):
    """A metric of DCGM's exporter under the library's name of the label."""
    return f'label_replace(max by (UUID) ({metric}), "gpu_uuid", "$1", "UUID", "(.+)")'


def reserved_by_gpu():
    return f"sum by (gpu_uuid) (sum without (pool) (cachalot_reserved_bytes{{{HERE}}}) {NAMED})"


# Only GPUs that a program on cachalot uses.
def used_gpus(expression):
    return f"{expression} and on (gpu_uuid) cachalot_device_info{{{HERE}}}"


# Rows of panels: title, unit, what it tells, queries with their legends.
ROWS = {
    "Devices": [
        ("Memory of the devices", BYTES, "What blocks have, what is cached, what others have, what is free.", [
            (now("cachalot_allocated_bytes"), f"{DEVICE} allocated"),
            (f"{now('cachalot_reserved_bytes')} - {now('cachalot_allocated_bytes')}", f"{DEVICE} cached"),
            (now("cachalot_device_outside_bytes"), f"{DEVICE} others"),
            (now("cachalot_device_free_bytes"), f"{DEVICE} free"),
        ]),
        ("Memory of the GPUs, as DCGM sees it", BYTES, "All programs of a GPU, and what cachalot has reserved of it.", [
            (used_gpus(of_gpu("DCGM_FI_DEV_FB_USED") + " * 1048576"), "{{gpu_uuid}} used"),
            (reserved_by_gpu(), "{{gpu_uuid}} reserved by cachalot"),
        ]),
        ("Share of the GPUs' used memory that cachalot has reserved", SHARE, "", [
            (f"{reserved_by_gpu()} / on (gpu_uuid) ({of_gpu('DCGM_FI_DEV_FB_USED')} * 1048576)", "{{gpu_uuid}}"),
        ]),
        ("GPU utilization", PERCENT, "DCGM, of GPUs that programs on cachalot use. A divided GPU (MIG) has none.", [
            (used_gpus(of_gpu("DCGM_FI_DEV_GPU_UTIL")), "{{gpu_uuid}}"),
        ]),
        ("Processes on the devices", BYTES, "By the management library (NVML), where it tells.", [
            (now("cachalot_device_process_bytes", "namespace, pod, device, pid"), "{{pod}} device {{device}} pid {{pid}}"),
        ]),
    ],
    "Cache": [
        ("Requested, allocated, reserved", BYTES, "", [
            (now("cachalot_requested_bytes"), f"{DEVICE} requested"),
            (now("cachalot_allocated_bytes"), f"{DEVICE} allocated"),
            (now("cachalot_reserved_bytes"), f"{DEVICE} reserved"),
            (f"max by (namespace, pod, instance, process, device) (cachalot_limit_bytes{{{HERE}}})", f"{DEVICE} limit"),
        ]),
        ("Peaks", BYTES, "The highest since the last reset.", [
            (now("cachalot_allocated_peak_bytes"), f"{DEVICE} allocated"),
            (now("cachalot_reserved_peak_bytes"), f"{DEVICE} reserved"),
        ]),
        ("Share of reserved memory in pieces that lie beside used ones", SHARE, "It cannot go back to the driver.", [
            (f"{now('cachalot_inactive_split_bytes')} / ({now('cachalot_reserved_bytes')} > 0)", DEVICE),
        ]),
        ("Blocks handed out a second", RATE, "", [
            (rate("cachalot_allocations_total"), f"{DEVICE} handed out"),
            (rate("cachalot_frees_total"), f"{DEVICE} freed"),
        ]),
        ("Calls of the driver a second", RATE, "A warm cache makes next to none.", [
            (rate("cachalot_device_allocs_total"), f"{DEVICE} segments obtained"),
            (rate("cachalot_device_frees_total"), f"{DEVICE} segments given back"),
        ]),
        ("Memory was short", RATE, "Requests after which the cache was released, that failed, that a limit refused.", [
            (rate("cachalot_alloc_retries_total"), f"{DEVICE} retries"),
            (rate("cachalot_ooms_total"), f"{DEVICE} out of memory"),
            (rate("cachalot_oom_rejections_total"), f"{DEVICE} refused by a limit"),
        ]),
        ("Page-locked memory of the host", BYTES, "", [
            (f"cachalot_host_reserved_bytes{{{HERE}}}", "{{pod}} reserved"),
            (f"cachalot_host_active_bytes{{{HERE}}}", "{{pod}} in use"),
        ]),
    ],
    "Tenants and labels": [
        ("Tenants", BYTES, "", [
            (now("cachalot_tenant_allocated_bytes", OF_TENANT), "{{pod}} {{tenant}}"),
            (now("cachalot_tenant_guaranteed_bytes", OF_TENANT), "{{pod}} {{tenant}} is guaranteed"),
        ]),
        ("Share of the limit that a tenant has", SHARE, "Tenants with a limit.", [
            (f"cachalot_tenant_allocated_bytes{{{HERE}}} / cachalot_tenant_limit_bytes{{{HERE}}}", "{{pod}} {{tenant}}"),
        ]),
        ("Requests of tenants that were refused, a second", RATE, "", [
            (rate("cachalot_tenant_ooms_total", OF_TENANT), "{{pod}} {{tenant}}"),
        ]),
        ("Labels", BYTES, "With track_labels.", [
            (now("cachalot_label_allocated_bytes", "namespace, pod, device, label"), "{{pod}} {{label}}"),
        ]),
    ],
    "Programs under cachalot record --live": [
        ("Who holds the devices", BYTES, "The holders of a device add up to what it has in use.", [
            (now("cachalot_recorded_device_held_bytes", "namespace, pod, device, holder"), "{{pod}} {{holder}}"),
        ]),
        ("Memory of processes", BYTES, "As requested.", [
            (now("cachalot_recorded_bytes", "namespace, pod, process, call"), "{{pod}} {{process}} {{call}}"),
        ]),
        ("Share of the time in calls of the driver", SHARE, "Times of several threads add up.", [
            (rate("cachalot_recorded_call_seconds_total", "namespace, pod, call"), "{{pod}} {{call}}"),
            (rate("cachalot_recorded_wait_seconds_total", "namespace, pod, call"), "{{pod}} {{call}}, waits"),
        ]),
        ("Requests that the driver refused, a second", RATE, "", [
            (rate("cachalot_recorded_out_of_memory_total", "namespace, pod"), "{{pod}}"),
        ]),
    ],
}
STACKED = {"Memory of the devices", "Who holds the devices"}


def panel(number, title, unit, description, queries):
    built = (timeseries.Panel().id(number).title(title).unit(unit).description(description).datasource(SOURCE).min(0)
             .span(12).height(8).fill_opacity(10).show_points("never")
             .legend(common.VizLegendOptions().display_mode(LegendDisplayMode.TABLE).placement(LegendPlacement.BOTTOM)
                     .show_legend(True).calcs(["lastNotNull", "max"])))
    if title in STACKED:
        built = built.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    for letter, (expression, legend) in zip(string.ascii_uppercase, queries):
        built = built.with_target(prometheus.Dataquery().ref_id(letter).expr(expression).legend_format(legend).range())
    return built


def choice(name, metric, label):
    return (dashboards.QueryVariable(name).datasource(SOURCE).query(f"label_values({metric}, {label})")
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).multi(True).include_all(True).all_value(".*"))


def dashboard():
    built = (dashboards.Dashboard("cachalot").uid("cachalot").tags(["cachalot", "gpu"]).readonly().refresh("30s")
             .time("now-1h", "now").timezone("browser")
             .with_variable(dashboards.DatasourceVariable("source").type("prometheus"))
             .with_variable(choice("namespace", PAGES.format(""), "namespace"))
             .with_variable(choice("pod", PAGES.format(',namespace=~"$namespace"'), "pod")))
    numbers = itertools.count(1)
    for title, panels in ROWS.items():
        built = built.with_row(dashboards.Row(title).id(next(numbers)))
        for about in panels:
            built = built.with_panel(panel(next(numbers), *about))
    return built.build()


def main():
    sys.stdout.write(JSONEncoder(sort_keys=True, indent=2).encode(dashboard()) + "\n")


if __name__ == "__main__":
    main()
