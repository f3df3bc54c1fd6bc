# SPDX-License-Identifier: MIT OR Apache-2.0
"""What each profile of gen_rough.py does, and how often."""

POOL_ACTIONS = {"create_pool": 2, "enter_pool": 4, "leave_pool": 3, "drop_pool": 1.5}
EXTRA_ACTIONS = {
    "raw": {"allocate_raw": 20, "reuse_id": 3, "allocate_odd": 2, "change_current": 1},
    "callbacks": {"callback": 5, "allocate_large": 8, "allocate_raw": 3},
    "own": {**POOL_ACTIONS, "fail_own": 2, "allocate_large": 3, "ask_pool": 1},
    "fallback": {**POOL_ACTIONS, "change_fallback": 3, "allocate_large": 12, "fail": 1},
    "routing": {**POOL_ACTIONS, "join_pool": 1, "ask_pool": 3, "misuse_pool": 1, "empty": 1},
    "captures": {
        **{"begin_capture": 3, "work_in_capture": 14, "fork_and_join": 5, "end_capture": 1.5},
        **{"drop_pool": 1, "enter_pool": 0.5, "leave_pool": 1, "ask_pool": 0.5},
    },
    "streams": {"record": 12, "change_work": 10, "settle": 1},
    "history": {"history": 3, "trace": 1, "metadata": 3, "log": 0.2, "reset": 0.5},
    "faults": {"fail": 3, "error": 3, "pending_error": 2, "fraction": 1, "allocate_large": 8},
    "settings": {"set_options": 6, "set_wrongly": 2, "switch_caching": 1.5, "fraction": 1},
}
EXTRA_ACTIONS["raw"].update({"delete": 0.5})
EXTRA_ACTIONS["settings"].update({"settings": 0.5, "allocate_raw": 2})
EXTRA_ACTIONS["everything"] = {
    name: weight / 3 for extra in list(EXTRA_ACTIONS.values()) for name, weight in extra.items()
}
PROFILES = list(EXTRA_ACTIONS)

COMMON_ACTIONS = {"allocate": 40, "free": 34, "record": 4, "change_work": 3, "settle": 1}
COMMON_ACTIONS.update({"empty": 0.6, "reset": 0.4, "report": 2, "addresses": 0.2, "peer": 0.2})
# By the minor release that brings them.
NEWER_ACTIONS = {
    12: {"ask_context": 0.5},
    13: {"allocate_at": 1.5},
    14: {"annotate": 1},
    15: {"reserve": 1.5},
}

# Profiles in which the device's memory can run out.
TIGHT_PROFILES = ("callbacks", "own", "fallback", "faults", "everything")
