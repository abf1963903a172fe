"""The judges and the loads that there are."""

from __future__ import annotations

from judge import Judge, Load
from judge_aiperf import AIPERF
from judge_guidellm import GUIDELLM
from judge_vllm import VLLM

JUDGES: tuple[Judge, ...] = (GUIDELLM, AIPERF, VLLM)

LOADS = (
    Load("gpu-40-closed", "`gpu-40`, 8 at a time", "gpu-40", 48, 200, streams=8),
    Load("wafer-750-closed", "`wafer-750`, 8 at a time", "wafer-750", 160, 500, streams=8),
    Load("gpu-40-poisson", "`gpu-40`, 2 a second (Poisson)", "gpu-40", 48, 200, rate=2.0),
    Load("wafer-750-poisson", "`wafer-750`, 4 a second (Poisson)", "wafer-750", 120, 500, rate=4.0),
)
