# SPDX-License-Identifier: MIT OR Apache-2.0
"""The collector for prometheus_client, and the instruments for OpenTelemetry."""

import importlib.util
import os
import re
import time
import unittest
from unittest import mock

from support import MIB, run

import cachalot_cuda


def need(package):
    """A test case needs a package: it is skipped without, and fails where CACHALOT_TEST_PACKAGES is set."""
    missing = importlib.util.find_spec(package) is None and "CACHALOT_TEST_PACKAGES" not in os.environ
    return unittest.skipIf(missing, f"{package} is not installed")


def series_of(page):
    """Names, kinds, descriptions, labels and values of a page, in no order."""
    from prometheus_client.parser import text_string_to_metric_families
    return {(family.type, family.documentation, sample.name, frozenset(sample.labels.items()), sample.value)
            for family in text_string_to_metric_families(page) for sample in family.samples}


@need("prometheus_client")
class Collector(unittest.TestCase):
    def setUp(self):
        import prometheus_client
        self.registry = prometheus_client.CollectorRegistry()
        self.page = lambda: prometheus_client.generate_latest(self.registry).decode()
        self.allocator = cachalot_cuda.Allocator("", driver="sim:1GiB", track_labels=True)
        self.addCleanup(self.allocator.close)
        from cachalot_cuda import prometheus
        self.prometheus = prometheus

    def register(self, **options):
        return self.prometheus.register(self.allocator, registry=self.registry, **options)

    def test_the_page_is_the_librarys_own(self):
        self.register()
        with cachalot_cuda.label('a "b"\\c'), self.allocator.allocate(5 * MIB):
            series = series_of(self.page())
            self.assertGreater(len(series), 40)
            self.assertEqual(series, series_of(self.allocator.metrics()))

    def test_labels_are_those_of_the_pod_and_of_the_caller(self):
        with mock.patch.dict(os.environ, POD_NAME="server-0", NODE_NAME="node-1"):
            self.register(labels={"node": "other", "model": "chat"})
        labels = {"device": "0", "pod": "server-0", "node": "other", "model": "chat"}
        self.assertEqual(self.registry.get_sample_value("cachalot_device_total_bytes", labels), 1024 * MIB)
        self.assertIn('cachalot_build_info{backend="native",model="chat",node="other",pod="server-0"', self.page())

    def test_a_devices_metrics_have_its_uuid(self):
        page = """# TYPE cachalot_device_info gauge
cachalot_device_info{device="1",uuid="GPU-1",gpu_uuid="GPU-1",pci_bus_id="00000000:1b:00.0"} 1
# TYPE cachalot_pinned_bytes gauge
cachalot_pinned_bytes{device="0"} 5
cachalot_pinned_bytes{device="1"} 7
"""
        with mock.patch.object(self.allocator, "metrics", lambda: page):
            self.register()
            value = self.registry.get_sample_value
            self.assertEqual(value("cachalot_pinned_bytes", {"device": "1", "uuid": "GPU-1"}), 7)
            self.assertEqual(value("cachalot_pinned_bytes", {"device": "0"}), 5)

    def test_metrics_of_others_stay_where_these_fail(self):
        import prometheus_client
        prometheus_client.Gauge("others", "", registry=self.registry)
        collector = self.register()
        self.allocator.close()
        with self.assertLogs("cachalot", "WARNING") as logs:
            self.assertIn("others 0.0", self.page())
        self.assertIn("the allocator is closed", logs.output[0])
        self.registry.unregister(collector)
        self.assertNotIn("cachalot", self.page())

    def test_without_an_allocator_it_is_that_of_the_process(self):
        done = run("import cachalot_cuda.prometheus, prometheus_client\n"
                   "from support import allocate, MIB\n"
                   "cachalot_cuda.prometheus.register()\n"
                   "allocate(5 * MIB)\n"
                   "print(prometheus_client.REGISTRY.get_sample_value(\n"
                   "    'cachalot_allocated_bytes', {'device': '0', 'pool': 'large'}))")
        self.assertEqual(done.stderr, "")
        self.assertEqual(float(done.stdout), 5 * MIB)


@need("opentelemetry")
class Instruments(unittest.TestCase):
    def setUp(self):
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader

        from cachalot_cuda import opentelemetry
        self.allocator = cachalot_cuda.Allocator("", driver="sim:1GiB")
        self.addCleanup(self.allocator.close)
        self.reader = InMemoryMetricReader()
        provider = MeterProvider([self.reader], shutdown_on_exit=False)
        self.addCleanup(provider.shutdown)
        opentelemetry.instrument(provider.get_meter("test"), self.allocator, labels={"pod": "server-0"})

    def collected(self):
        resources = self.reader.get_metrics_data().resource_metrics
        metrics = [metric for each in resources for scope in each.scope_metrics for metric in scope.metrics]
        return {metric.name: metric for metric in metrics}

    def test_each_metric_of_the_page_has_an_instrument(self):
        with self.allocator.allocate(5 * MIB):
            pass
        time.sleep(0.6)
        metrics = self.collected()
        page = self.allocator.metrics().splitlines()
        self.assertEqual(set(metrics), {re.split("[{ ]", line)[0] for line in page if not line.startswith("#")})
        frees = metrics["cachalot_freed_bytes_total"]
        self.assertEqual(frees.unit, "By")
        self.assertTrue(frees.data.is_monotonic)
        large = {"device": "0", "pool": "large", "pod": "server-0"}
        self.assertEqual([point.value for point in frees.data.data_points if point.attributes == large], [5 * MIB])

    def test_metrics_that_come_later_have_one_too(self):
        self.assertNotIn("cachalot_tenant_priority", self.collected())
        tenant = self.allocator.tenant("chat", priority=3)
        self.addCleanup(tenant.close)
        deadline = time.monotonic() + 30
        while "cachalot_tenant_priority" not in self.collected() and time.monotonic() < deadline:
            time.sleep(0.1)
        points = self.collected()["cachalot_tenant_priority"].data.data_points
        self.assertIn(3, [point.value for point in points])


if __name__ == "__main__":
    unittest.main()
