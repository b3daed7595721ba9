"""Walks the whole table in several processes: each has its own gateways and servers, and takes some of the columns.

Owns the processes, and the file in which a process leaves what its walks saw. Invariant: every column is taken by one
process, and walks before one server never run beside each other: what a server tells of goes to all its clients.
"""
import concurrent.futures
import json
import pathlib
import tempfile

import bridge_page
import jobs


def leave(cells, path):
    """Writes what the walks saw, and keeps what others saw elsewhere."""
    path = pathlib.Path(path)
    known = {tuple(key): cell for key, cell in json.loads(path.read_text())} if path.exists() else {}
    path.write_text(json.dumps([[list(key), cell] for key, cell in {**known, **cells}.items()]))


def run(arguments, count):
    """Walks the table in `count` processes and writes the page; returns [(verdict, test, seconds)]."""
    found, cells = [], {}
    with tempfile.TemporaryDirectory(prefix="smartgate-matrix-") as folder, concurrent.futures.ThreadPoolExecutor(count) as pool:
        files = [pathlib.Path(folder) / f"{index}.json" for index in range(count)]
        running = [pool.submit(jobs.one, "bridge", index, count, [*arguments, "--shard", f"{index}/{count}", "--cells", str(file)])
                   for index, file in enumerate(files)]
        for done in concurrent.futures.as_completed(running):
            found += jobs.told(*done.result())
        for file in filter(pathlib.Path.exists, files):
            cells |= {tuple(key): cell for key, cell in json.loads(file.read_text())}
    bridge_page.write(cells)
    return found
