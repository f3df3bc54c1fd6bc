# SPDX-License-Identifier: MIT OR Apache-2.0
"""The statistics of an allocator as instruments of OpenTelemetry (the extra `opentelemetry` of the distribution).

    cachalot_cuda.torch.install()
    instruments = cachalot_cuda.opentelemetry.instrument()     # for OTLP, or whatever the program's SDK exports
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Iterable, Mapping

from opentelemetry.metrics import CallbackOptions, Meter, Observation, get_meter
from prometheus_client import Metric

from .allocator import Allocator
from .prometheus import AllocatorCollector

_SAME_COLLECTION = 0.5  # seconds: each instrument is asked by itself, and one page answers them all


class Instruments:
    """An observable counter or gauge for each metric of the page, with its name, description and labels. A metric
    that comes later, of the first tenant, say, has an instrument from the collection after that on."""

    def __init__(self, meter: Meter, collector: AllocatorCollector) -> None:
        self._meter, self._collector = meter, collector
        self._lock = threading.Lock()
        self._families: dict[str, Metric] = {}
        self._read_at = float("-inf")
        self._known: set[str] = set()
        families = self._now()
        self._create(self._claimed(families), families)

    def _now(self) -> dict[str, Metric]:
        with self._lock:
            if time.monotonic() - self._read_at > _SAME_COLLECTION:
                self._families = {_name(family): family for family in self._collector.collect()}
                self._read_at = time.monotonic()
            return self._families

    def _claimed(self, families: Mapping[str, Metric]) -> set[str]:
        """The names that have no instrument yet, each given once."""
        with self._lock:
            names = families.keys() - self._known
            self._known |= names
            return names

    def _create(self, names: Iterable[str], families: Mapping[str, Metric]) -> None:
        for name in names:
            is_sum = families[name].type == "counter"
            create = self._meter.create_observable_counter if is_sum else self._meter.create_observable_gauge
            create(name, callbacks=[functools.partial(self._observe, name)], description=families[name].documentation,
                   unit="By" if name.removesuffix("_total").endswith("_bytes") else "")

    def _observe(self, name: str, options: CallbackOptions) -> Iterable[Observation]:
        families = self._now()
        new = self._claimed(families)
        if new:  # on a thread of its own, since a collection has the lock that a new instrument needs
            threading.Thread(target=self._create, args=(new, families), daemon=True).start()
        samples = families[name].samples if name in families else ()
        return [Observation(sample.value, sample.labels) for sample in samples]


def _name(family: Metric) -> str:
    return family.name + "_total" if family.type == "counter" else family.name


def instrument(meter: Meter | None = None, allocator: Allocator | None = None,
               labels: Mapping[str, str] | None = None) -> Instruments:
    """Instruments of a meter, by default the one named "cachalot" of the program's provider. The other arguments are
    those of cachalot_cuda.prometheus.AllocatorCollector."""
    return Instruments(meter or get_meter("cachalot"), AllocatorCollector(allocator, labels))
