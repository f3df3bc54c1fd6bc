# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reports of Nsight Systems as its SQLite export has them, after the documented schema; no report of nsys's own."""
import sqlite3

ALLOCATION, DEALLOCATION = 0, 1
PAGEABLE, PINNED, DEVICE, ARRAY, MANAGED = range(5)
KINDS = ["PAGEABLE", "PINNED", "DEVICE", "ARRAY", "MANAGED", "DEVICE_STATIC", "MANAGED_STATIC", "UNKNOWN"]

SCHEMA = """
CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE ENUM_CUDA_DEV_MEM_EVENT_OPER (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE TARGET_INFO_GPU (vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, busLocation TEXT,
  totalMemory INTEGER, cuDevice INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
  globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER NOT NULL, globalPid INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, address INTEGER NOT NULL, pc INTEGER NOT NULL,
  bytes INTEGER NOT NULL, memKind INTEGER NOT NULL, memoryOperationType INTEGER NOT NULL, name TEXT,
  correlationId INTEGER, streamId INTEGER, localMemoryPoolAddress INTEGER, localMemoryPoolReleaseThreshold INTEGER,
  localMemoryPoolSize INTEGER, localMemoryPoolUtilizedSize INTEGER, importedMemoryPoolAddress INTEGER,
  importedMemoryPoolProcessId INTEGER);
"""


def global_id(process, thread=0):
    return process << 24 | thread


def write(path, events, process=4711, calls=(), start_ns=1_795_000_000_000_000_000, total=80 << 30, schema=SCHEMA):
    """events: (start_ns, operation, kind, address, bytes, call, stream or None, pool or None[, device[, process]])
    calls: (call, start_ns, end_ns, thread)"""
    with sqlite3.connect(path) as db:
        db.executescript(schema)
        for i, name in enumerate(KINDS):
            db.execute("INSERT INTO ENUM_CUDA_MEM_KIND VALUES (?, ?, ?)", (i, "CUDA_MEMOPR_MEMORY_KIND_" + name, name))
        for i, name in enumerate(["ALLOCATION", "DEALLOCATION"]):
            db.execute("INSERT INTO ENUM_CUDA_DEV_MEM_EVENT_OPER VALUES (?, ?, ?)",
                       (i, "CUDA_DEV_MEM_EVENT_OPR_" + name, name))
        db.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?, '', '')", (start_ns,))
        db.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, 0, 'a GPU', '', ?, 0)", (total,))
        for start, operation, kind, address, size, call, stream, pool, *rest in events:
            device = rest[0] if rest else 0
            of = rest[1] if len(rest) > 1 else process
            db.execute("INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (?,?,?,1,?,0,?,?,?,NULL,?,?,?,NULL,NULL,NULL,"
                       "NULL,NULL)", (start, global_id(of), device, address, size, kind, operation, call, stream, pool))
        for call, begin, end, thread in calls:
            db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,0,?,?,0,0,NULL)",
                       (begin, end, global_id(process, thread), call))
    db.close()
