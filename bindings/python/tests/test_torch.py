# SPDX-License-Identifier: MIT OR Apache-2.0
"""cachalot_cuda.torch against a stand-in for PyTorch that has the functions it is installed through."""

import json
import unittest

from support import run

# PyTorch's names, and the function of ours that each must get.
HOOKS = {
    "set_init_fn": "cachalot_pluggable_init",
    "set_reset_fn": "cachalot_pluggable_reset",
    "set_memory_fraction_fn": "cachalot_pluggable_memory_fraction",
    "set_base_alloc_fn": "cachalot_pluggable_base_alloc",
    "set_record_stream_fn": "cachalot_pluggable_record_stream",
    "set_begin_allocate_to_pool": "cachalot_pluggable_begin_allocate_to_pool",
    "set_end_allocate_to_pool_fn": "cachalot_pluggable_end_allocate_to_pool",
    "set_release_pool": "cachalot_pluggable_release_pool",
}

TORCH = f"""
HOOKS = {HOOKS!r}
""" + """
import ctypes, sys, types

SETTERS = set(HOOKS)

class Inner:
    def __init__(self): self.hooks = {}
    def __getattr__(self, name):
        if name not in SETTERS: raise AttributeError(name)
        return lambda address: self.hooks.__setitem__(name, address)

class MemPool:
    def __init__(self, *arguments, **options): self.arguments, self.options = arguments, options

class CUDAPluggableAllocator:
    def __init__(self, path, alloc, free):
        self.names, self.inner = [path, alloc, free], Inner()
    def allocator(self): return self.inner

class CUDAAllocator:
    def __init__(self, allocator): self.allocator = lambda: allocator

torch = types.ModuleType("torch")
torch._C = types.SimpleNamespace(_cuda_memoryStats=None, _cuda_memorySnapshot=None, _accelerator_getDeviceStats=None)
torch.cuda = types.SimpleNamespace(
    initialized=False, current=[], is_initialized=lambda: torch.cuda.initialized, current_device=lambda: 0,
    init=lambda: None, empty_cache=lambda: None, graph_pool_handle=lambda: (0, 77), MemPool=MemPool)
torch.cuda.memory = types.SimpleNamespace(
    CUDAPluggableAllocator=CUDAPluggableAllocator, MemPool=None, _CUDAAllocator=CUDAAllocator,
    change_current_allocator=lambda allocator: torch.cuda.current.append(allocator))
torch.cuda.memory_snapshot = lambda pool, traces: torch._C._cuda_memorySnapshot((*pool, traces))["segments"]
sys.modules["torch"] = torch

import json
import cachalot_cuda, cachalot_cuda.torch
from support import MIB, allocate, free, route_all
"""

# In place of the module that compiles the extension.
EXTENSION = """
extension = types.ModuleType("cachalot_cuda.torch_extension")
sys.modules["cachalot_cuda.torch_extension"] = cachalot_cuda.torch_extension = extension
"""


def output(program, **values):
    done = run(TORCH + program, **values)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


def assert_is_on_a_gpu_or_nothing(program):
    """Without CACHALOT_DRIVER: memory comes from the driver `cuda`, or the first use is its error."""
    driver, error = output(
        f"from cachalot_cuda import _library\n{program}\nlibrary = _library.load()\n"
        "try:\n"
        "    driver = library.cachalot_allocator_driver(_library.allocator())\n"
        "    print(json.dumps([library.cachalot_driver_name(driver).decode(), '']))\n"
        "except cachalot_cuda.Error as error: print(json.dumps(['', str(error)]))", CACHALOT_DRIVER="")
    if driver != "cuda" and "cuda" not in error:
        raise AssertionError((driver, error))


class Install(unittest.TestCase):
    def test_puts_the_process_on_cachalot_with_all_hooks(self):
        names, right = output(
            "cachalot_cuda.torch.install()\nallocator, = torch.cuda.current\n"
            "library = ctypes.CDLL(allocator.names[0])\n"
            "address = lambda name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value\n"
            "right = [name for name, value in allocator.inner.hooks.items() if value == address(HOOKS[name])]\n"
            "print(json.dumps([allocator.names, right]))")
        self.assertTrue(names[0].endswith("libcachalot_pluggable.so"))
        self.assertEqual(names[1:], ["cachalot_pluggable_alloc", "cachalot_pluggable_free"])
        self.assertEqual(sorted(right), sorted(HOOKS))

    def test_takes_the_allocator_of_the_extension_where_it_is_asked_for(self):
        made, hooks, is_current = output(
            EXTENSION + "def make_allocator(*names):\n    made.append(names)\n    return inner\n"
            "extension.make_allocator, made, inner = make_allocator, [], Inner()\n"
            "cachalot_cuda.torch.install(extension=True)\nallocator, = torch.cuda.current\n"
            "print(json.dumps([made, list(inner.hooks), allocator.allocator() is inner]))")
        self.assertEqual(made, [["cachalot_pluggable_alloc", "cachalot_pluggable_free"]])
        self.assertEqual(sorted(hooks), sorted(HOOKS))
        self.assertTrue(is_current)

    def test_an_extension_that_does_not_compile_leaves_everything_as_it_was(self):
        said, installed, allocators, limit = output(
            EXTENSION + "def make_allocator(*_): raise RuntimeError('no compiler')\n"
            "extension.make_allocator = make_allocator\n"
            "try: cachalot_cuda.torch.install('max_split_size_mb:64', extension=True)\n"
            "except RuntimeError as error: said = str(error)\n"
            "state = [said, cachalot_cuda.torch.is_installed(), len(torch.cuda.current)]\n"
            "cachalot_cuda.torch.install('max_split_size_mb:32')\n"
            "print(json.dumps([*state, cachalot_cuda.snapshot()['allocator_settings']['max_split_size']]))")
        self.assertEqual((said, installed, allocators, limit), ("no compiler", False, 0, 32 << 20))

    def test_takes_the_options_that_it_is_given(self):
        settings = output(
            "cachalot_cuda.torch.install('max_split_size_mb:64', '2.11', track_labels=True)\n"
            "print(json.dumps([len(cachalot_cuda.stats()), cachalot_cuda.snapshot()['allocator_settings']]))",
            CACHALOT_ALLOC_CONF="max_split_size_mb:32")
        self.assertEqual(settings[0], 122)
        self.assertEqual(settings[1]["max_split_size"], 64 << 20)

    def test_takes_a_policy_or_that_of_the_environment(self):
        for arguments, environment, expected in (
                ("policy='serving,thrift,page=8MiB'", "pytorch", "serving,thrift,page=8MiB,streams=announced"),
                ("policy=cachalot_cuda.Policy('serving', borrow='never', page_bytes=4 << 20)", "",
                 "serving,page=4MiB,borrow=never,streams=announced"),
                ("policy='pytorch'", "serving", "pytorch"),
                ("", "serving,thrift", "serving,thrift,page=2MiB,streams=announced"),
                ("", "", "pytorch")):
            self.assertEqual(expected, output(
                f"cachalot_cuda.torch.install({arguments})\nprint(json.dumps(str(cachalot_cuda.policy())))",
                CACHALOT_POLICY=environment))

    def test_promises_announced_streams_unless_the_policy_says_otherwise(self):
        for install, environment, streams in (
                ("install(policy='serving')", "", "announced"),
                ("install(policy=cachalot_cuda.Policy('serving'))", "", "announced"),
                ("install()", "serving", "announced"),
                ("mem_pool()", "serving", "announced"),
                ("install(policy='serving,streams=unannounced')", "serving", "unannounced"),
                ("install(policy=cachalot_cuda.Policy('serving', streams='unannounced'))", "", "unannounced"),
                ("install()", "serving,streams=unannounced", "unannounced"),
                ("mem_pool()", "serving,streams=unannounced", "unannounced"),
                ("install()", "", None)):
            self.assertEqual(streams, output(
                f"cachalot_cuda.torch.{install}\nprint(json.dumps(cachalot_cuda.policy().streams))",
                CACHALOT_POLICY=environment))

    def test_leaves_a_policy_of_the_environment_that_is_wrong_to_the_first_use(self):
        self.assertIn('the environment variable CACHALOT_POLICY is "servin": expected', output(
            "cachalot_cuda.torch.install()\n"
            "try: cachalot_cuda.stats()\n"
            "except ValueError as error: print(json.dumps(str(error)))", CACHALOT_POLICY="servin"))

    def test_says_what_a_policy_may_be_and_installs_nothing(self):
        refused = output(
            "try: cachalot_cuda.torch.install(policy='servin')\n"
            "except ValueError as error: print(json.dumps([str(error), len(torch.cuda.current)]))")
        self.assertIn('policy "servin": expected pytorch[,page=SIZE], or serving', refused[0])
        self.assertEqual(refused[1], 0)

    def test_replaces_what_pytorch_says_of_live_blocks(self):
        for release, texts in (("2.15", ["a text"]), ("2.11", [])):
            supported, frames, found, of_nothing = output(
                "names = ('_cuda_memoryMetadataSupported', '_cuda_annotateMemory', '_cuda_allocationTraceback',"
                " '_cuda_record_memory_history')\n"
                "for name in names: setattr(torch._C, name, None)\n"
                f"cachalot_cuda.torch.install(release={release!r}, contexts='labels')\n"
                "torch._C._cuda_record_memory_history('all', 'all', 'all', 1000)\n"
                "with cachalot_cuda.label('weights'): block = allocate(1000)\n"
                "torch._C._cuda_annotateMemory(block, 'a text')\n"
                "entries = cachalot_cuda.snapshot()['device_traces'][0]\n"
                "print(json.dumps([torch._C._cuda_memoryMetadataSupported(),"
                " torch._C._cuda_allocationTraceback(block),"
                " [entry['user_metadata'] for entry in entries if entry['action'] == 'annotate'],"
                " torch._C._cuda_allocationTraceback(7)]))")
            self.assertEqual((supported, found, of_nothing), (release == "2.15", texts, None))
            if supported:
                self.assertEqual([frame["name"] for frame in frames], ["weights"])
            else:
                self.assertIsNone(frames)

    def test_replaces_the_statistics_that_pytorch_has_and_adds_none(self):
        stats, segments, names = output(
            "cachalot_cuda.torch.install(release='2.11')\nblock = allocate(1000)\n"
            "print(json.dumps([torch._C._cuda_memoryStats(0), torch._C._cuda_memorySnapshot(None)['segments'],"
            " sorted(vars(torch._C))]))")
        self.assertEqual(stats["allocated_bytes"]["all"]["current"], 1024)
        self.assertEqual(segments[0]["blocks"][0]["requested_size"], 1000)
        self.assertEqual(names, ["_accelerator_getDeviceStats", "_cuda_memorySnapshot", "_cuda_memoryStats"])

    def test_refuses_to_come_too_late_or_twice(self):
        refused = output(
            "refused = []\n"
            "def attempt():\n"
            "    try: cachalot_cuda.torch.install()\n"
            "    except RuntimeError as error: refused.append(str(error))\n"
            "torch.cuda.initialized = True\nattempt()\ntorch.cuda.initialized = False\nattempt()\nattempt()\n"
            "print(json.dumps([refused, len(torch.cuda.current)]))")
        self.assertEqual(refused, [["cachalot_cuda.torch.install() must come before the first use of CUDA",
                                    "cachalot is installed already"], 1])

    def test_names_what_a_word_may_be_and_installs_nothing(self):
        refused = output(
            "refused = []\n"
            "for options in ({'release': '1.0'}, {'contexts': 'all'}, {'mend': ['all']}):\n"
            "    try: cachalot_cuda.torch.install(**options)\n"
            "    except ValueError as error: refused.append(str(error))\n"
            "print(json.dumps([refused, len(torch.cuda.current)]))")
        self.assertEqual(refused, [["release must be one of None, '2.11', '2.15', not '1.0'",
                                    "contexts must be one of None, 'stack', 'labels', not 'all'",
                                    "mend must be one of 'fallback_errors', 'fallback_expandable', "
                                    "'handle_type', 'search_after_release', 'history_order', 'rejection', "
                                    "'reserve', 'split_limit', not 'all'"], 0])

    def test_says_which_options_harm_each_other_unless_that_is_mended(self):
        for mend, said in ("[]", True), ("['split_limit']", False):
            done = run(f"{TORCH}\ncachalot_cuda.torch.install("
                       f"'max_split_size_mb:64,expandable_segments:True', mend={mend})\ncachalot_cuda.stats()")
            self.assertEqual("can reserve memory without bound" in done.stderr, said, done.stderr)

    def test_never_falls_back_to_the_hosts_memory(self):
        assert_is_on_a_gpu_or_nothing("cachalot_cuda.torch.install()")

    def test_leaves_pytorch_its_own_allocator_where_the_switch_says_so(self):
        done = run(TORCH + "cachalot_cuda.torch.install()\npool = cachalot_cuda.torch.mem_pool(no_split=True)\n"
                   "print(json.dumps([len(torch.cuda.current), cachalot_cuda.torch.is_installed(),"
                   " list(pool.arguments), pool.options]))", CACHALOT_DISABLE="1")
        self.assertEqual(json.loads(done.stdout), [0, False, [], {"no_split": True}])
        self.assertEqual(done.stderr, "CACHALOT_DISABLE=1: PyTorch keeps its own allocator\n"
                                      "CACHALOT_DISABLE=1: torch.cuda.MemPool keeps its own allocator\n")

    def test_replaces_the_switch_of_caching_and_its_question(self):
        self.assertEqual([True, False], output(
            "torch._C._cuda_cudaCachingAllocator_enable = torch._C._cuda_cudaCachingAllocator_is_enabled = None\n"
            "cachalot_cuda.torch.install()\nseen = [torch._C._cuda_cudaCachingAllocator_is_enabled()]\n"
            "torch._C._cuda_cudaCachingAllocator_enable(False)\n"
            "print(json.dumps([*seen, torch._C._cuda_cudaCachingAllocator_is_enabled()]))"))


class Pools(unittest.TestCase):
    def test_are_pytorchs_own_without_install(self):
        arguments, options = output(
            "cachalot_cuda.torch.mem_pool()\npool = cachalot_cuda.torch.mem_pool(use_on_oom=True)\n"
            "print(json.dumps([sorted(pool.arguments[0].hooks), pool.options]))")
        self.assertEqual((arguments, options), (sorted(HOOKS), {"use_on_oom": True}))

    def test_never_fall_back_to_the_hosts_memory(self):
        assert_is_on_a_gpu_or_nothing("cachalot_cuda.torch.mem_pool()")

    def test_can_be_made_when_cachalot_is_in_use_already(self):
        self.assertEqual({}, output(
            "cachalot_cuda.stats()\nprint(json.dumps(cachalot_cuda.torch.mem_pool().options))"))

    def test_are_cachalots_after_install_and_end_with_their_object(self):
        identity, count, mine, error = output(
            "cachalot_cuda.torch.install()\npool = torch.cuda.MemPool(no_split=True)\n"
            "seen = [pool.id, pool.use_count(), isinstance(pool, cachalot_cuda.torch.MemPool)]\n"
            "del pool\n"
            "from cachalot_cuda import _c, _library\nimport ctypes\n"
            "try: _library.call('pool_use_count', _library.allocator(), 0, _c.PoolId(0, 77), ctypes.c_int32())\n"
            "except cachalot_cuda.InvalidStateError as error: seen.append(str(error))\n"
            "print(json.dumps(seen))")
        self.assertEqual((identity, count, mine), ([0, 77], 1, True))
        self.assertNotEqual(error, "")

    def test_that_are_pinned_keep_their_memory_when_they_are_gone(self):
        reserved = output(
            "cachalot_cuda.torch.install(policy='serving')\n"
            "from cachalot_cuda import _c, _library\n"
            "pool = torch.cuda.MemPool(pinned=True)\n"
            "key = (_library.allocator(), 0, _c.PoolId(*pool.id))\n"
            "end = route_all(pool.id)\nfree(allocate(4 << 20))\nend()\n"
            "pool.set_pinned(False)\npool.set_pinned(True)\n"
            "del pool\ncachalot_cuda.empty_cache()\nreserved = [cachalot_cuda.memory_reserved()]\n"
            "_library.call('pool_set_pinned', *key, 0)\n"
            "cachalot_cuda.empty_cache()\nprint(json.dumps([*reserved, cachalot_cuda.memory_reserved()]))")
        self.assertEqual(reserved, [4 << 20, 0])

    def test_sleep_and_wake_on_the_current_stream(self):
        freed, states, reserved, calls = output(
            "cachalot_cuda.torch.install('expandable_segments:True')\npool = torch.cuda.MemPool()\n"
            "end = route_all(pool.id)\nblock = allocate(30 * MIB)\nend()\nasked = []\n"
            "def current_stream(device):\n"
            "    asked.append(device)\n"
            "    return types.SimpleNamespace(cuda_stream=5)\n"
            "torch.cuda.current_stream = current_stream\n"
            "states, reserved = [pool.state], []\nfreed = pool.sleep()\n"
            "states.append(pool.state)\nreserved.append(cachalot_cuda.memory_reserved())\n"
            "pool.wake()\nstates.append(pool.state)\nreserved.append(cachalot_cuda.memory_reserved())\n"
            "pool.sleep(False, stream=7)\npool.wake(stream=7)\nfree(block)\n"
            "print(json.dumps([freed, states, reserved, asked]))")
        self.assertEqual(freed, 40 << 20)
        self.assertEqual(states, ["awake", "asleep", "awake"])
        self.assertEqual(reserved, [0, 40 << 20])
        self.assertEqual(calls, [0, 0])

    def test_that_are_gone_and_have_no_blocks_do_not_sleep_on(self):
        pools = output(
            "cachalot_cuda.torch.install('expandable_segments:True')\npool = torch.cuda.MemPool()\n"
            "end = route_all(pool.id)\nblock = allocate(30 * MIB)\nend()\n"
            "pool.sleep('all', stream=0)\npools = [pool.sleep_stats().pools]\ndel pool\n"
            "pools.append(cachalot_cuda.sleep_stats().pools)\nfree(block)\n"
            "print(json.dumps([*pools, cachalot_cuda.sleep_stats().pools, cachalot_cuda.memory_reserved()]))")
        self.assertEqual(pools, [1, 1, 0, 0])

    def test_with_an_allocator_of_their_own_are_refused_after_install(self):
        self.assertIn("native allocator", output(
            "cachalot_cuda.torch.install()\n"
            "try: torch.cuda.MemPool(object())\n"
            "except NotImplementedError as error: print(json.dumps(str(error)))"))


if __name__ == "__main__":
    unittest.main()
