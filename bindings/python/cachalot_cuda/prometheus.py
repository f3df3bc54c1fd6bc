# SPDX-License-Identifier: MIT OR Apache-2.0
"""The statistics of an allocator in a registry of prometheus_client (the extra `prometheus` of the distribution).

    cachalot_cuda.torch.install()
    cachalot_cuda.prometheus.register()        # of prometheus_client.REGISTRY
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping

from prometheus_client import REGISTRY, CollectorRegistry, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from .allocator import Allocator
from .errors import Error

# What Kubernetes' downward API is usually told to set, and the label for it.
_VARIABLES = {"pod": "POD_NAME", "namespace": "POD_NAMESPACE", "node": "NODE_NAME"}

_logger = logging.getLogger("cachalot")


class AllocatorCollector(Collector):
    """The metrics of Allocator.metrics(), with the same names, descriptions and labels and with these labels more:
    those of a device have its `uuid`, where cachalot_device_info tells it.

    Args:
        allocator: None: the one of the process, that of its hosts, made now if there is none. So a host that has
            options for it comes first.
        labels: of every metric. pod, namespace and node are the environment variables POD_NAME, POD_NAMESPACE and
            NODE_NAME where they are set and nothing else is said.
    """

    def __init__(self, allocator: Allocator | None = None, labels: Mapping[str, str] | None = None) -> None:
        self._allocator = allocator or Allocator.of_process()
        self._labels = {name: os.environ[variable] for name, variable in _VARIABLES.items() if variable in os.environ}
        self._labels.update(labels or {})

    def describe(self) -> list[Metric]:
        return []  # no driver is asked because something is registered

    def collect(self) -> Iterator[Metric]:
        """The metrics of now. What fails is logged, so that the page keeps the metrics of others."""
        try:
            page = self._allocator.metrics()
        except Error as error:
            _logger.warning("no metrics: %s", error)
            return
        of_devices: dict[str | None, dict[str, str]] = {}  # the information on devices comes before their numbers
        for family in text_string_to_metric_families(page):
            if family.name == "cachalot_device_info":
                of_devices = {each.labels["device"]: {"uuid": each.labels["uuid"]} for each in family.samples}
            family.samples = [
                each._replace(labels={**each.labels, **of_devices.get(each.labels.get("device"), {}), **self._labels})
                for each in family.samples]
            yield family


def register(allocator: Allocator | None = None, labels: Mapping[str, str] | None = None,
             registry: CollectorRegistry = REGISTRY) -> AllocatorCollector:
    """Registers an AllocatorCollector, whose arguments these are, and gives it, for registry.unregister()."""
    collector = AllocatorCollector(allocator, labels)
    registry.register(collector)
    return collector
