from __future__ import annotations

import json
import math

import pytest
from openai.types import Model

from paceline.core.profile import Engine, Profile
from paceline.wire.models import encode_model, encode_models
from tests.wire.fakes import PROFILE


def test_a_model_is_openais_with_our_details() -> None:
    body = encode_model("forty", PROFILE, 1_780_000_000)
    model = Model.model_validate_json(body, strict=True)
    assert (model.id, model.created, model.owned_by) == ("forty", 1_780_000_000, "paceline")
    details = json.loads(body)["paceline"]
    assert details["profile"] == "flat-40"
    assert details["ceiling_tokens_per_second"] == pytest.approx(40.0)


def test_a_profile_without_a_clock_has_no_ceiling() -> None:
    instant = Profile("instant", "At once", Engine(step_ms=1.0), kind="instant")
    assert math.isinf(instant.ceiling_tok_s)
    assert (
        json.loads(encode_model("instant", instant, 1))["paceline"]["ceiling_tokens_per_second"]
        is None
    )


def test_the_list_keeps_its_order() -> None:
    got = json.loads(encode_models([("b", PROFILE), ("a", PROFILE)], 1))
    assert got["object"] == "list"
    assert [Model.model_validate(entry, strict=True).id for entry in got["data"]] == ["b", "a"]
