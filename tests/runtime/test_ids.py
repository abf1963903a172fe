"""Ids are random, of their length, and never the same twice: not in a forked process either."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from paceline.runtime.ids import random_hex


def test_each_is_another_whoever_asks() -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: random_hex(12), range(4000)))
    assert len(set(found)) == 4000
    assert {len(each) for each in found} == {24}
    assert len(bytes.fromhex(random_hex(16))) == 16


def test_a_forked_process_has_ids_of_its_own() -> None:
    random_hex(5)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, random_hex(5).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100).decode() != random_hex(5)
    os.close(reader)
    os.close(writer)
