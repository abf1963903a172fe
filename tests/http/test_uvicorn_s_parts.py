from __future__ import annotations

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from paceline.http import upgrades


def test_the_parts_of_uvicorn_that_are_relied_on_are_there() -> None:
    assert upgrades.protocol() is upgrades.Connection


def test_without_one_of_them_uvicorn_s_own_connection_serves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(HttpToolsProtocol, "_get_upgrade")
    assert upgrades.protocol() == "httptools"
